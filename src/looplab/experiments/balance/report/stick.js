"use strict";
// Two robots side by side, from the numbers in the page; nothing is fetched. A frame is 20 ms.
const films = JSON.parse(document.getElementById("films").textContent);
const FRAME_MS = 20, METRE = 900, BODY = 150, WHEEL = 29, FALLEN = 785;
const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
const sides = [...document.querySelectorAll(".film")].map((box, at) => {
  const choice = box.querySelector("select");
  films.forEach((film, index) => choice.add(new Option(film.name, index)));
  choice.selectedIndex = Math.min(at, films.length - 1);
  choice.addEventListener("change", () => draw());
  return { choice, canvas: box.querySelector("canvas"), text: box.querySelector("output") };
});
const play = document.getElementById("play"), place = document.getElementById("place");
const longest = Math.max(1, ...films.map((film) => film.frames[0].length));
place.max = longest - 1;
let now = 0, running = false, begun = 0;

function robot(side) {
  const [tilts, ways, volts] = films[side.choice.value].frames;
  const at = Math.min(now, tilts.length - 1), tilt = tilts[at] / 1000, way = ways[at], volt = volts[at] / 10;
  const c = side.canvas.getContext("2d"), { width, height } = side.canvas, floor = height - 60;
  c.clearRect(0, 0, width, height);
  c.strokeStyle = c.fillStyle = "#1a1a1a";
  c.lineWidth = 2;
  c.beginPath(); c.moveTo(0, floor); c.lineTo(width, floor);
  // A mark each 10 cm: the robot stays in the middle, the floor moves.
  for (let mark = -4; mark <= 4; mark++) {
    const x = width / 2 + mark * METRE / 10 - ((way / 1000 * METRE) % (METRE / 10));
    c.moveTo(x, floor); c.lineTo(x - 6, floor + 10);
  }
  c.stroke();
  c.save();
  c.translate(width / 2, floor - WHEEL);
  c.save(); c.rotate(tilt);
  c.fillStyle = Math.abs(tilts[at]) >= FALLEN ? "#ffffff" : "#0072b2";
  c.lineWidth = 3; c.fillRect(-20, -BODY, 40, BODY); c.strokeRect(-20, -BODY, 40, BODY);
  c.restore();
  c.fillStyle = "#ffffff"; c.lineWidth = 4;
  c.beginPath(); c.arc(0, 0, WHEEL - 2, 0, 2 * Math.PI); c.fill(); c.stroke();
  c.rotate(way / 32); c.beginPath(); c.moveTo(0, 0); c.lineTo(0, 2 - WHEEL); c.stroke();
  c.restore();
  // The voltage as a bar from the middle: 7.4 V is a quarter of the width.
  c.fillStyle = "#a84300";
  c.fillRect(width / 2, height - 26, volt / 7.4 * width / 4, 12);
  c.strokeRect(width / 4, height - 26, width / 2, 12);
  const state = Math.abs(tilts[at]) >= FALLEN ? "fallen" : "stands";
  side.text.textContent = `${(now * FRAME_MS / 1000).toFixed(2)} s: ${state}, tilt ${(tilt * 180 / Math.PI).toFixed(1)}°, wheels ${volt.toFixed(1)} V`;
}
function draw() { sides.forEach(robot); place.value = now; }
function go(to) { now = Math.max(0, Math.min(longest - 1, to)); draw(); }
function tick(moment) {
  if (!running) return;
  go(Math.floor((moment - begun) / FRAME_MS));
  if (now >= longest - 1) set(false); else requestAnimationFrame(tick);
}
function set(on) {
  running = on;
  play.textContent = on ? "Pause" : "Play";
  play.setAttribute("aria-pressed", on);
  if (on) { if (now >= longest - 1) now = 0; begun = performance.now() - now * FRAME_MS; requestAnimationFrame(tick); }
}
play.addEventListener("click", () => set(!running));
document.getElementById("back").addEventListener("click", () => { set(false); go(now - 1); });
document.getElementById("forth").addEventListener("click", () => { set(false); go(now + 1); });
place.addEventListener("input", () => { set(false); go(Number(place.value)); });
if (films.length) { go(0); if (!still) set(true); }
