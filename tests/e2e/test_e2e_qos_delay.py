"""The experiment qos-delay on the engine: its files, what a message costs, and an emulator that dies in the middle."""

import pytest
from support.e2e_lab import Lab, needs_root
from support.hardening import judge_container

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.stored import StoredRun, read_run

MESSAGES, REPETITIONS = 250, 2


@needs_root
def test_a_dead_emulator_spoils_one_cell_and_the_sweep_goes_on(lab: Lab) -> None:
    running = lab.start(
        "run", "qos-delay", "--delays", "8", "--pairs", "0-16", "--qos", "2",
        "--messages", str(MESSAGES // REPETITIONS), "--repetitions", str(REPETITIONS),
        "--fidelity", "corrected", "--order", "published", "--json",
    )  # fmt: skip
    assert "2 cells, about " in running.wait_for("cells")
    running.wait_for("8 + 8 ms, QoS 2")
    for service, container in lab.containers().items():
        judge_container(service, container)
    lab.kill_process("qos-delay-link")
    run = running.ended(1)
    killed, after = run["cells"]
    assert not killed["valid"]
    assert any("link emulator" in why for why in killed["invalid_because"]), killed["invalid_because"]
    assert any("QoS 2: the link emulator" in why for why in run["invalid_because"])
    # How long it took is another matter on a loaded machine; that its links were there from start to end is not.
    assert not any("emulator" in why for why in after["invalid_because"])
    # Sums, the packets of QoS 2, the delay.
    assert after["sent"] == MESSAGES == after["answered"] + after["late"] + after["lost"]
    assert after["lost"] == 0
    # Twice each: from publisher to broker, from broker to subscriber.
    assert after["packets_per_message"] == pytest.approx(
        {"PUBLISH": 2, "PUBREC": 2, "PUBREL": 2, "PUBCOMP": 2}, rel=0.02
    )
    assert after["capture"]["dropped"] == 0
    assert after["capture"]["published"] == MESSAGES
    assert after["end_to_end_ms"]["pb"] == 0
    assert after["end_to_end_ms"]["total"] > 15
    # Three ways in a row over the only link that has a delay.
    assert after["L_us"]["min"] > 3 * 10_000
    verified = {found["what"] for found in run["treatments"] if found["verified"]}
    for role in ("broker", "controller"):
        assert {f"{role} TCP_NODELAY", f"{role} retransmission time-out"} <= verified
    assert "link delay" not in verified
    folder, stored = lab.newest()
    assert stored == run
    assert isinstance(read_run(folder, EXPERIMENTS), StoredRun)


def test_plain_compose_runs_it_twice(lab: Lab) -> None:
    """The second run's containers join a network namespace of its own: what is left from the first would miss it."""
    lab.forget_runs()
    for number in (1, 2):
        variables = {"DELAYS_MS": "8", "QOS": "0", "MESSAGES": "50", "REPETITIONS": "1", "FIDELITY": "corrected"}
        lab.compose("--profile", "qos-delay", "up", "--detach", code=0, **variables)
        lab.wait_for_end("qos-delay")
        assert [lab.wait_for_end(sidecar, 20) for sidecar in ("qos-delay-link", "qos-delay-capture")] == [0, 0]
        assert len(lab.runs()) == number
        _, run = lab.newest()
        assert run["cells"][0]["sent"] == 50
        assert run["cells"][0]["capture"]["published"] is not None, run["invalid_because"]
