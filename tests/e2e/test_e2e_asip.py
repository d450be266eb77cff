"""The experiment asip on the engine: Java over every transport, and a bridge that dies in the middle of Python's.

Python over every transport: tests/integration/experiments/asip.
"""

import json

from support.e2e_lab import Lab, needs_root
from support.hardening import judge_container


def test_java_over_every_transport_is_accounted_for(lab: Lab) -> None:
    running = lab.start(
        "run", "asip", "--languages", "java", "--messages", "10", "--fidelity", "corrected", "--json",
        WARMUP_MESSAGES="20",
    )  # fmt: skip
    # Cells come in an order of chance.
    running.wait_for("  0%")
    for service, container in lab.containers().items():
        judge_container(service, container)
    code, output, progress = running.finish()
    (run,) = json.loads(output)["runs"]
    assert code == 0, progress
    assert [cell["transport"] for cell in run["cells"]] == ["serial", "tcp", "mqtt"]
    for cell in run["cells"]:
        assert cell["tests"] == cell["answered"] + cell["late"] + cell["lost"] == 10
        assert cell["latency_us"]["min"] > cell["wire_us"], "nothing is faster than its wire"
        # A copy that comes after the next edge counts as lost: that depends on the machine.
        assert cell["edge_tests"] == cell["edge_answered"] + cell["edge_lost"] == 10
        assert "OpenJDK" in cell["runtime"]


@needs_root
def test_a_dead_bridge_makes_only_its_cell_invalid(lab: Lab) -> None:
    running = lab.start(
        "run", "asip", "--languages", "python", "--messages", "60", "--transports", "tcp,serial", "--json",
        "--order", "published", WARMUP_MESSAGES="20",
    )  # fmt: skip
    running.wait_for("python, tcp, one")
    lab.kill_process("asip-bridge")
    code, output, progress = running.finish()
    (run,) = json.loads(output)["runs"]
    assert code == 1, progress
    tcp, serial = run["cells"]
    assert not tcp["valid"]
    assert any("bridge" in why for why in run["invalid_because"])
    assert serial["valid"], serial["invalid_because"]
    # As published, and nobody set it: an Uno with its USB chip and the original's unasked reports.
    found = {one["what"]: one for one in run["treatments"]}
    assert found["board"]["found"] == "atmega328p"
    assert found["USB adapter"]["wanted"].startswith("atmega16u2")
    assert all(found[what]["verified"] for what in ("board", "USB adapter", "unasked reports"))
    assert serial["answered"] == 60
