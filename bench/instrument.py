#!/usr/bin/env python3
"""Check the instrument: the lab's controller and a C loop in one container, and all packets at its interface.

By turns, both send to the same broker and bridge (scenario 0, corrected, QoS 0, 20 ms). tcpdump stamps each request as
it leaves eth0 and each answer as it comes in. Raw data go to bench/data/instrument; `bench/data.py` prints the figures.
Needs a running engine and the lab's images (./lab setup).

    python3 bench/instrument.py [--rounds 3] [--messages 300] [--keep FOLDER]
"""

import argparse
import csv
import json
import lzma
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from floor_parts import BROKER, FLOOR, build_floor, docker, network  # noqa: E402
from kept import keep_run, options, show  # noqa: E402

from looplab.lab.checkout import Lab  # noqa: E402

NETWORK, BOTH = "looplab-bench-instrument", "looplab/instrument:dev"
DOCKERFILE = f"""FROM {FLOOR}
USER root
RUN apt-get update && apt-get install -y --no-install-recommends python3-minimal python3-paho-mqtt tcpdump procps
ENV PYTHONPATH=/opt/looplab RESULTS_DIR=/results LIVE_DIR=
"""
# A request is E-<run>-<sequence>, an answer <run>,<sequence>,ok,…: at QoS 0 a segment of its own each.
REQUEST, ANSWER = re.compile(rb"request/E-(\w+)-(\d+)"), re.compile(rb"answer/(\w+),(\d+),")
GLOBAL_HEADER, RECORD_HEADER, NANOSECOND_MAGIC = 24, 16, 0xA1B23C4D


def packets(file: Path) -> Iterator[tuple[str, str, int, int]]:
    """Yield way (out: a request, in: an answer), run, sequence and stamp in ns of each message of a pcap file."""
    octets, at = file.read_bytes(), GLOBAL_HEADER
    assert int.from_bytes(octets[:4], "little") == NANOSECOND_MAGIC
    while at < len(octets):
        seconds, part_ns, size = (int.from_bytes(octets[at + k : at + k + 4], "little") for k in (0, 4, 8))
        frame = octets[at + RECORD_HEADER : at + RECORD_HEADER + size]
        for way, form in (("out", REQUEST), ("in", ANSWER)):
            for run, sequence in form.findall(frame):
                yield way, run.decode(), int(sequence), 1_000_000_000 * seconds + part_ns
        at += RECORD_HEADER + size


def measure(given: argparse.Namespace, folder: Path, images: dict[str, str], broker: str) -> list[dict[str, object]]:
    """Return what the C loop printed in each round; the lab's runs and packets.pcap are in `folder`."""
    lab = {
        "SCENARIO": "instrument", "COMMAND": "E", "FIDELITY": "corrected", "INTERVALS_MS": "20", "QOS": "0",
        "MESSAGES": str(given.messages), "REPETITIONS": "1", "TREATMENTS_URL": "http://127.0.0.1:1/",
        "LIVE_DIR": "",
    }  # fmt: skip
    settings = [word for name, value in lab.items() for word in ("--env", f"{name}={value}")]
    source = ["--volume", f"{ROOT}/src:/opt/looplab:ro", "--env", "FIDELITY=corrected"]
    both = ["--cap-add", "NET_RAW", "--volume", f"{folder}:/results", "--entrypoint", "sleep", BOTH, "infinity"]
    printed = []
    with network(NETWORK) as container, ExitStack() as parts:
        for words in (
            [*BROKER, broker],
            ["--network-alias", "robot", images["robot"]],
            [*source, images["bridge"]],
        ):
            parts.enter_context(container(*words))
        name = parts.enter_context(container(*source, *both))
        stamps = ["-n", "-i", "eth0", "-Z", "root", "--time-stamp-precision=nano", "-w", "/results/packets.pcap"]
        docker("exec", "--detach", name, "tcpdump", *stamps, "tcp port 1883")
        time.sleep(2)
        for _ in range(given.rounds):
            # Without the treatments service it is INVALID (1), and whole.
            docker("exec", *settings, name, "python3", "-m", "looplab.experiments", "loop", good=(0, 1))
            words = ["--host", "broker", "--messages", str(given.messages), "--interval-ms", "20", "--qos", "0"]
            printed.append(json.loads(docker("exec", name, "floor", "--role", "controller", "--nodelay", "1", *words)))
        # The kernel hands packets over in blocks.
        time.sleep(3)
        docker("exec", name, "pkill", "-INT", "tcpdump")
        time.sleep(1)
    return printed


def keep(place: Path, folder: Path, printed: list[dict[str, object]]) -> None:
    """Compress what `bench/data.py` reads."""
    for old in place.rglob("*.xz"):
        old.unlink()
    for run in sorted(folder.glob("*-instrument")):
        keep_run(place, run)
        (place / run.name / "transport.csv.xz").write_bytes(lzma.compress((run / "transport.csv").read_bytes()))
    with lzma.open(place / "packets.csv.xz", "wt", newline="") as file:
        csv.writer(file).writerows([("way", "run", "sequence", "at_ns"), *packets(folder / "packets.pcap")])
    with lzma.open(place / "floor.json.xz", "wt") as file:
        json.dump(printed, file)


def main() -> int:
    parser = options(__doc__, "instrument")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=300)
    given = parser.parse_args()
    lab = Lab(ROOT)
    own = {name: lab.own_image(name) for name in ("robot", "bridge", "controller", "capture")}
    build_floor(lab)
    docker("build", "--quiet", "--tag", BOTH, "-", feed=DOCKERFILE)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        keep(given.keep, Path(folder), measure(given, Path(folder), own, lab.settings()["MOSQUITTO_IMAGE"]))
    return show("instrument", given.keep)


if __name__ == "__main__":
    sys.exit(main())
