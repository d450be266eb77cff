"""The parameters of one run of asip or asip-throughput, read from the environment of its container."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from looplab import __version__
from looplab.errors import UsageError
from looplab.experiments.asip import NAME, THROUGHPUT, AsipCell, LatencyCell, ThroughputCell
from looplab.experiments.asip.board import USB_CHIP
from looplab.spec.cell import Cell
from looplab.spec.parameters import (
    MESSAGES,
    Option,
    OrderedParameters,
    Settings,
    choice,
    integer,
    number,
    switch,
    words,
)
from looplab.treatments.judgement import on_off

LANGUAGES = ("python", "java")
TRANSPORTS = ("serial", "tcp", "mqtt")
ADAPTERS = ("none", USB_CHIP, "ch340", "ftdi-1", "ftdi-16")
# Opening the port, resetting the board, setting modes and the oscilloscope's wave take this long.
CELL_OVERHEAD_S = 4.0


@dataclass(frozen=True, kw_only=True)
class Shared(Settings):
    """What a run and its bridge must have in common."""

    tcp_nodelay: bool = switch({"thesis": False, "corrected": True}, factor=True)
    qos: int = integer(0, 0, 2, factor=True)

    def variables(self) -> dict[str, str]:
        """Return it as either side writes it."""
        return {"version": __version__, "TCP_NODELAY": on_off(self.tcp_nodelay), "QOS": str(self.qos)}


@dataclass(frozen=True, kw_only=True)
class AsipParameters(Shared, OrderedParameters):
    """What one run does; `messages` are the tests of a cell, or the most steps of its bisection on frequency."""

    lower: ClassVar[str] = "MESSAGES"
    scenario: str = choice(NAME, (NAME, THROUGHPUT))
    messages: int = integer(100, 1, 100_000, option=MESSAGES, quick="20")
    deadline_ms: int = integer(1000, 10, 60_000)
    languages: tuple[str, ...] = words(
        " ".join(LANGUAGES),
        LANGUAGES,
        option=Option("--languages", "LANGUAGES", "python,java", "languages of the client, e.g. python"),
    )
    transports: tuple[str, ...] = words(
        " ".join(TRANSPORTS),
        TRANSPORTS,
        option=Option("--transports", "TRANSPORTS", "serial,tcp,mqtt", "ways to the board, e.g. serial,tcp"),
    )
    robot: str = choice("virtual", ("virtual", "usb", "remote"))
    board: str = choice("uno", ("uno", "mega"), factor=True)
    adapter: str = choice({"thesis": USB_CHIP, "corrected": "none"}, ADAPTERS, factor=True)
    reports: bool = switch({"thesis": True, "corrected": False}, factor=True)
    jit: bool = switch(True, factor=True)
    client_cpus: float = number(0, 0, 64, factor=True)
    interval_ms: float = number(40, 10, 10_000)
    edge_hz: float = number(25, 1, 1000)
    warmup_tests: int = integer(200, 1, 100_000, variable="WARMUP_MESSAGES", quick="50")
    seconds: float = number(10, 0.1, 600, variable="STEP_S", quick="1")
    low_hz: float = number(2, 1, 10_000)
    high_hz: float = number(400, 1, 10_000)
    resolution: float = number(0.01, 0.001, 0.5)

    @property
    def published_cells(self) -> list[AsipCell]:
        kind = ThroughputCell if self.throughput else LatencyCell
        # The bridge of a board on a Pi runs there, too.
        place = "bridge" if self.robot == "remote" else "one"
        return [kind.keyed(language, transport, place) for language in self.languages for transport in self.transports]

    @property
    def throughput(self) -> bool:
        """Whether the run searches a frequency instead of measuring latencies."""
        return self.scenario == THROUGHPUT

    @property
    def simulated(self) -> bool:
        """Whether the board is simulated: it alone has generator and oscilloscope."""
        return self.robot == "virtual"

    def pace_ms(self, cell: Cell) -> float:
        return self.seconds * 1000 if self.throughput else self.interval_ms + 1000 / self.edge_hz

    @property
    def overhead_s(self) -> float:
        return CELL_OVERHEAD_S + self.warmup_tests * self.interval_ms / 1000

    def checked(self, environment: Mapping[str, str]) -> Self:
        if self.robot == "remote":
            self._check_remote(environment)
        if self.throughput and not self.simulated:
            raise UsageError(
                f"{THROUGHPUT} needs generator and oscilloscope, which only the simulated board has.",
                "Set ROBOT=virtual.",
            )
        if self.low_hz >= self.high_hz:
            raise UsageError(
                f"LOW_HZ={self.low_hz:g} is not below HIGH_HZ={self.high_hz:g}.",
                "The bisection needs a range: set LOW_HZ below HIGH_HZ.",
            )
        return self

    def _check_remote(self, environment: Mapping[str, str]) -> None:
        """Raise LabError (exit code 2) for what a board on a Pi does not have."""
        if "serial" in self.transports:
            raise UsageError("The board's serial port is on the Pi.", "Add --transports tcp,mqtt.")
        if not environment.get("LAB_PI", "").strip():
            raise UsageError("LAB_PI is not set.", "Set it to the Pi's address, in .env or the shell.")


PARAMETERS = AsipParameters
