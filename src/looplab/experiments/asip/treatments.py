"""What was done to the parts of a run, as wanted and as found: processes, sockets, quotas, board, adapter."""

from collections.abc import Mapping, Sequence

from looplab.experiments.asip import AsipCell
from looplab.experiments.asip.board import BOARDS, USB_CHIP
from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.parameters import AsipParameters
from looplab.run.cells import CellResult
from looplab.treatments.judgement import (
    Treatment,
    compared,
    judge_nodelay,
    judge_policy,
    judge_process,
    on_off,
)
from looplab.treatments.scans import Scan, processes

MQTT_PORT = 1883
# A simulator that is later than this makes the client wait for it, not for the wire.
MOST_LAG_US = 1000.0
# An adapter holds a byte for its latency timer, the wait for a frame, and a frame: bounds of the longest, in ms.
HELD_MS: Mapping[str, tuple[float, float]] = {
    "none": (0, 0.1),
    USB_CHIP: (3.5, 4.2),
    "ch340": (1.0, 2.05),
    "ftdi-1": (2.05, 3.1),
    "ftdi-16": (10.0, 18.1),
}
# The board reports its analog pins each 50 ms: bounds of the rate.
REPORTS_PER_S: Mapping[bool, tuple[float, float]] = {True: (16, 22), False: (0, 0)}


def judge(parameters: AsipParameters, scans: Sequence[Scan]) -> list[Treatment]:
    """Judge what the scans found of the parts over the whole run."""
    over_mqtt, remote = "mqtt" in parameters.transports, parameters.robot == "remote"
    roles = ("broker", "controller") if over_mqtt else ("controller",)
    treatments = [judge_process(scans, role) for role in roles]
    treatments += [judge_policy(scans, role, 0) for role in roles]
    if over_mqtt:
        here = ("broker",) if remote else ("broker", "bridge")
        treatments += [judge_nodelay(scans, role, parameters.tcp_nodelay, MQTT_PORT) for role in here]
    if remote:
        # A run begins only once the bridge reports this. Its sockets cannot be read from here.
        wanted = on_off(parameters.tcp_nodelay)
        treatments.append(Treatment("bridge TCP_NODELAY", wanted, f"{wanted}, as it reports", True, required=False))
    return [*treatments, *(_quota(parameters.client_cpus, scans, language) for language in parameters.languages)]


def _quota(wanted: float, scans: Sequence[Scan], language: str) -> Treatment:
    """Judge the share of processors that the container of a client may use."""
    limits = (process["container"]["cpu_limit"] for scan in scans for process in processes(scan, language))
    return compared(f"{language} client processors", _limit(wanted), map(_limit, limits))


def _limit(processors: float | None) -> str:
    return f"{processors:g}" if processors else "no limit"


def judge_reports(parameters: AsipParameters, measured: Sequence[CellResult[AsipCell]]) -> Treatment:
    """Judge the reports of analog pins that came unasked, as the clients counted them; of a real board, too."""
    low, high = REPORTS_PER_S[parameters.reports]
    wanted = f"{on_off(parameters.reports)}: {f'{low:g} to {high:g}' if high else 'none'} a second"
    rates = [per_s for one in measured if (per_s := one.more.get("reports_per_s")) is not None]
    if not rates:
        return Treatment("unasked reports", wanted, "not measured", False, required=False)
    verified = all(low <= rate <= high for rate in rates)
    return Treatment("unasked reports", wanted, f"{min(rates):.1f} to {max(rates):.1f} a second", verified)


def judge_board(parameters: AsipParameters, boards: Sequence[BoardCounts]) -> list[Treatment]:
    """Judge the processor that the firmware ran on, the USB adapter by the longest that it held a byte, and the clock.

    A simulated board may lag behind real time. That makes no run invalid: the quantiles show the tests that a stall of
    the machine lengthens.
    """
    low_ms, high_ms = HELD_MS[parameters.adapter]
    wanted = {
        "board": BOARDS[parameters.board].processor,
        "USB adapter": f"{parameters.adapter}: held at most {low_ms:g} to {high_ms:g} ms",
        "board clock": f"at most {MOST_LAG_US / 1000:g} ms behind",
    }
    if not boards:
        missing = "not measured" if parameters.simulated else "a real board"
        return [Treatment(what, one, missing, False, required=False) for what, one in wanted.items()]
    held_ms = [one.held_max_us / 1000 for one in boards]
    held = f"held at most {min(held_ms):.2f} to {max(held_ms):.2f} ms"
    lag_us = max(one.lag_max_us for one in boards)
    note = "" if lag_us <= MOST_LAG_US else "the machine was busy: see noise_floor"
    behind = f"{lag_us / 1000:.2f} ms behind"
    return [
        compared("board", wanted["board"], (one.processor for one in boards), note="see `BOARD`"),
        Treatment("USB adapter", wanted["USB adapter"], held, low_ms <= min(held_ms) and max(held_ms) <= high_ms),
        Treatment("board clock", wanted["board clock"], behind, not note, required=False, note=note),
    ]
