"""What runs elsewhere: which links a cell has, and that a link that was not there makes its cell INVALID."""

from typing import Any

import pytest
from support.places import ROOT

from looplab.errors import EXIT_USAGE, LabError
from looplab.experiments.asip import placement
from looplab.experiments.asip.parameters import Cell, read_parameters

P = read_parameters({"PLACEMENTS": "one,bridge,broker", "BRIDGE_DELAY_MS": "0.5", "BROKER_DELAY_MS": "6"})
TCP, MQTT, FAR = Cell("java", "tcp", "bridge"), Cell("java", "mqtt", "bridge"), Cell("java", "mqtt", "broker")


def peers(cell: Cell) -> dict[str, list[tuple[str, str, float]]]:
    """Links by emulator: peer, direction, delay."""
    found = placement.links(P, cell)
    return {at: [(one.peer, one.direction, one.delay_ms) for one in settings] for at, settings in found.items()}


def test_each_placement_delays_the_ways_that_its_name_says() -> None:
    assert peers(Cell("java", "serial", "one")) == {}
    own = [("asip-java", "egress", 0.5), ("asip-java", "ingress", 0.5)]
    # The broker is beside a bridge that is elsewhere.
    assert peers(TCP) == {"bridge": own}
    assert peers(MQTT) == {"broker": own}
    assert {peer for peer, _, ms in peers(FAR)["broker"] if ms == 6} == {"asip-java", "asip-bridge"}


ON_PI = {"ROBOT": "remote", "LAB_PI": "192.0.2.7:9199", "TRANSPORTS": "tcp,mqtt"}


def test_a_board_on_a_pi_is_reached_at_its_bridge_there() -> None:
    found = placement.addresses(read_parameters(ON_PI), ON_PI)
    assert (found["tcp"], found["mqtt"]) == ("192.0.2.7:5000", "broker:1883/asip/pi")
    assert "ASIP_TOPIC: asip/pi" in (ROOT / "rpi/compose.yaml").read_text()
    assert placement.addresses(P, {})["tcp"] == "asip-bridge:5000"


@pytest.mark.parametrize("other", [{"TRANSPORTS": "serial"}, {"PLACEMENTS": "bridge"}, {"LAB_PI": ""}])
def test_what_a_board_on_a_pi_does_not_have_is_wrong_use(other: dict[str, str]) -> None:
    with pytest.raises(LabError) as error:
        read_parameters({**ON_PI, **other})
    assert error.value.exit_code == EXIT_USAGE


class Emulator:
    """Answers as the link's service does, in place of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.links: list[dict[str, Any]] = []
        self.gone = False
        monkeypatch.setattr(placement.client, "apply", self._apply)
        monkeypatch.setattr(placement.client, "state", lambda _url: self._state())
        monkeypatch.setattr(placement.client, "clear", lambda _url, _timeout_s: self.links.clear())
        monkeypatch.setattr(placement, "deviation", lambda link: link.get("why", ""))

    def _apply(self, links: list[Any], _url: str) -> None:
        self.links = [{"settings": link.as_json()} for link in links]

    def _state(self) -> dict[str, Any]:
        if self.gone:
            raise LabError("it does not answer")
        return {"links": list(self.links)}


def test_a_link_that_was_there_to_the_end_has_no_fault_and_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = Emulator(monkeypatch)
    placement.set_up(P, FAR)
    assert len(emulator.links) == 4
    assert placement.faults(P, FAR) == []
    assert emulator.links == []


def test_an_emulator_that_was_restarted_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = Emulator(monkeypatch)
    placement.set_up(P, TCP)
    emulator.links = []
    assert any("restarted" in why for why in placement.faults(P, TCP))


def test_a_delay_that_was_not_made_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = Emulator(monkeypatch)
    placement.set_up(P, TCP)
    emulator.links[0]["why"] = "far below"
    assert placement.faults(P, TCP) == ["link to asip-java: far below"]


def test_an_emulator_that_ended_is_a_fault_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = Emulator(monkeypatch)
    emulator.gone = True
    assert any("ended" in why for why in placement.faults(P, TCP))
    placement.take_away(P)
