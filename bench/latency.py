#!/usr/bin/env python3
"""Compare the lab's ends with the floor: a C libmosquitto loop through the same broker, in turn.

Scenario 0, corrected, QoS 0, 20 ms by default, command E. The bridge has its robot: without one it spends the run
looking for it. Prints one line a round and the medians of all rounds.
Needs a running engine and the lab's images (./lab setup); run it on an idle machine.

    python3 bench/latency.py [--rounds 5] [--messages 500] [--qos 0] [--interval 20]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from floor_parts import BROKER, FLOOR, build_floor, docker, network  # noqa: E402

from looplab.lab.checkout import Lab  # noqa: E402

NETWORK = "looplab-bench-latency"
LIMITS = {"transport": 1.2, "application": 1.9}


def floor(options: argparse.Namespace, container: Any) -> dict[str, float]:
    """Return O p50 and lateness of the C ends, each in a container of its own, as the lab's are."""
    ends = ("--host", "broker", "--qos", str(options.qos), "--nodelay", "1")
    with container(FLOOR, "--role", "bridge", *ends):
        out = docker(
            *("run", "--rm", "--network", NETWORK, FLOOR, "--role", "controller", *ends),
            *("--messages", str(options.messages), "--interval-ms", str(options.interval)),
        )
    return {"O": json.loads(out)["O_us"]["p50"]}


def lab(options: argparse.Namespace, container: Any, bridge: str, controller: str, robot: str) -> dict[str, float]:
    """Return O p50 of the lab's own ends at both layers."""
    variables: dict[str, Any] = {
        "SCENARIO": "bench",
        "COMMAND": "E",
        "FIDELITY": "corrected",
        "INTERVALS_MS": options.interval,
        "MESSAGES": options.messages,
        "REPETITIONS": 1,
        "QOS": options.qos,
        "TREATMENTS_URL": "http://127.0.0.1:1/",
        "RESULTS_DIR": "/results",
        "LOOP_FILE": "",
        "LIVE_DIR": "",
    }
    settings = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    with (
        tempfile.TemporaryDirectory() as folder,
        container("--network-alias", "robot", robot),
        container("--env", "FIDELITY=corrected", bridge),
    ):
        Path(folder).chmod(0o777)
        command = ["docker", "run", "--rm", "--network", NETWORK, "--volume", f"{folder}:/results", *settings]
        done = subprocess.run([*command, controller], capture_output=True, text=True, check=False)
        stored = list(Path(folder).glob("*/run.json"))
        if not stored:
            sys.exit(f"the run failed: {done.stdout}{done.stderr}")
        cell = json.loads(stored[0].read_text())["cells"][0]
    return {
        # Of the same messages.
        "transport": cell["ledger_us"]["transport_O"]["p50"],
        "application": cell["ledger_us"]["O"]["p50"],
        "lateness_p99": cell["send_lateness_us"]["p99"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--interval", type=int, default=20)
    parser.add_argument("--qos", type=int, default=0)
    options = parser.parse_args()
    checkout = Lab(ROOT)
    own = checkout.own_images()
    images = [own[name] for name in ("bridge", "controller", "robot")]
    build_floor(checkout)
    ratios: dict[str, list[float]] = {"transport": [], "application": []}
    lateness = []
    with network(NETWORK) as container, container(*BROKER, checkout.settings()["MOSQUITTO_IMAGE"]):
        for number in range(1, options.rounds + 1):
            least, ours = floor(options, container), lab(options, container, *images)
            for layer, values in ratios.items():
                values.append(ours[layer] / least["O"])
            lateness.append(ours["lateness_p99"])
            print(
                f"round {number}: floor {least['O']:.0f} us, transport {ours['transport']:.0f} us, "
                f"application {ours['application']:.0f} us, lateness p99 {ours['lateness_p99']:.0f} us",
                flush=True,
            )
    for layer, values in ratios.items():
        ratio = statistics.median(values)
        verdict = "ok" if ratio <= LIMITS[layer] else "MISSED"
        print(f"{layer:>12}: {ratio:.2f} x the floor (at most {LIMITS[layer]}) {verdict}")
    print(f"    lateness: p99 {statistics.median(lateness):.0f} us (at most 500)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
