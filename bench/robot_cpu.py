#!/usr/bin/env python3
"""Measure the virtual robot: CPU share and answer times at a steady request rate.

    bench/robot_cpu.py [--image looplab/robot:dev] [--rate 50] [--seconds 10] [--rounds 3]

Runs the robot's image, asks for the temperature `rate` times a second over TCP and prints one JSON document.
The CPU share is the board program's own CPU time over the measured time, so other load hardly changes it. The answer
times are wall-clock times and grow with other load. `robot_ms` is the same answer in processor cycles, from the
request's first bit to the answer's last.
"""

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CPU_SHARE_LIMIT = 0.25
CYCLES_PER_MS = 16_000


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    figures = {"min": ordered[0], "avg": statistics.mean(ordered), "max": ordered[-1]}
    figures |= {f"p{share}": percentile(ordered, share / 100) for share in (50, 95, 99)}
    return {name: round(value, 3) for name, value in figures.items()}


def read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        chunk = connection.recv(64)
        if not chunk:
            raise SystemExit("robot_cpu: the robot closed the connection")
        line += chunk
    return line


def ask_steadily(port: int, rate: float, seconds: float) -> list[float]:
    """Return the answer times in ms of requests due at a fixed rate, whatever came back."""
    times_ms = []
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        read_line(connection)
        start = time.perf_counter()
        for number in range(int(rate * seconds)):
            time.sleep(max(0.0, start + number / rate - time.perf_counter()))
            sent = time.perf_counter()
            connection.sendall(b"T")
            read_line(connection)
            times_ms.append((time.perf_counter() - sent) * 1000)
    return times_ms


def robot_statistics(program: subprocess.Popen[str]) -> dict[str, float]:
    """End the robot; return the line that it prints last."""
    program.terminate()
    _, errors = program.communicate(timeout=10)
    line = next(line for line in errors.splitlines() if line.startswith("robot: statistics "))
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", line)}


def robot_times_ms(trace: Path) -> list[float]:
    """Return the time from the request's start bit to the answer's last stop bit, by the trace's cycle stamps."""
    times_ms = []
    started = 0
    for line in trace.read_text().splitlines():
        fields = dict(re.findall(r"(\w+)=(\w+)", line))
        if line.startswith("rx "):
            started = int(fields["wire_start"])
        elif line.startswith("tx ") and fields["byte"] == "0a" and started:
            times_ms.append((int(fields["wire_end"]) - started) / CYCLES_PER_MS)
    return times_ms


def copy_out(image: str, folder: Path) -> None:
    container = run("docker", "create", image)
    try:
        run("docker", "cp", f"{container}:/usr/local/bin/robot", str(folder))
        run("docker", "cp", f"{container}:/usr/share/looplab/mbot_ranger.hex", str(folder))
    finally:
        run("docker", "rm", container)


def one_round(folder: Path, rate: float, seconds: float) -> dict[str, object]:
    trace = folder / "trace"
    program = subprocess.Popen(
        [str(folder / "robot"), "--firmware", str(folder / "mbot_ranger.hex"), "--tcp", "127.0.0.1:0",
         "--boot-ms", "0", "--trace", str(trace)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    port = int(program.stdout.readline().rpartition(":")[2])
    answer_ms = ask_steadily(port, rate, seconds)
    figures = robot_statistics(program)
    return {
        "cpu_share": round(figures["cpu_s"] / seconds, 4),
        "answer_ms": summary(answer_ms),
        "robot_ms": summary(robot_times_ms(trace)),
        "lag_max_us": figures["lag_max_us"],
        "lags_over_1ms": figures["lags_over_1ms"],
        "wakeups_per_s": round(figures["wakeups"] / seconds, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU share and answer times of the virtual robot")
    parser.add_argument("--image", default="looplab/robot:dev")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy_out(options.image, Path(folder))
        rounds = [one_round(Path(folder), options.rate, options.seconds) for _ in range(options.rounds)]
    cpu_share = statistics.median(float(str(figures["cpu_share"])) for figures in rounds)
    within = cpu_share <= CPU_SHARE_LIMIT
    document = {"image": options.image, "rate": options.rate, "cpu_share_median": cpu_share,
                "cpu_share_limit": CPU_SHARE_LIMIT, "within_limit": within, "rounds": rounds}  # fmt: skip
    print(json.dumps(document, indent=2))
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
