"""One cell of qos-delay over the kernel's netem: its own processes under Debian's own kernel in a virtual machine.

Some minutes of software emulation: only where LAB_NETEM_VM=1 says so.
"""

from typing import Any

import pytest
from support import delay_vm, virtual_machine

pytestmark = [pytest.mark.flag("LAB_NETEM_VM"), pytest.mark.timeout(2400), pytest.mark.engine]


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """By what they tell of."""
    return dict(virtual_machine.whole(delay_vm.images(), delay_vm.run))


@pytest.fixture
def cell(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (found,) = results["run"]["cells"]
    assert isinstance(found, dict)
    return found


def test_the_run_is_valid_with_every_treatment(results: dict[str, dict[str, Any]]) -> None:
    run = results["run"]
    assert results["exit_code"]["code"] == 0, run["invalid_because"]
    assert run["valid"], run["invalid_because"]
    found = {treatment["what"]: treatment["found"] for treatment in run["treatments"]}
    assert found["link emulation"] == "netem"
    assert found["link delay"] == "in 1 of 1 cells"
    for role in ("broker", "controller"):
        assert found[f"{role} TCP_NODELAY"] == "on"
        # Verified as every treatment of a valid run: RTO_MIN_MS and the round trip's own share.
        assert found[f"{role} retransmission time-out"].endswith("ms at least")
    assert found["capture"] == "1 of 1 cells, 0 packets lost"


def test_the_cell_has_its_delay_and_every_message(cell: dict[str, Any]) -> None:
    assert (cell["sent"], cell["answered"], cell["lost"]) == (delay_vm.MESSAGES, delay_vm.MESSAGES, 0)
    assert cell["links"]["backend"] == "netem"
    assert len(cell["links"]["ways"]) == 4
    # Each way carried the echoes, and its share of the messages or their acknowledgements.
    assert all(way["packets"] > 40 for way in cell["links"]["ways"])
    # Mean of 40 echoes with a deviation of 2 ms a way, and the slow machine's own time.
    assert cell["end_to_end_ms"]["total"] == pytest.approx(2 * delay_vm.DELAY_MS, abs=4)
    assert 0.95 < cell["L_over_delay"] < 1.3
    assert cell["packets_per_message"] == {"PUBLISH": 2}
    for way in cell["segments"].values():
        assert (way["mqtt_packets"], way["sent_again"]) == (delay_vm.MESSAGES, 0)


@pytest.mark.parametrize("end", ["controller", "broker"])
def test_the_run_leaves_no_delay_behind(results: dict[str, dict[str, Any]], end: str) -> None:
    assert "qdisc" in results[end]["left"]
    assert "netem" not in results[end]["left"]
