"""The experiment asip on the engine: a bridge that dies spoils its cell alone, and Java has every transport after it.

Python over every transport: tests/integration/experiments/asip.
"""

from support.e2e_lab import Lab, needs_root
from support.hardening import judge_container

MESSAGES = 20


@needs_root
def test_a_dead_bridge_makes_only_its_cell_invalid(lab: Lab) -> None:
    running = lab.start(
        "run", "asip", "--messages", str(MESSAGES), "--transports", "tcp,serial,mqtt", "--order", "published",
        "--json", WARMUP_MESSAGES="10",
    )  # fmt: skip
    running.wait_for("python, tcp, one")
    lab.kill_process("asip-bridge")
    for service, container in lab.containers().items():
        judge_container(service, container)
    run = running.ended(1)
    dead, *others = run["cells"]
    assert not dead["valid"]
    assert any("bridge" in why for why in run["invalid_because"])
    assert [cell["transport"] for cell in others if "OpenJDK" in cell["runtime"]] == ["tcp", "serial", "mqtt"]
    for cell in others:
        assert cell["valid"], cell["invalid_because"]
        assert cell["tests"] == cell["answered"] + cell["late"] + cell["lost"] == MESSAGES
        assert cell["latency_us"]["min"] > cell["wire_us"], "nothing is faster than its wire"
        # A copy that comes after the next edge counts as lost: that depends on the machine.
        assert cell["edge_latency_us"]["n"] + cell["edge_lost"] == MESSAGES
    # As published, and nobody set it: an Uno with its USB chip and the original's unasked reports.
    found = {one["what"]: one for one in run["treatments"]}
    assert found["board"]["found"] == "atmega328p"
    assert found["USB adapter"]["wanted"].startswith("atmega16u2")
    assert all(found[what]["verified"] for what in ("board", "USB adapter", "unasked reports"))
