"""C compiled for the host: the firmware against the formula, the plant against the one in Python; the board falls."""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Callable

import pytest
from support.board import IDENTITY, Board, formula_celsius
from support.plant_model import Plant

from looplab.experiments.balance.plant import FALLEN_RAD, GAINS, law, reading
from looplab.experiments.loop.bridge.robot_answers import NUMBERS, parse_numbered

UNKNOWN = -(2**31)
SAMPLES = 3


def formatted(function: ctypes._NamedFuncPointer, value: int) -> bytes:
    line = ctypes.create_string_buffer(b"\xff" * 24, 24)
    function(line, value)
    return line.value


def test_temperature_follows_the_formula_at_every_adc_level(c_functions: ctypes.CDLL) -> None:
    for adc in range(1, 1023):
        centi = c_functions.thermistor_centi_celsius(adc * SAMPLES, SAMPLES)
        assert abs(centi - 100 * formula_celsius(adc)) <= 1, f"at ADC level {adc}"


@pytest.mark.parametrize("adc_sum", [0, SAMPLES - 1, 1022 * SAMPLES + 1, 1023 * SAMPLES])
def test_open_or_shorted_thermistor_has_no_temperature(c_functions: ctypes.CDLL, adc_sum: int) -> None:
    assert c_functions.thermistor_centi_celsius(adc_sum, SAMPLES) == UNKNOWN


def test_a_numbered_line_says_the_same_in_no_more_bytes(c_functions: ctypes.CDLL) -> None:
    """The bridge's reading of it against the firmware's writing, at every temperature there is."""
    assert formatted(c_functions.format_temperature, UNKNOWN) == b"ERR thermistor\r\n"
    for centi_celsius in range(-8812, 49401):
        plain = formatted(c_functions.format_temperature, centi_celsius)
        assert plain == b"%.2f\r\n" % (centi_celsius / 100)
        letter = NUMBERS[centi_celsius % len(NUMBERS)]
        line = ctypes.create_string_buffer(24)
        c_functions.format_numbered_temperature(line, letter, centi_celsius)
        assert parse_numbered(line.value.removesuffix(b"\n")) == (letter, plain.strip())
        assert len(line.value) <= len(plain)


@pytest.mark.parametrize("values", [(0, 0, 0, 0), (-785, 12345, -6, 30), (-32768, 32767, -32768, -32768)])
def test_a_line_of_tilt_and_wheels(c_functions: ctypes.CDLL, values: tuple[int, ...]) -> None:
    line = ctypes.create_string_buffer(32)
    words, state = " ".join(map(str, values)).encode(), (ctypes.c_int16 * 4)(*values)
    for shown, text in ((state, words), (None, b"ERR tilt")):
        c_functions.format_balance(line, 0, shown)
        assert line.value == text + b"\r\n"
        c_functions.format_balance(line, ord("l"), shown)
        assert parse_numbered(line.value.removesuffix(b"\n")) == (ord("l"), words if shown else b"")


LEVEL_ZERO_BYTE, LEVEL_MOST_BYTE = b"\xc0", b"\xff"
UPRIGHT_LINE = "35 0 0 0"


class CState(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("x_m", "v_m_s", "tilt_rad", "rate_rad_s")]


class CPlant(ctypes.Structure):
    _fields_ = [
        ("state", CState), ("u_v", ctypes.c_double), ("released", ctypes.c_bool), ("fallen", ctypes.c_bool),
        ("steps", ctypes.c_uint64),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_the_plant_in_c_is_that_in_python(c_functions: ctypes.CDLL, seed: int) -> None:
    """Random commands fell it, a law keeps it up for some pushes."""
    chance, ours, theirs = random.Random(seed), Plant(), CPlant()
    c_functions.plant_reset(ctypes.byref(theirs))
    for _ in range(400):
        level = law(GAINS, ours.state) if seed else chance.randrange(128)
        steps = chance.randrange(1, 30)
        ours.command(level)
        ours.advance(steps)
        c_functions.plant_command(ctypes.byref(theirs), level)
        c_functions.plant_advance(ctypes.byref(theirs), ctypes.c_uint64(steps))
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
