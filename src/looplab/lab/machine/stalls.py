"""Try for ten seconds whether this kernel lets neighbours stall an ordinary task under load (docs/stalls.md).

A bystander in a container wakes every 20 ms beside the lab's stress, first alone, then with neighbours in containers of
their own, as an exporter or a data base would be.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from looplab.lab.programs import call
from looplab.run.accounting import quantile
from looplab.system.machine_facts import boot_id
from looplab.treatments.loads import stress

CACHE = Path(".cache/stalls.json")
# The published load.
STRESS = ("--cpu", "3", "--io", "3", "--vm", "5", "--vm-bytes", "128M")
SECONDS = 4.0
# Lateness beyond this disturbs a loop of 20 ms.
LONG_MS = 25.0
# A bystander that does not wake for so long has no sample.
STUCK_S = 10
# How much worse than alone the neighbours must make it.
FACTOR = 3.0
# A wake-up after a stall is one, those missed meanwhile are not.
BYSTANDER = """
import time
period, due = 20_000_000, time.monotonic_ns()
while True:
    due += period
    time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
    late = time.monotonic_ns() - due
    print(due, late, flush=True)
    due += late // period * period
"""
NEIGHBOUR = """
import time
while True:
    end = time.process_time() + {busy_s}
    while time.process_time() < end: pass
    time.sleep({pause_s})
"""
# (seconds of work, seconds of pause) of each neighbour: a scrape, and two parts with a little to do all the time.
NEIGHBOURS = ((0.04, 1.0), (0.002, 0.05), (0.002, 0.05))


@dataclass(frozen=True)
class Lateness:
    """Of a bystander's wake-ups, in ms."""

    p95_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class Stalls:
    """What was found beside the load, `alone` and with `neighbours`: of two samples the milder one."""

    alone: Lateness
    neighbours: Lateness

    @property
    def stalls(self) -> bool:
        """Whether neighbours make this kernel stall an ordinary task."""
        return self.neighbours.max_ms > max(LONG_MS, FACTOR * self.alone.max_ms)


class Bystander:
    """A process that wakes every 20 ms: `words` run Python on BYSTANDER; ends with `stop`."""

    def __init__(self, words: Sequence[str]) -> None:
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._seen: list[tuple[int, int]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def sample(self, seconds: float) -> Lateness | None:
        """Return the lateness of all wake-ups that fall due in the next `seconds`.

        None if it did not wake, or not again within STUCK_S.
        """
        start = time.monotonic_ns()
        time.sleep(seconds)
        end = time.monotonic_ns()
        if not self._woke_after(end):
            return None
        late = sorted(late for due, late in list(self._seen) if start <= due < end)
        if not late:
            return None
        return Lateness(*(round(value / 1e6, 3) for value in (quantile(late, 0.95), quantile(late, 0.99), late[-1])))

    def _woke_after(self, end: int) -> bool:
        """Wait for a wake-up that fell due after `end`, and return whether it came.

        What is late is printed late: before that, the longest stall may be missing.
        """
        while self._process.poll() is None and time.monotonic_ns() < end + STUCK_S * 10**9:
            if self._seen and self._seen[-1][0] >= end:
                return True
            time.sleep(0.02)
        return False

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            due, late = line.split()
            self._seen.append((int(due), int(late)))


class ContainedBystander(Bystander):
    """The same in a container of `image` (with Python)."""

    def __init__(self, image: str, *more: str) -> None:
        self._name = f"looplab-bystander-{os.getpid()}"
        options = ["--rm", "--network=none", "--entrypoint=python3", f"--name={self._name}", *more]
        super().__init__(["docker", "run", *options, image, "-uc", BYSTANDER])

    def stop(self) -> None:
        # As process 1 it hears no SIGTERM.
        call(["docker", "kill", self._name])
        self._process.wait()


def try_stalls(images: Mapping[str, str], cache: Path) -> Stalls | None:
    """Return what this machine does, or what was found since it booted; None if the trial could not be made.

    `images` are the lab's own by name. It takes ten seconds of all processors, up to twenty where it sees stalls.
    """
    key = boot_id()
    try:
        stored = json.loads(cache.read_text())
        if stored["boot"] == key:
            return Stalls(Lateness(**stored["alone"]), Lateness(**stored["neighbours"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found = _try(images[stress.LOAD.name], images["treatments"])
    if found is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps({"boot": key, **asdict(found)}))
    return found


def _try(load: str, python: str) -> Stalls | None:
    if not all(call(["docker", "image", "inspect", image]).good for image in (load, python)):
        return None
    with ExitStack() as stack:
        bystander = ContainedBystander(python)
        stack.callback(bystander.stop)
        stack.enter_context(_container(load, STRESS))
        time.sleep(1)
        alone = milder(bystander)
        for busy_s, pause_s in NEIGHBOURS:
            code = NEIGHBOUR.format(busy_s=busy_s, pause_s=pause_s)
            stack.enter_context(_container(python, ("-c", code), "--entrypoint=python3"))
        time.sleep(0.5)
        beside = milder(bystander)
    return Stalls(alone, beside) if alone and beside else None


def milder(bystander: Bystander) -> Lateness | None:
    """Return a sample; the milder of two if the first one has a long stall, None if the bystander never woke.

    A single stall may be the machine's own. The scheduler's come again.
    """
    first = bystander.sample(SECONDS)
    if first is None or first.max_ms <= LONG_MS:
        return first
    second = bystander.sample(SECONDS)
    return min((first, second), key=lambda sample: sample.max_ms) if second else None


@contextmanager
def _container(image: str, arguments: Sequence[str], *options: str) -> Iterator[None]:
    started = call(["docker", "run", "--detach", "--rm", "--network=none", *options, image, *arguments])
    try:
        yield
    finally:
        if started.good:
            call(["docker", "kill", started.stdout.strip()])
