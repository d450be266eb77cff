"""Treatments of a run: what was wanted, what was found on the live processes, and whether they agree.

Each function judges one treatment of one role from all scans of a run; an experiment puts its own list together.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from looplab.spec.roles import CONTROLLER
from looplab.system.machine_facts import ClockDistances
from looplab.system.remedies import CLOCK_SET, SUSPENDED
from looplab.treatments.scans import Scan, identities, mqtt_sockets, policies, refusals

# The broker's listener with TLS (compose/mosquitto/lan); TCP_NODELAY is one setting for both.
TLS_PORT = 8883
NONE_SEEN = "none seen"
# A clock that is only disciplined moves by 0.5 ms a second at most: 2 s in an hour.
LONGEST_SLEEP_S, SLOWEST_STEP_S = 0.1, 2.0


@dataclass(frozen=True)
class Treatment:
    """One thing that was wanted and what was found; one that is not `required` never makes a run invalid.

    An empty `found` becomes NONE_SEEN.
    """

    what: str
    wanted: str
    found: str
    verified: bool
    required: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", self.found or NONE_SEEN)


def compared(what: str, wanted: str, found: str | Iterable[str], *, required: bool = True, note: str = "") -> Treatment:
    """Judge whether nothing but `wanted` was found; `note` is for a person where something else was."""
    words = [found] if isinstance(found, str) else sorted(set(found))
    same = words == [wanted]
    return Treatment(what, wanted, ", ".join(words), same, required, "" if same else note)


def unverified(scans: Sequence[Scan | None], fault: str = "") -> list[Treatment]:
    """Return one failed treatment if any scan is missing, by its `fault`; [] if every scan was answered."""
    if scans and None not in scans:
        return []
    found = f"no answer: {fault}" if fault else "no answer"
    return [Treatment("treatments service", "answers", found, False, note="nothing could be verified")]


def unread() -> Treatment:
    """Return what stands in place of the readings where no part sees the processes of another."""
    note = "scheduling, TCP_NODELAY and limits of other parts are those of the stack file, unverified"
    return Treatment("processes of other parts", "read", "not read on a Swarm", False, required=False, note=note)


def reasons(treatments: Sequence[Treatment]) -> list[str]:
    """Return why these make a run INVALID, [] where they do not."""
    return [f"{t.what}: wanted {t.wanted}, found {t.found}" for t in treatments if t.required and not t.verified]


def judge_policy(scans: Sequence[Scan], role: str, fifo: int) -> Treatment:
    """Judge whether every thread of `role` ran under SCHED_FIFO `fifo`, or SCHED_OTHER where that is 0."""
    refused = refusals(scans, role)
    note = f"{refused} (see `./lab doctor`: real-time budget and SYS_NICE)" if refused else ""
    return compared(f"{role} scheduling policy", policy(fifo), policies(scans, role), note=note)


def policy(fifo: int) -> str:
    """Return the scheduling policy of a priority, SCHED_OTHER for 0."""
    return f"SCHED_FIFO {fifo}" if fifo else "SCHED_OTHER"


def judge_process(scans: Sequence[Scan], role: str) -> Treatment:
    """Judge whether `role` was the same process, or the same part elsewhere, from the first reading to the last."""
    what, wanted, found = f"{role} process", "the same in every scan", identities(scans, role)
    if not all(found):
        missing = next(number // 2 + 1 for number, one in enumerate(found) if not one)
        return Treatment(what, wanted, f"not there at scan {missing} of {len(scans)}", False)
    most = max(len(one) if isinstance(one, list) else 1 for one in found)
    if role == CONTROLLER.name and most > 1:
        return Treatment(what, wanted, f"{most} at once", False, note="another run was started beside this one")
    changed = [number // 2 + 1 for number in range(1, len(found)) if found[number] != found[number - 1]]
    if not changed:
        return Treatment(what, wanted, wanted, True)
    note = f"it was restarted, and what it had been given was gone meanwhile: see `docker compose logs` of the {role}"
    times = f"restarted {len(changed)} x, first seen at scan {changed[0]} of {len(scans)}"
    return Treatment(what, wanted, times, False, note=note)


def judge_nodelay(scans: Sequence[Scan], role: str, wanted: bool, *ports: int) -> Treatment:
    """Judge whether TCP_NODELAY was as `wanted` on every MQTT socket of `role`; `ports` are the broker's."""
    sockets = mqtt_sockets(scans, role, (*ports, TLS_PORT))
    states = {entry if isinstance(entry, str) else on_off(entry["tcp_nodelay"]) for entry in sockets}
    return compared(f"{role} TCP_NODELAY", on_off(wanted), states or "no MQTT connection seen")


def on_off(value: object) -> str:
    """Return a setting as the parameters write it: a switch as on or off."""
    return str(value) if not isinstance(value, bool) else "on" if value else "off"


def judge_clocks(before: ClockDistances, after: ClockDistances) -> Iterator[Treatment]:
    """Judge whether the machine slept in the run, or somebody set its clock; nothing if neither happened."""
    if (slept_s := after.suspended_s - before.suspended_s) > LONGEST_SLEEP_S:
        yield Treatment("machine", "awake", f"suspended for {slept_s:.0f} s", False, note=SUSPENDED.do)
    if abs(step_s := after.booted_s - before.booted_s) > SLOWEST_STEP_S:
        # All figures come from the monotonic clock; kernel stamps about the step are left out.
        yield Treatment("wall clock", "not set", f"set by {step_s:+.1f} s", False, required=False, note=CLOCK_SET.do)
