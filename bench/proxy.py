#!/usr/bin/env python3
"""How long the engine's user-space proxy waits for a processor, and O beside it, with and without the proxy.

Needs root: the proxy is a program of the engine. sudo python3 bench/proxy.py --rounds 5
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ("./lab", "run", "scenario2", "--quick", "--intervals", "20", "--fidelity", "printed", "--json")
EACH_S = 0.05


def proxies() -> Iterator[Path]:
    """Yield the folder in /proc of each proxy of the broker's port."""
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text() == "docker-proxy\n" and b"\x001883\x00" in comm.with_name("cmdline").read_bytes():
                yield comm.parent
        except OSError:
            continue


class Waits(threading.Thread):
    """Adds up how long the proxies' threads waited for a processor, and keeps the longest wait within EACH_S."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.sum_ms = self.most_ms = 0.0
        self._seen_ns: dict[Path, int] = {}

    def run(self) -> None:
        while not self.ended.wait(EACH_S):
            for proxy in proxies():
                for file in proxy.glob("task/*/schedstat"):
                    self._add(file)

    def _add(self, file: Path) -> None:
        try:
            waited_ns = int(file.read_text().split()[1])
        except OSError:
            return
        waited_ms = (waited_ns - self._seen_ns.get(file, waited_ns)) / 1e6
        self._seen_ns[file] = waited_ns
        self.sum_ms += waited_ms
        self.most_ms = max(self.most_ms, waited_ms)


def measure(path: str) -> tuple[float, float, float]:
    """Return mean O, the proxies' wait in all and their longest, in ms, of one run. Raises CalledProcessError."""
    waits = Waits()
    waits.start()
    settings = {**os.environ, "RECEIVER": "select", "BROKER_PATH": path}
    done = subprocess.run(COMMAND, cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True, check=True)
    waits.ended.set()
    waits.join()
    [run] = json.loads(done.stdout)["runs"]
    [cell] = run["cells"]
    return cell["O_us"]["avg"] / 1000, waits.sum_ms, waits.most_ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    if os.geteuid():
        print("The proxy is a program of the engine: run this by sudo.", file=sys.stderr)
        return 2
    runs: dict[str, list[tuple[float, float, float]]] = {"port": [], "direct": []}
    for _ in range(rounds):
        for path, found in runs.items():
            found.append(measure(path))
            time.sleep(1)
    for path, found in runs.items():
        each = (f"{median(one):.1f} ({min(one):.1f}–{max(one):.1f})" for one in zip(*found, strict=True))
        print(f"| {path} | {' | '.join(each)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
