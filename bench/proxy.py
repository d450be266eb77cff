#!/usr/bin/env python3
"""How long the engine's user-space proxy waits for a processor, and O beside it, with and without the proxy.

Needs root: the proxy is a program of the engine. sudo python3 bench/proxy.py --rounds 4
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from kept import keeping, options, overheads_ms, read_csv, write_rows

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
    """Notes how long the proxies' threads waited for a processor within each EACH_S."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.each_ms: list[float] = []
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
        if waited_ns > (before_ns := self._seen_ns.get(file, waited_ns)):
            self.each_ms.append((waited_ns - before_ns) / 1e6)
        self._seen_ns[file] = waited_ns


def measure(path: str) -> dict[str, object]:
    """Return O of each message and the proxies' waits of one run, in ms. Raises CalledProcessError."""
    waits = Waits()
    waits.start()
    settings = {**os.environ, "RECEIVER": "select", "BROKER_PATH": path}
    done = subprocess.run(COMMAND, cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True, check=True)
    waits.ended.set()
    waits.join()
    [run] = json.loads(done.stdout)["runs"]
    samples = read_csv(ROOT / "results" / run["run_id"] / "samples.csv")
    return {"path": path, "O_ms": overheads_ms(samples), "waits_ms": waits.each_ms}


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    if os.geteuid():
        print("The proxy is a program of the engine: run this by sudo.", file=sys.stderr)
        return 2
    runs = []
    for path in ("port", "direct") * given.rounds:
        runs.append(measure(path))
        time.sleep(1)
    with keeping("proxy", given.keep) as folder:
        write_rows(folder / "runs.jsonl", runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
