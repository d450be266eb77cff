#!/usr/bin/env python3
"""Check the instrument: by turns a run of the lab and a C loop, and all packets on the engine's bridge.

Scenario 0, corrected, QoS 0, 20 ms; both send to the same broker and bridge. tcpdump stamps each request as it leaves
the sender's interface and each answer on its way there. Needs root and the lab's images (./lab setup).

    python3 bench/instrument.py [--rounds 3] [--messages 300] [--keep FOLDER]
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from bystander import start  # noqa: E402
from kept import keep_run, keeping, options, write_rows  # noqa: E402
from latency import FLOOR, build_floor, docker  # noqa: E402

from looplab.lab.checkout import Lab  # noqa: E402

NETWORK, CAPTURE = "looplab_default", "looplab-bench-capture"
COMMAND = ("./lab", "run", "scenario0", "--quick", "--intervals", "20", "--fidelity", "corrected", "--busy", "--json")
# A request is E-<run>-<sequence>, an answer <run>,<sequence>,ok,…: at QoS 0 a segment of its own each. Both pass the
# bridge twice, and only a request that goes to the broker and an answer that comes from it are the sender's own.
TO_BROKER, FROM_BROKER = re.compile(rb"request/E-(\w+)-(\d+)"), re.compile(rb"answer/(\w+),(\d+),")
PORT = 1883
GLOBAL_HEADER, RECORD_HEADER, ETHERNET_HEADER, NANOSECOND_MAGIC = 24, 16, 14, 0xA1B23C4D


def packets(file: Path) -> Iterator[tuple[str, str, int, int]]:
    """Yield way (out: a request, in: an answer), run, sequence and stamp in ns of each message of a pcap file."""
    octets, at = file.read_bytes(), GLOBAL_HEADER
    assert int.from_bytes(octets[:4], "little") == NANOSECOND_MAGIC
    while at < len(octets):
        seconds, part_ns, size = (int.from_bytes(octets[at + k : at + k + 4], "little") for k in (0, 4, 8))
        packet = octets[at + RECORD_HEADER + ETHERNET_HEADER : at + RECORD_HEADER + size]
        segment = packet[4 * (packet[0] & 15) :]
        way, form = ("out", TO_BROKER) if int.from_bytes(segment[2:4], "big") == PORT else ("in", FROM_BROKER)
        for run, sequence in form.findall(segment):
            yield way, run.decode(), int(sequence), 1_000_000_000 * seconds + part_ns
        at += RECORD_HEADER + size


def measure(given: argparse.Namespace, folder: Path, place: Path) -> None:
    """Write the lab's runs, what the C loop prints in each round, and the stamps of the packets to `folder`.

    tcpdump writes to `place`.
    """
    lab = Lab(ROOT)
    start("scenario0", 0)
    bridge = f"br-{docker('network', 'inspect', '--format', '{{.Id}}', NETWORK)[:12]}"
    rights = ("--network", "host", "--cap-add", "NET_RAW", "--volume", f"{place}:/captures", "--entrypoint", "tcpdump")
    stamps = ("-n", "-i", bridge, "-Z", "root", "--time-stamp-precision=nano", "-w", "/captures/packets.pcap")
    docker("run", "--detach", "--name", CAPTURE, *rights, lab.own_image("capture"), *stamps, f"tcp port {PORT}")
    floor = ("--role", "controller", "--host", "broker", "--interval-ms", "20", "--qos", "0")
    count, printed = ("--messages", str(given.messages)), []
    try:
        for _ in range(given.rounds):
            # A run of the lab ends with its parts.
            start("scenario0", 0)
            time.sleep(3)
            printed.append(json.loads(docker("run", "--rm", "--network", NETWORK, FLOOR, *floor, *count)))
            done = subprocess.run([*COMMAND, *count], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
            keep_run(folder, ROOT / "results" / json.loads(done.stdout)["runs"][0]["run_id"])
        # The kernel hands packets over in blocks.
        time.sleep(3)
    finally:
        docker("stop", CAPTURE)
        docker("rm", CAPTURE)
        subprocess.run([ROOT / "lab", "down"], capture_output=True, check=False)
    write_rows(folder / "floor.jsonl", printed)
    with (folder / "packets.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([("way", "run", "sequence", "at_ns"), *packets(place / "packets.pcap")])


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=300)
    given = parser.parse_args()
    build_floor(Lab(ROOT))
    with keeping("instrument", given.keep) as folder, TemporaryDirectory() as place:
        measure(given, folder, Path(place))
    return 0


if __name__ == "__main__":
    sys.exit(main())
