"""How fast one process of devices is, against k6 on the same endpoint; its memory a device, and in a long run.

The endpoint is nginx on processor 0, which answers at once; either load has processor 1 for itself. k6 is no part of
the lab: `go install go.k6.io/k6@v0.57.0`, checksum h1:l1jivNtbCQYNhgvl+O6SfzwabqNlazr8OLYjxm8lNGw=; --k6 names it.
"""

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PORT, DEVICES_PORT = 18080, 9210
ADDRESS = f"http://127.0.0.1:{PORT}"
CONFIGURATION = f"""
daemon off; pid /tmp/nginx.pid; worker_processes 1; error_log stderr error;
events {{ worker_connections 9000; }}
http {{
    access_log off; keepalive_requests 100000000;
    client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
    server {{
        listen 127.0.0.1:{PORT} backlog=4096;
        location /channels/ {{ return 202; }}
        location / {{ return 200 '{{}}'; }}
    }}
}}
"""
SCRIPT = """
import http from 'k6/http';
export const options = { scenarios: { one: SCENARIO }, summaryTrendStats: ['med', 'p(99)', 'max'] };
const body = '[{"n":"bench-0-0","vs":"' + 'x'.repeat(36) + '"}]';
const params = { headers: { Authorization: 'Thing key', 'Content-Type': 'application/senml+json' } };
export default function () { http.post('ADDRESS/channels/c/messages', body, params); }
"""
CONNECTIONS = 50
TMP = ("--tmpfs", "/tmp:mode=1777")
KIB = 1024


@contextlib.contextmanager
def container(*words: str) -> Iterator[int]:
    """Run a container as long as the context lasts; yield the pid of its first process."""
    name = subprocess.run(
        ["docker", "run", "--detach", "--rm", "--network", "host", "--ulimit", "nofile=20000", *TMP, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    try:
        found = subprocess.run(["docker", "inspect", "-f", "{{.State.Pid}}", name], check=True, capture_output=True)
        yield int(found.stdout)
    finally:
        subprocess.run(["docker", "kill", name], check=True, capture_output=True)


def ask(what: str, body: dict[str, Any] | None = None) -> Any:
    """Return the answer of the process of devices."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{DEVICES_PORT}/{what}", json.dumps(body or {}).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def until_there(url: str) -> None:
    """Return once something answers."""
    end_s = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.1)
        else:
            return


def begin(devices: int, period_ms: float, load_s: float) -> None:
    """Start a load of so many devices."""
    plan = {
        "name": "bench",
        "first": 0,
        "devices": devices,
        "routes": {"": ADDRESS},
        "certificate": "",
        "period_ns": round(period_ms * 1e6),
        "warm_up_ns": 2_000_000_000,
        "load_ns": round(load_s * 1e9),
        "deadline_ns": 5_000_000_000,
        "payload_bytes": 36,
        "drop_probability": 0.0,
        "seed": 0,
    }
    ask("begin", {"system": "magistrala", "plan": plan})


def watch(seconds: float) -> tuple[float, int]:
    """Poll as a controller does until `seconds` of the plan; return the time and the successes by then."""
    while True:
        progress = ask("progress")
        if progress["now_ns"] >= seconds * 1e9:
            return progress["now_ns"] / 1e9, sum(row["succeeded"] for row in progress["seconds"])
        time.sleep(0.2)


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith("VmRSS:"))


def highest_rate(seconds: float) -> float:
    """Return the requests a second of one process, each of its devices without a pause."""
    begin(CONNECTIONS, 1, 2 + seconds)
    (before_s, before), (after_s, after) = watch(4), watch(4 + seconds)
    ask("end")
    return (after - before) / (after_s - before_s)


def response_us(rate: int, seconds: float) -> dict[str, float]:
    """Return the response of a load of `rate` requests a second, from due to answered."""
    begin(rate, 1000, seconds)
    watch(2 + seconds)
    counts = ask("end")["histograms"]["response"]["counts"]
    values = sorted((int(upper), count) for upper, count in counts.items())
    whole = sum(counts.values())
    found = {}
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        seen = 0
        for upper, count in values:
            seen += count
            if seen >= share * whole:
                found[name] = upper / 1000
                break
    return found


def k6(program: str, scenario: dict[str, Any]) -> dict[str, Any]:
    """Return k6's own figures of a scenario, on processor 1."""
    with tempfile.TemporaryDirectory() as folder:
        script, summary = Path(folder, "load.js"), Path(folder, "summary.json")
        script.write_text(SCRIPT.replace("SCENARIO", json.dumps(scenario)).replace("ADDRESS", ADDRESS))
        command = ["taskset", "-c", "1", program, "run", "--quiet", "--summary-export", str(summary), str(script)]
        environment = {**os.environ, "K6_NO_USAGE_REPORT": "true", "GOMAXPROCS": "1"}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        found: dict[str, Any] = json.loads(summary.read_text())["metrics"]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--k6", default="", help="the program; without it only the devices are measured")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--long", type=float, default=60, help="seconds of the long run")
    parser.add_argument("--rate", type=int, default=300, help="requests a second of the open loop")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "nginx.conf").write_text(CONFIGURATION)
        nginx = ("--cpuset-cpus", "0", "--entrypoint", "nginx", "--volume", f"{folder}:/conf:ro")
        devices = ("--cpuset-cpus", "1", "--env", "LOAD_PROCESSES=1", "looplab/devices:0.1.0")
        with container(*nginx, "looplab/magistrala:0.1.0", "-c", "/conf/nginx.conf", "-e", "stderr"):
            until_there(ADDRESS)
            with container(*devices) as pid:
                until_there(f"http://127.0.0.1:{DEVICES_PORT}/")
                measure_devices(pid, options)
            if options.k6:
                measure_k6(options)
    print("load average", *os.getloadavg())


def measure_devices(pid: int, options: argparse.Namespace) -> None:
    """Print the figures of one process of devices."""
    names = ("thing", "key", "domain", "channel", "access", "refresh")
    for first in range(0, 2000, 20):
        ask("entries", {"first": first, "entries": [dict.fromkeys(names, "x" * 36) for _ in range(20)]})
    idle = resident(pid)
    print(f"devices: {highest_rate(options.seconds):.0f} requests/s with {CONNECTIONS} connections")
    print(f"devices: at {options.rate}/s", response_us(options.rate, options.seconds), "us")
    # Every device has its connection after one period.
    begin(2000, 5000, 10)
    watch(11)
    each = (resident(pid) - idle) / 2000
    print(f"devices: {each / KIB:.1f} KiB a device of 2000 ({idle >> 20} MiB without)")
    ask("end")
    begin(200, 400, options.long)
    held = []
    for second in (10, options.long / 2, options.long):
        watch(2 + second)
        held.append(f"{resident(pid) / 2**20:.1f}")
    print(f"devices: {', '.join(held)} MiB after 10, {options.long / 2:g} and {options.long:g} s of 500 requests/s")
    ask("end")


def measure_k6(options: argparse.Namespace) -> None:
    """Print k6's figures for the same endpoint."""
    closed = k6(options.k6, {"executor": "constant-vus", "vus": CONNECTIONS, "duration": f"{options.seconds:g}s"})
    print(f"k6: {closed['http_reqs']['rate']:.0f} requests/s with {CONNECTIONS} connections")
    constant = {
        "executor": "constant-arrival-rate",
        "rate": options.rate,
        "timeUnit": "1s",
        "duration": f"{options.seconds:g}s",
        "preAllocatedVUs": CONNECTIONS,
        "maxVUs": 500,
    }
    duration = k6(options.k6, constant)["http_req_duration"]
    print(f"k6: at {options.rate}/s p50 {1000 * duration['med']:.0f}, p99 {1000 * duration['p(99)']:.0f} us")


if __name__ == "__main__":
    main()
