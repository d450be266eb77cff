"""Latency of the Python and the Java client beside a C client on the same simulated board, in turn.

    PYTHONPATH=src:tests .venv/bin/python bench/asip_clients.py [--real-time]

Needs the lab's images `robot` and `asip_java`, and Debian's gcc, libmosquitto-dev and mosquitto. Prints median and p95
in ms for each transport, the ratio of the medians to that of the C client, and this ratio in each round.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from support.asip_parts import ASIP_FILES, AsipParts  # noqa: E402
from support.containers import copy_out, docker, own_image  # noqa: E402
from support.parts import HOST  # noqa: E402
from support.ports import free_port  # noqa: E402
from support.waiting import until  # noqa: E402

from looplab.errors import LabError  # noqa: E402
from looplab.experiments.asip.workers import WorkerClient  # noqa: E402

TESTS, WARM_UP = 50, 50
PRIORITY = 10
WORDS = {"nodelay": "on", "qos": 0, "out": 13, "in": 4, "in_port": 7, "in_bit": 5}


def in_worker(language: str, port: int, way: tuple[str, str]) -> list[float]:
    """Latencies in ms."""
    transport, address = way
    pace = {"tests": TESTS, "warmup": WARM_UP, "interval_us": 20_000, "deadline_us": 1_000_000}
    with WorkerClient(language, f"{HOST}:{port}") as worker:
        samples, _ = worker.latency({**WORDS, "transport": transport, "address": address, **pace}, 10)
    return [(received - sent) / 1e6 for _, _, sent, received in samples]


def in_c(program: Path, way: tuple[str, str]) -> list[float]:
    """Latencies in ms."""
    transport, address = way
    host, _, rest = address.partition(":")
    where = [host, *rest.split("/", 1)] if rest else [host]
    done = subprocess.run([program, transport, *where, str(TESTS)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        # It has printed why.
        raise SystemExit(f"asip_floor {transport} {' '.join(where)}: exit code {done.returncode}")
    return [float(line) / 1e3 for line in done.stdout.split()]


def answers(language: str, port: int) -> bool:
    """Return whether the worker is up."""
    with contextlib.suppress(LabError), WorkerClient(language, f"{HOST}:{port}") as worker:
        return bool(worker.hello())
    return False


def start_java() -> tuple[str, int]:
    """Return container and port of a Java client that shares this machine's network and pseudo-terminals."""
    port = free_port()
    options = ["--network=host", "--user=0", "--volume=/dev/pts:/dev/pts", "--tmpfs=/tmp:exec"]
    container = docker("run", "--detach", "--rm", *options, f"--env=WORKER_PORT={port}", own_image("asip_java"))
    until(lambda: answers("java", port), "the Java client answers")
    return container, port


def with_priority(container: str) -> None:
    """Give real-time priority to this process, to those that it starts, and to a container's."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    process = docker("inspect", "--format", "{{.State.Pid}}", container)
    # Where the kernel gives real-time budgets to control groups (v1), a container has none.
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if "cpu" in controllers.split(","):
            Path(f"/sys/fs/cgroup/cpu{group}/cgroup.procs").write_text(process)
    subprocess.run(["chrt", "--all-tasks", "--fifo", "--pid", str(PRIORITY), process], check=True)


def show(transport: str, rounds: list[dict[str, list[float]]]) -> None:
    """Print a line."""
    whole = {language: [value for one in rounds for value in one[language]] for language in rounds[0]}
    cut = {language: statistics.quantiles(values, n=20) for language, values in whole.items()}
    figures = [f"{cut[language][at]:8.3f}" for language in whole for at in (9, 18)]
    ratios = [f"{cut[language][9] / cut['c'][9]:8.3f}" for language in ("python", "java")]
    middle = statistics.median
    each = [f"{middle(one[language]) / middle(one['c']):6.3f}" for language in ("python", "java") for one in rounds]
    print(f"{transport:7}{''.join(figures)}{''.join(ratios)}  {''.join(each)}", flush=True)


def main(rounds: int, real_time: bool) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = folder / "files"
        files.mkdir()
        copy_out(own_image("robot"), files, *ASIP_FILES)
        program = folder / "asip_floor"
        source = ROOT / "bench" / "asip_floor.c"
        subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", program, source, "-lmosquitto"], check=True)
        container, java_port = start_java()
        try:
            if real_time:
                with_priority(container)
            measure(AsipParts(files, folder), program, java_port, rounds)
        finally:
            docker("kill", container)


def measure(parts: AsipParts, program: Path, java_port: int, rounds: int) -> None:
    """Have the clients measure by turns, and print."""
    try:
        print("way       C p50     p95  Python     p95    Java     p95  Python    Java  by round: Python, Java")
        for way in parts.addresses.items():
            found = [
                {
                    "c": in_c(program, way),
                    "python": in_worker("python", parts.worker_port, way),
                    "java": in_worker("java", java_port, way),
                }
                for _ in range(rounds)
            ]
            show(way[0], found)
    finally:
        parts.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="rounds of each client over each transport")
    parser.add_argument("--real-time", action="store_true", help="board, bridge, broker and clients with SCHED_FIFO")
    options = parser.parse_args()
    main(options.rounds, options.real_time)
