"""Latency of the Python client beside a C client on the same simulated board, in turn: `python3 bench/asip_clients.py`.

Needs the lab's image `robot`, gcc and mosquitto. Prints median and p95 in ms for each transport, and their ratio.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from support.asip_parts import ASIP_FILES, AsipParts  # noqa: E402
from support.containers import copy_out, own_image  # noqa: E402
from support.parts import HOST  # noqa: E402

from looplab.experiments.asip.workers import WorkerClient  # noqa: E402

ROUNDS, TESTS = 4, 50
WORDS = {"nodelay": "on", "read": "block", "out": 13, "in": 4, "in_port": 7, "in_bit": 5}


def in_python(parts: AsipParts, transport: str) -> list[float]:
    """Latencies in ms."""
    way = {"transport": transport, "address": parts.addresses[transport]}
    pace = {"tests": TESTS, "warmup": 50, "interval_us": 20_000, "deadline_us": 1_000_000}
    with WorkerClient("python", f"{HOST}:{parts.worker_port}") as worker:
        samples, _ = worker.latency({**WORDS, **way, **pace}, 10)
    return [(received - sent) / 1e6 for _, _, sent, received in samples]


def in_c(program: Path, parts: AsipParts, transport: str) -> list[float]:
    """Latencies in ms."""
    where = parts.addresses[transport].split(":")
    done = subprocess.run([program, transport, *where, str(TESTS)], capture_output=True, text=True, check=True)
    return [float(line) / 1e3 for line in done.stdout.split()]


def main(files: Path | None) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if files is None:
            files = folder / "files"
            files.mkdir()
            copy_out(own_image("robot"), files, *ASIP_FILES)
        program = folder / "asip_floor"
        subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", program, ROOT / "bench" / "asip_floor.c"], check=True)
        parts = AsipParts(files, folder)
        try:
            print(f"{'way':7} {'C p50':>7} {'p95':>7} {'Python':>7} {'p95':>7} {'ratio':>6}")
            for transport in ("serial", "tcp"):
                ours: list[float] = []
                floor: list[float] = []
                for _ in range(ROUNDS):
                    floor += in_c(program, parts, transport)
                    ours += in_python(parts, transport)
                figures = [statistics.quantiles(side, n=20)[at] for side in (floor, ours) for at in (9, 18)]
                print(f"{transport:7} {' '.join(f'{ms:7.3f}' for ms in figures)} {figures[2] / figures[0]:6.3f}")
        finally:
            parts.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
