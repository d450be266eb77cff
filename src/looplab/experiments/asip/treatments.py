"""What was done to the parts of a run, as wanted and as found: processes, sockets, quotas, board, adapter."""

from collections.abc import Iterable, Mapping, Sequence

from looplab.experiments.asip.board import BOARDS, USB_CHIP
from looplab.experiments.asip.document import AsipMeasurement
from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.parameters import AsipParameters
from looplab.treatments.judgement import Treatment, judge_nodelay, judge_policy, judge_process, on_off, unverified
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
_ROLES = ("broker", "controller")
_REAL = "a real board"


def judge(
    parameters: AsipParameters, scans: Sequence[Scan | None], measured: Sequence[AsipMeasurement], fault: str = ""
) -> list[Treatment]:
    """Return every treatment, as wanted and as found over the whole run; `fault`: why a scan has no answer."""
    treatments = unverified(scans, fault)
    if not treatments:
        good = [scan for scan in scans if scan is not None]
        roles = _ROLES if "mqtt" in parameters.transports else ("controller",)
        treatments += [judge_process(good, role) for role in roles]
        treatments += [judge_policy(good, role, 0) for role in roles]
        if "mqtt" in parameters.transports:
            here = ("broker",) if parameters.robot == "remote" else ("broker", "bridge")
            treatments += [judge_nodelay(good, role, parameters.tcp_nodelay, MQTT_PORT) for role in here]
        if parameters.robot == "remote":
            # A run begins only once the bridge reports this. Its sockets cannot be read from here.
            wanted = on_off(parameters.tcp_nodelay)
            treatments.append(Treatment("bridge TCP_NODELAY", wanted, f"{wanted}, as it reports", True, required=False))
        treatments += [_quota(parameters.client_cpus, good, language) for language in parameters.languages]
    over = [one for one in measured if not one.faults]
    boards, missing = [one.board for one in over if one.board], _REAL if over else "not measured"
    own = (_board(parameters, boards, missing), _adapter(parameters, boards, missing), _reports(parameters, over))
    return [*treatments, *own, _clock(measured)]


def _quota(wanted: float, scans: Sequence[Scan], language: str) -> Treatment:
    """Judge the share of processors that the container of a client may use."""
    limits = {process["container"]["cpu_limit"] for scan in scans for process in processes(scan, language)}
    limits_found = _listed(_limit(limit) for limit in limits) or "not running"
    return Treatment(f"{language} client processors", _limit(wanted), limits_found, limits_found == _limit(wanted))


def _limit(processors: float | None) -> str:
    return f"{processors:g}" if processors else "no limit"


def _board(parameters: AsipParameters, boards: Sequence[BoardCounts], missing: str) -> Treatment:
    """Judge the processor that the firmware ran on."""
    wanted = BOARDS[parameters.board].processor
    if not boards:
        return Treatment("board", wanted, missing, False, required=False)
    processors = _listed(one.processor for one in boards)
    good = processors == wanted
    return Treatment("board", wanted, processors, good, note="" if good else "see `BOARD`")


def _adapter(parameters: AsipParameters, boards: Sequence[BoardCounts], missing: str) -> Treatment:
    """Judge the USB adapter by the longest that it held back a byte of the board."""
    low_ms, high_ms = HELD_MS[parameters.adapter]
    wanted = f"{parameters.adapter}: held at most {low_ms:g} to {high_ms:g} ms"
    if not boards:
        return Treatment("USB adapter", wanted, missing, False, required=False)
    held_ms = [one.held_max_us / 1000 for one in boards]
    verified = all(low_ms <= each <= high_ms for each in held_ms)
    return Treatment("USB adapter", wanted, f"held at most {min(held_ms):.2f} to {max(held_ms):.2f} ms", verified)


def _reports(parameters: AsipParameters, measured: Sequence[AsipMeasurement]) -> Treatment:
    """Judge the reports of analog pins that came unasked, as the clients counted them; of a real board, too."""
    low, high = REPORTS_PER_S[parameters.reports]
    wanted = f"{on_off(parameters.reports)}: {f'{low:g} to {high:g}' if high else 'none'} a second"
    rates = [one.more["reports"]["per_s"] for one in measured if one.more.get("reports")]
    if not rates:
        return Treatment("unasked reports", wanted, "not measured", False, required=False)
    verified = all(low <= rate <= high for rate in rates)
    return Treatment("unasked reports", wanted, f"{min(rates):.1f} to {max(rates):.1f} a second", verified)


def _clock(measured: Sequence[AsipMeasurement]) -> Treatment:
    """Judge whether the simulated board kept to real time; a real one does."""
    lags = [one.board.lag_us["max"] for one in measured if one.board]
    wanted = f"at most {MOST_LAG_US / 1000:g} ms behind"
    if not lags:
        return Treatment("board clock", wanted, _REAL, True)
    note = "" if max(lags) <= MOST_LAG_US else "the machine was busy: see noise_floor"
    # A stall of the machine lengthens single tests, which the quantiles show. It makes no run invalid.
    return Treatment("board clock", wanted, f"{max(lags) / 1000:.2f} ms behind", not note, required=False, note=note)


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))
