"""The generator's sketch on a simulated Uno: the wave on pin 9 is the one that was asked for."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from support.board import Board, Client
from support.parts import HOST
from support.ports import free_port
from support.waiting import until

from looplab.experiments.asip.board import CLOCK_HZ
from looplab.experiments.asip.oscilloscope import Oscilloscope

pytestmark = pytest.mark.engine

# Pin 9 of an Uno.
PIN = "B1"
LEAST_EDGES = 12


@pytest.fixture
def generator(start_robot: Callable[..., Board], asip_files: Path) -> tuple[Client, Oscilloscope]:
    """Return the generator's serial port, and an oscilloscope on its output."""
    address = f"{HOST}:{free_port()}"
    options = ("--processor", "atmega328p", "--adapter", "none", "--scope", PIN, "--statistics", address)
    client = start_robot(*options, firmware=asip_files / "generator.hex").connect()
    assert client.line() == "looplab generator 0.1.0 ready"
    return client, Oscilloscope(address)


def test_its_frequency_changes_on_the_fly(generator: tuple[Client, Oscilloscope]) -> None:
    client, scope = generator
    for hz in (4, 310, 15, 20_000, 90):
        assert client.ask(b"%d\n" % hz) == str(hz)
        # The half that was under way when the frequency changed is neither.
        first = scope.state().count + 2
        until(lambda: scope.state().count >= first + LEAST_EDGES, "waves", 60)  # noqa: B023
        edges = scope.edges(first)
        assert {pin for pin, _, _ in edges} == {PIN}
        assert all(early[1] != late[1] for early, late in itertools.pairwise(edges))
        cycles = (edges[-1][2] - edges[0][2]) / (len(edges) - 1)
        assert CLOCK_HZ / 2 / cycles == pytest.approx(hz, rel=0.001 if hz < 1000 else 0.01)


def test_what_is_no_frequency_changes_nothing(generator: tuple[Client, Oscilloscope]) -> None:
    client, scope = generator
    assert client.ask(b"50\r\n") == "50"
    for line in (b"-1\n", b"20001\n", b"1e3\n", b"123456\n"):
        assert client.ask(line).startswith("ERR ")
    before = scope.state().count
    until(lambda: scope.state().count > before, "the wave goes on")
    assert client.ask(b"0\n") == "0"
    still = scope.state().count
    assert client.ask(b"\n0\n") == "0"
    assert scope.state().count == still
