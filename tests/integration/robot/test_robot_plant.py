"""The robot on its two wheels: the plant in C is the plant in Python, and the board carries it to the serial line."""

import ctypes
import random
import subprocess
import time
from collections.abc import Callable

import pytest
from support.board import IDENTITY, Board
from support.places import ROOT
from support.plant_model import Plant
from support.tools import program

from looplab.experiments.balance.plant import FALLEN_RAD, GAINS, law, reading

SOURCE = ROOT / "images/robot/plant.c"
LEVEL_ZERO_BYTE, LEVEL_MOST_BYTE = b"\xc0", b"\xff"
UPRIGHT_LINE = "35 0 0 0"


class CState(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("x_m", "v_m_s", "tilt_rad", "rate_rad_s")]


class CPlant(ctypes.Structure):
    _fields_ = [
        ("state", CState), ("u_v", ctypes.c_double), ("released", ctypes.c_bool), ("fallen", ctypes.c_bool),
        ("steps", ctypes.c_uint64),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("plant") / "plant.so"
    command = [program("gcc"), "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("seed", range(3))
def test_the_plant_in_c_is_that_in_python(functions: ctypes.CDLL, seed: int) -> None:
    """Random commands fell it, a law keeps it up for some pushes."""
    chance, ours, theirs = random.Random(seed), Plant(), CPlant()
    functions.plant_reset(ctypes.byref(theirs))
    for _ in range(400):
        level = law(GAINS, ours.state) if seed else chance.randrange(128)
        steps = chance.randrange(1, 30)
        ours.command(level)
        ours.advance(steps)
        functions.plant_command(ctypes.byref(theirs), level)
        functions.plant_advance(ctypes.byref(theirs), ctypes.c_uint64(steps))
        assert [getattr(theirs.state, name) for name in ours.state._fields] == pytest.approx(ours.state, abs=1e-6)
        assert (theirs.fallen, theirs.steps) == (ours.fallen, ours.steps)
    assert ours.fallen == (seed == 0)


@pytest.mark.engine
def test_the_board_falls_without_commands_and_stands_up(start_robot: Callable[..., Board]) -> None:
    client = start_robot().connect_ready()
    assert [client.ask(b"U") for _ in range(3)] == [UPRIGHT_LINE] * 3
    # It is held until the first command, and falls under no voltage.
    assert client.ask(LEVEL_ZERO_BYTE) == UPRIGHT_LINE
    while abs((state := reading(client.ask(LEVEL_ZERO_BYTE))).tilt_rad) < FALLEN_RAD - 0.001:
        assert state.tilt_rad > 0
        time.sleep(0.01)
    assert reading(client.ask(LEVEL_ZERO_BYTE)) == state
    assert client.ask(b"U") == UPRIGHT_LINE
    # The wheels drive it backwards off them.
    client.ask(LEVEL_MOST_BYTE)
    while abs((state := reading(client.ask(LEVEL_MOST_BYTE))).tilt_rad) < FALLEN_RAD - 0.001:
        time.sleep(0.01)
    assert (state.tilt_rad < 0, state.x_m > 0) == (True, True)


@pytest.mark.engine
def test_noise_drives_no_wheels(start_robot: Callable[..., Board]) -> None:
    """A level counts after U alone, and no longer once another sensor was asked."""
    client = start_robot().connect_ready()
    assert client.ask(LEVEL_MOST_BYTE + b"?") == IDENTITY
    assert client.ask(b"U") == UPRIGHT_LINE
    client.ask(b"T")
    assert client.ask(LEVEL_MOST_BYTE + b"?") == IDENTITY
    assert client.ask(b"U") == UPRIGHT_LINE
