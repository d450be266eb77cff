"""Where the board is: the bridge that it is reached at."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from support.places import ROOT

from looplab.errors import MachineError, UsageError
from looplab.experiments.asip import placement
from looplab.experiments.asip.bridge import read_settings
from looplab.experiments.asip.parameters import AsipParameters

ON_PI = {"ROBOT": "remote", "LAB_PI": "192.0.2.7", "TRANSPORTS": "tcp,mqtt"}


def test_a_board_on_a_pi_is_reached_at_its_bridge_there() -> None:
    p = AsipParameters.read(ON_PI)
    found = placement.addresses(p, ON_PI)
    assert (found["tcp"], found["mqtt"]) == ("192.0.2.7:5000", "broker:1883/asip/pi")
    assert "ASIP_TOPIC: asip/pi" in (ROOT / "rpi/compose.yaml").read_text()
    assert placement.addresses(AsipParameters.read({}), {})["tcp"] == "asip-bridge:5000"
    assert {cell.placement for cell in p.cells} == {"bridge"}


@pytest.mark.parametrize("other", [{"TRANSPORTS": "serial"}, {"LAB_PI": ""}])
def test_what_a_board_on_a_pi_does_not_have_is_wrong_use(other: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        AsipParameters.read({**ON_PI, **other})


Serve = Callable[..., str]


@pytest.fixture(name="bridge")
def answering_bridge() -> Iterator[Serve]:
    """Start what answers as a bridge with these variables does; returns its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(10)

        def start(broker: str, **variables: str) -> str:
            facts = {"broker": broker, **read_settings({"BROKER_HOST": "broker", **variables}).variables()}
            answer = " ".join(f"{name}={value}" for name, value in facts.items()).encode()
            threading.Thread(target=lambda: sock.sendto(answer, sock.recvfrom(100)[1])).start()
            return "127.0.0.1:{1}".format(*sock.getsockname())

        yield start


def test_a_bridge_on_a_pi_is_there_once_it_has_the_broker(bridge: Serve) -> None:
    address = bridge("off")
    with pytest.raises(MachineError, match="has not connected to the broker"):
        placement.BridgeClient(AsipParameters.read(ON_PI), address).check()
    placement.BridgeClient(AsipParameters.read(ON_PI), bridge("on")).check()
    over_tcp = {**ON_PI, "TRANSPORTS": "tcp"}
    placement.BridgeClient(AsipParameters.read(over_tcp), bridge("off")).check()


@pytest.mark.parametrize("there", [{"FIDELITY": "corrected"}, {"QOS": "1"}])
def test_a_bridge_on_a_pi_that_is_set_up_otherwise_is_refused(bridge: Serve, there: dict[str, str]) -> None:
    p = AsipParameters.read(ON_PI)
    with pytest.raises(UsageError, match=r"runs with \w+=\w+, this run with") as error:
        placement.BridgeClient(p, bridge("on", **there)).check()
    (name,) = there
    assert ("TCP_NODELAY" if name == "FIDELITY" else f"{name}={there[name]}") in error.value.message
    # Here Compose gives both the same, and the treatments are judged by what they did.
    here = AsipParameters.read({"TRANSPORTS": "tcp,mqtt"})
    placement.BridgeClient(here, bridge("on", **there)).check()
