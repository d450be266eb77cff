"""Runs whose bridge is on another host: how the lab is put on that network, paired, run and judged."""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from looplab import __version__
from looplab.lab.bundle_file import write_bundle
from support.containers import own_image
from support.e2e_lab import PROJECT, Background, Lab, free_port
from support.run_checks import check_run, read_samples, total, treatments
from support.wire import Wire

SCENARIOS = [f"scenario{number}" for number in range(9)]
INTERVAL_MS = 20
RECOVERY_BOUND_S = 2.0
STEADY = 20
GUARD_NS, DEADLINE_NS = 100_000_000, 1_000_000_000


def put_on(wire: Wire, lab: Lab) -> Lab:
    """`lab` with its ports on the address that the Pi sees."""
    lan = {"LAB_BIND": wire.here, "LAB_LAN_BIND": wire.here, "LAB_TLS_PORT": str(free_port())}
    lab.environment.update(ROBOT="remote", LAB_PI=wire.there, **lan)
    return lab


def pair(lab: Lab, wire: Wire, file: Path) -> Path:
    """What `./lab pair` writes for the Pi, in `file`."""
    done = lab.run("pair", str(file), "--address", wire.here)
    print(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    return file


def bridge_image() -> str:
    """The bridge of the lab that pairs, by its tag."""
    return own_image("bridge", LAB_TAG=PROJECT)


def bundle_of_bridge(file: Path) -> Path:
    """The bridge's image as `./lab bundle` packs it, in `file`."""
    write_bundle(file, [bridge_image()], {"lab": __version__})
    return file


def check_all_nine_scenarios(lab: Lab, *, tls: bool) -> None:
    """`./lab run all`: every run valid, every message answered."""
    words = ("--messages", "25", "--repetitions", "2", "--json")
    done = lab.run("run", "all", *words, timeout_s=900, ROBOT_FRAMING="line", STRESS_VM_BYTES="16M")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [run["scenario"] for run in runs] == SCENARIOS
    for run in runs:
        check_run(lab.root / "results" / run["run_id"], run)
        assert run["bridge"].get("tls", "").startswith("TLS") == tls, run["bridge"]
        assert treatments(run)["bridge apart from the load"]["wanted"] == "own machine"
        assert run["parameters"]["robot"] == "remote"
        if run["parameters"]["command"] == "T":
            assert run["bridge"]["robot"].startswith("looplab"), run["bridge"]
        # Stamps of two machines' kernels: the parts of O are known as on one, where no packets come in together.
        known = sum(cell["ledger_us"]["network"]["n"] for cell in run["cells"] if not cell["qos"])
        assert known > 0
        # The stress takes the processors of the simulated robot, too: it may be silent longer than the bridge waits.
        assert total(run, "answered") + total(run, "robot_errors") == total(run, "sent"), run["cells"]
        median = {name: run["cells"][0][name]["p50"] for name in ("T_us", "R_us", "O_us")}
        print(run["scenario"], {name: f"{value / 1000:.2f} ms" for name, value in median.items()}, counts(run))


def start(lab: Lab, seconds: float, interval_ms: int = INTERVAL_MS) -> Background:
    """scenario1 with framing line for at least `seconds`; the first hundred messages have been sent."""
    repetitions = int(seconds * 1000 / interval_ms / 100) + 1
    return lab.measuring("scenario1", repetitions, "--allow-invalid", interval_ms=interval_ms, ROBOT_FRAMING="line")


def recovered_s(samples: list[dict[str, str]], mended_ns: int) -> float:
    """Seconds from `mended_ns` until requests are answered in time again: STEADY of them in a row."""
    good = 0
    for row in (row for row in samples if int(row["due_ns"]) >= mended_ns):
        good = good + 1 if row["outcome"] == "answered" else 0
        if good == 1:
            since_ns = int(row["due_ns"])
        if good == STEADY:
            return (since_ns - mended_ns) / 1e9
    raise AssertionError("no recovery before the run's end")


def ended(
    lab: Lab, running: Background, what: str, mended_ns: int, timeout_s: float
) -> tuple[dict[str, Any], list[dict[str, str]], float]:
    """The run, its samples, and recovered_s, once `running` has ended well; what happened is printed as `what`."""
    run = running.ended(0, timeout_s)
    samples = read_samples(lab.root / "results" / run["run_id"])
    took_s = recovered_s(samples, mended_ns)
    print(f"{what}: recovered after {took_s:.2f} s; {counts(run)}; {run['absences']}")
    return run, samples, took_s


def counts(run: dict[str, Any]) -> dict[str, int]:
    """Of all cells together."""
    return {name: total(run, name) for name in ("sent", "answered", "late", "lost", "robot_errors", "disconnects")}


def check_network_cut(
    lab: Lab, cut_s: int, cut: Callable[[], AbstractContextManager[None]], log: Callable[[], str]
) -> None:
    """The network is `cut` for that long in a run: counts exact, the cause named, back in time."""
    running = start(lab, cut_s + RECOVERY_BOUND_S + 10)
    time.sleep(1)
    cut_ns = time.perf_counter_ns()
    with cut():
        time.sleep(cut_s)
    mended_ns = time.perf_counter_ns()
    timeout_s = cut_s + 10 * RECOVERY_BOUND_S + 100
    run, samples, took_s = ended(lab, running, f"cut for {cut_s} s", mended_ns, timeout_s)
    print(log())
    # This machine's monotonic clock is the controller's: what was asked while the cable was out got no answer in time.
    out = [row for row in samples if cut_ns + GUARD_NS < int(row["due_ns"]) < mended_ns - DEADLINE_NS]
    assert {row["outcome"] for row in out} <= {"late", "lost"}
    assert out or cut_s == 1
    assert any(row["outcome"] != "answered" for row in samples)
    assert took_s < RECOVERY_BOUND_S
    if cut_s >= 10:
        assert "the network is cut" in log()
        (absence,) = run["absences"]
        assert "network" in absence["cause"]
