"""The firmware's parsing and arithmetic, compiled for the host, against the formula."""

from __future__ import annotations

import ctypes
import string

import pytest
from support.board import formula_celsius

from looplab.experiments.loop.bridge.robot_answers import NUMBERS, parse_numbered

UNKNOWN = -(2**31)
SAMPLES = 3


def formatted(function: ctypes._NamedFuncPointer, value: int) -> bytes:
    line = ctypes.create_string_buffer(b"\xff" * 24, 24)
    function(line, value)
    return line.value


def test_temperature_follows_the_formula_at_every_adc_level(firmware_functions: ctypes.CDLL) -> None:
    for adc in range(1, 1023):
        centi = firmware_functions.thermistor_centi_celsius(adc * SAMPLES, SAMPLES)
        assert abs(centi - 100 * formula_celsius(adc)) <= 1, f"at ADC level {adc}"


@pytest.mark.parametrize("adc_sum", [0, SAMPLES - 1, 1022 * SAMPLES + 1, 1023 * SAMPLES])
def test_open_or_shorted_thermistor_has_no_temperature(firmware_functions: ctypes.CDLL, adc_sum: int) -> None:
    assert firmware_functions.thermistor_centi_celsius(adc_sum, SAMPLES) == UNKNOWN


def test_letters_numbers_and_levels_mean_something(firmware_functions: ctypes.CDLL) -> None:
    meanings = {byte: firmware_functions.parse_request(byte) for byte in range(256)}
    levels = {meanings.pop(byte) for byte in range(128, 256)}
    numbers = {meanings.pop(byte) for byte in range(1, 27)}
    assert {chr(byte) for byte, meaning in meanings.items() if meaning != 0} == set("TLS?U" + string.ascii_lowercase)
    assert len((levels | numbers) - set(meanings.values())) == len(levels) + len(numbers) == 2
    assert len({meanings[ord(letter)] for letter in string.ascii_lowercase}) == 1
    assert len({meanings[ord(letter)] for letter in "TLS?Ua"}) == 6


@pytest.mark.parametrize(
    ("centi_celsius", "line"),
    [
        (2550, b"25.50\r\n"), (0, b"0.00\r\n"), (7, b"0.07\r\n"), (-7, b"-0.07\r\n"), (-525, b"-5.25\r\n"),
        (12500, b"125.00\r\n"), (49400, b"494.00\r\n"), (-8812, b"-88.12\r\n"), (UNKNOWN, b"ERR thermistor\r\n"),
    ],
)  # fmt: skip
def test_temperature_line(firmware_functions: ctypes.CDLL, centi_celsius: int, line: bytes) -> None:
    assert formatted(firmware_functions.format_temperature, centi_celsius) == line


def test_a_numbered_line_says_the_same_in_no_more_bytes(firmware_functions: ctypes.CDLL) -> None:
    """The bridge's reading of it against the firmware's writing, at every temperature there is."""
    for centi_celsius in range(-8812, 49401):
        plain = formatted(firmware_functions.format_temperature, centi_celsius)
        letter = NUMBERS[centi_celsius % len(NUMBERS)]
        line = ctypes.create_string_buffer(24)
        firmware_functions.format_numbered_temperature(line, letter, centi_celsius)
        assert parse_numbered(line.value.removesuffix(b"\n")) == (letter, plain.strip())
        assert len(line.value) <= len(plain)


@pytest.mark.parametrize("values", [(0, 0, 0, 0), (-785, 12345, -6, 30), (-32768, 32767, -32768, -32768)])
def test_a_line_of_tilt_and_wheels(firmware_functions: ctypes.CDLL, values: tuple[int, ...]) -> None:
    line = ctypes.create_string_buffer(32)
    words, state = " ".join(map(str, values)).encode(), (ctypes.c_int16 * 4)(*values)
    for shown, text in ((state, words), (None, b"ERR tilt")):
        firmware_functions.format_balance(line, 0, shown)
        assert line.value == text + b"\r\n"
        firmware_functions.format_balance(line, ord("l"), shown)
        assert parse_numbered(line.value.removesuffix(b"\n")) == (ord("l"), words if shown else b"")
