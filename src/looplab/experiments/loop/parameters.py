"""The parameters of one run, read from the environment that params.env and .env give a container."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from looplab.errors import EXIT_USAGE, LabError

FIDELITIES = ("thesis", "corrected")
FRAMINGS = {"thesis": "burst", "corrected": "line"}
ROBOTS = ("virtual", "usb", "remote")
NO_LINK = "none"
LOADS = ("none", "stress", "flood")
MAX_SAMPLES = 20_000_000

T = TypeVar("T")


@dataclass(frozen=True)
class Parameters:
    """What one run does; times in the unit their names say, `qos` and `intervals_ms` one cell each."""

    scenario: str
    fidelity: str
    intervals_ms: tuple[float, ...]
    qos: tuple[int, ...]
    messages: int
    repetitions: int
    command: str
    robot: str
    load: str
    priority_broker: int
    priority_controller: int
    tcp_nodelay: bool
    robot_framing: str
    apply_priority: bool
    link: str
    deadline_ms: int
    warmup_messages: int
    broker_host: str
    broker_port: int
    broker_tls: bool
    bridge_tls: bool
    parts_timeout_s: int

    def as_json(self) -> dict[str, Any]:
        """The effective parameters as run.json stores them."""
        return asdict(self)

    @property
    def cells(self) -> list[tuple[float, int]]:
        """(interval_ms, qos) of every cell, in the order they are run."""
        return [(interval, qos) for qos in self.qos for interval in self.intervals_ms]

    @property
    def sending_s(self) -> float:
        """How long the sending alone takes."""
        return sum(interval * self.messages * self.repetitions for interval, _ in self.cells) / 1000

    @property
    def samples(self) -> int:
        """Messages in the whole run, warm-up apart."""
        return len(self.cells) * self.messages * self.repetitions


def read_parameters(environment: Mapping[str, str] = os.environ) -> Parameters:
    """Read and check every parameter; raises LabError (exit code 2) naming the variable at fault."""
    get = Reader(environment)
    fidelity = get.choice("FIDELITY", "thesis", FIDELITIES)
    corrected = fidelity == "corrected"
    parameters = Parameters(
        scenario=get.matching("SCENARIO", None, r"[a-z0-9][a-z0-9_-]{0,40}", "lower-case letters, digits, - and _"),
        fidelity=fidelity,
        intervals_ms=get.list(
            "INTERVALS_MS", "100 50 20 10", read_interval, "numbers from 0.5 to 60000, e.g. 100,50,20,10"
        ),
        qos=get.list("QOS", "0", read_qos, "0, 1 or 2, e.g. 0,1,2"),
        messages=get.integer("MESSAGES", 100, 1, 1_000_000),
        repetitions=get.integer("REPETITIONS", 10, 1, 10_000),
        command=get.choice("COMMAND", "T", ("T", "E")),
        robot=get.choice("ROBOT", "virtual", ROBOTS),
        load=get.choice("LOAD", "none", LOADS),
        priority_broker=get.integer("PRIORITY_BROKER", 0, 0, 99),
        priority_controller=get.integer("PRIORITY_CONTROLLER", 0, 0, 99),
        tcp_nodelay=get.switch("TCP_NODELAY", corrected),
        robot_framing=get.choice("ROBOT_FRAMING", FRAMINGS[fidelity], tuple(FRAMINGS.values())),
        apply_priority=get.switch("APPLY_PRIORITY", corrected),
        link=get.matching(
            "LINK", NO_LINK, r"[a-z0-9][a-z0-9-]{0,40}", "none, wifi, custom or a file compose/link.<name>.yaml"
        ),
        deadline_ms=get.integer("DEADLINE_MS", 1000, 10, 600_000),
        warmup_messages=get.integer("WARMUP_MESSAGES", 20, 0, 10_000),
        broker_host=get.matching("BROKER_HOST", "broker", r"[A-Za-z0-9_.:-]{1,253}", "a host name or an address"),
        broker_port=get.integer("BROKER_PORT", 1883, 1, 65535),
        # The thesis's loop is plain. A Pi's bridge is not, unless somebody says so for both.
        broker_tls=get.switch("BROKER_TLS", False),
        bridge_tls=get.switch("BROKER_TLS", get.choice("ROBOT", "virtual", ROBOTS) == "remote"),
        parts_timeout_s=get.integer("PARTS_TIMEOUT_S", 60, 1, 3600),
    )
    if parameters.samples > MAX_SAMPLES:
        raise LabError(
            f"{parameters.samples:,} messages are more than one run can hold ({MAX_SAMPLES:,}).",
            "Lower MESSAGES, REPETITIONS or the number of INTERVALS_MS and QOS.",
            EXIT_USAGE,
        )
    return parameters


def read_number(text: str) -> float:
    """A whole number where it is one, so that 20 is not stored as 20.0; ValueError where it is none."""
    value = float(text)
    return int(value) if value.is_integer() else value


def read_interval(text: str) -> float:
    """Milliseconds between two messages; ValueError where nobody could send so."""
    value = read_number(text)
    if not 0.5 <= value <= 60_000:
        raise ValueError(text)
    return value


def read_qos(text: str) -> int:
    """A quality of service; ValueError where there is no such."""
    if text not in ("0", "1", "2"):
        raise ValueError(text)
    return int(text)


class Reader:
    """Looks variables up; an empty one counts as absent, as in Compose files. `folder` holds params.env."""

    def __init__(self, environment: Mapping[str, str], folder: str = "") -> None:
        self._environment = environment
        self._folder = folder or f"compose/scenarios/{environment.get('SCENARIO', '').strip() or '<scenario>'}"

    def _text(self, name: str, default: str | None) -> str:
        # A file saved on Windows ends its lines with CR, which env_file hands on.
        text = self._environment.get(name, "").strip()
        if text:
            return text
        if default is None:
            raise LabError(f"{name} is not set.", self._where(name), EXIT_USAGE)
        return default

    def _where(self, name: str) -> str:
        return f"Mend it where it is set: the shell, .env, or {name} in {self._folder}/params.env."

    def _wrong(self, name: str, text: str, expected: str) -> LabError:
        return LabError(f"{name}={text!r}: expected {expected}.", self._where(name), EXIT_USAGE)

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        text = self._text(name, default)
        if text not in allowed:
            raise self._wrong(name, text, "one of " + ", ".join(allowed))
        return text

    def matching(self, name: str, default: str | None, pattern: str, expected: str) -> str:
        text = self._text(name, default)
        if not re.fullmatch(pattern, text):
            raise self._wrong(name, text, expected)
        return text

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        text = self._text(name, str(default))
        if not re.fullmatch(r"[0-9]{1,12}", text) or not low <= int(text) <= high:
            raise self._wrong(name, text, f"a whole number from {low} to {high}")
        return int(text)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        text = self._text(name, f"{default:g}")
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) or not low <= float(text) <= high:
            raise self._wrong(name, text, f"a number from {low:g} to {high:g}")
        return read_number(text)

    def switch(self, name: str, default: bool) -> bool:
        text = self._text(name, "on" if default else "off").lower()
        if text not in ("on", "off"):
            raise self._wrong(name, text, "on or off")
        return text == "on"

    def list(self, name: str, default: str, one: Callable[[str], T], expected: str) -> tuple[T, ...]:
        text = self._text(name, default)
        try:
            values = tuple(one(part) for part in re.split(r"[,\s]+", text))
        except ValueError:
            raise self._wrong(name, text, expected) from None
        if len(set(values)) != len(values):
            raise self._wrong(name, text, "each value once")
        return values
