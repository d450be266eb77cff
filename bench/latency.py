#!/usr/bin/env python3
"""Compare the lab's ends with the floor: a C libmosquitto loop through the same broker, in turn.

Scenario 0, corrected, QoS 0, 20 ms, command E. The bridge has its robot: without one it spends the run looking for it.
Each round also pairs one end of the lab with the other of C, and both ends of the lab with the probes of the treatments
service: what each of them adds. Prints one line a round and the figures of all rounds.
Needs a running engine and the lab's images (./lab setup); run it on an idle machine.

    python3 bench/latency.py [--rounds 5] [--messages 300] [--keep FOLDER]
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from kept import keeping, options, quantile, read_csv, write_rows  # noqa: E402

from looplab.lab.checkout import Lab  # noqa: E402
from looplab.lab.image_names import BASE  # noqa: E402

NETWORK = "looplab-bench-latency"
INTERVAL_MS = 20
FLOOR = "localhost/looplab/floor:dev"
# The broker as the lab starts it, by the name `broker`; its image comes after.
BROKER = (
    *("--entrypoint", "/mosquitto/lab/start", "--network-alias", "broker", "--env", "FIDELITY=corrected"),
    *("--volume", f"{ROOT}/compose/mosquitto:/mosquitto/lab:ro"),
)
C_ENDS = ("--host", "broker", "--qos", "0")
# The probes alone, as the treatments service starts them.
_PROBES = "from time import sleep; from looplab.treatments.probes import Probes; probes = Probes(); sleep(600)"
PROBES = (
    *("--user", "0", "--cap-add", "SYS_NICE", "--cpu-rt-runtime", "3000"),
    *("--entrypoint", "python3", "-c", _PROBES),
)


def docker(*words: str, feed: str = "", good: tuple[int, ...] = (0,)) -> str:
    """Return what a command of the engine prints; end the program with its message for an exit code not in `good`."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, input=feed, check=False)
    if done.returncode not in good:
        sys.exit(f"docker {' '.join(words[:3])}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def build_floor(lab: Lab) -> None:
    """Build the C loop on the base that this machine has."""
    base = lab.settings().get(BASE)
    words = ["--build-arg", f"BASE_IMAGE={base}"] if base else []
    file = ["--file", f"{ROOT}/bench/floor.Dockerfile"]
    docker("build", "--quiet", *words, "--tag", FLOOR, *file, f"{ROOT}/bench")


@contextmanager
def network(name: str) -> Iterator[Any]:
    """Make a network as long as the context lasts; yield what starts a container on it, a context of its own."""
    docker("network", "create", name)
    try:
        yield partial(_container, name)
    finally:
        docker("network", "rm", name)


@contextmanager
def _container(network_name: str, *words: str) -> Iterator[str]:
    name = docker("run", "--detach", "--network", network_name, *words)
    try:
        yield name
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)


def floor(messages: int) -> list[float]:
    """Return O in us that the C controller finds with the bridge that runs."""
    out = docker(
        *("run", "--rm", "--network", NETWORK, FLOOR, "--role", "controller", *C_ENDS),
        *("--messages", str(messages), "--interval-ms", str(INTERVAL_MS)),
    )
    return list(json.loads(out)["O_us"]["each"])


def lab(messages: int, controller: str) -> dict[str, list[float]]:
    """Return O that the lab's controller finds, at both layers, of the same messages, and all send lateness, in us.

    The C bridge sends no stamps: with it, O is known at the application alone.
    """
    variables: dict[str, Any] = {
        "SCENARIO": "bench",
        "COMMAND": "E",
        "FIDELITY": "corrected",
        "INTERVALS_MS": INTERVAL_MS,
        "MESSAGES": messages,
        "REPETITIONS": 1,
        "QOS": 0,
        "TREATMENTS_URL": "http://127.0.0.1:1/",
        "RESULTS_DIR": "/results",
        "LIVE_DIR": "",
    }
    settings = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        command = ["docker", "run", "--rm", "--network", NETWORK, "--volume", f"{folder}:/results", *settings]
        done = subprocess.run([*command, controller], capture_output=True, text=True, check=False)
        if not (stored := list(Path(folder).glob("*/run.json"))):
            sys.exit(f"the run failed: {done.stdout}{done.stderr}")
        samples, stamps = (read_csv(stored[0].with_name(f"{name}.csv")) for name in ("samples", "transport"))
    transport = {row["sequence"]: row["transport_overhead_us"] for row in stamps}
    return {
        "transport_us": [float(one) for row in samples if (one := transport.get(row["sequence"]))],
        "application_us": [float(row["overhead_us"]) for row in samples if row["overhead_us"]],
        "lateness_us": [(int(row["sent_ns"]) - int(row["due_ns"])) / 1000 for row in samples],
    }


def one_round(messages: int, container: Any, images: dict[str, str]) -> dict[str, list[float]]:
    """Return O of each pair of ends in us, and the lateness of the lab's controller."""
    with container(FLOOR, "--role", "bridge", *C_ENDS):
        found = {"floor_us": floor(messages), "controller_us": lab(messages, images["controller"])["application_us"]}
    robot = container("--network-alias", "robot", images["robot"])
    with robot, container("--env", "FIDELITY=corrected", images["bridge"]):
        found |= {"bridge_us": floor(messages), **lab(messages, images["controller"])}
        with container(*PROBES[:-2], images["treatments"], *PROBES[-2:]):
            found["probes_us"] = lab(messages, images["controller"])["application_us"]
    return found


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=300)
    given = parser.parse_args()
    checkout = Lab(ROOT)
    images = {name: checkout.own_image(name) for name in ("bridge", "controller", "robot", "treatments")}
    build_floor(checkout)
    rounds = []
    with network(NETWORK) as container, container(*BROKER, checkout.settings()["MOSQUITTO_IMAGE"]):
        for number in range(1, given.rounds + 1):
            rounds.append(one_round(given.messages, container, images))
            middles = ", ".join(f"{name} {quantile(values, 0.5):.0f}" for name, values in rounds[-1].items() if values)
            print(f"round {number}, p50: {middles}", flush=True)
    with keeping("latency", given.keep) as folder:
        write_rows(folder / "rounds.jsonl", rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
