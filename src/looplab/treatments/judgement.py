"""Treatments of a run: what was wanted, what was found on the live processes, and whether they agree.

Each function judges one treatment of one role from all scans of a run; an experiment puts its own list together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from looplab.spec.roles import Role
from looplab.treatments.scans import Scan, identities, mqtt_sockets, policies, processes, refusals

# The broker's listener with TLS (compose/mosquitto/lan); TCP_NODELAY is one setting for both.
TLS_PORT = 8883


@dataclass(frozen=True)
class Treatment:
    """One thing that was wanted and what was found; one that is not `required` never makes a run invalid."""

    what: str
    wanted: str
    found: str
    verified: bool
    required: bool = True
    note: str = ""


def unverified(scans: Sequence[Scan | None]) -> list[Treatment]:
    """Return one failed treatment if any scan is missing, [] if every scan was answered."""
    if scans and None not in scans:
        return []
    return [Treatment("treatments service", "answers", "no answer", False, note="nothing could be verified")]


def unread() -> Treatment:
    """Return what stands in place of the readings where no part sees the processes of another."""
    note = "scheduling, TCP_NODELAY and limits of other parts are those of the stack file, unverified"
    return Treatment("processes of other parts", "read", "not read on a Swarm", False, required=False, note=note)


def reasons(treatments: Sequence[Treatment]) -> list[str]:
    """Return why these make a run INVALID, [] where they do not."""
    return [f"{t.what}: wanted {t.wanted}, found {t.found}" for t in treatments if t.required and not t.verified]


def judge_policy(scans: Sequence[Scan], role: str, fifo: int) -> Treatment:
    """Judge whether every thread of `role` ran under SCHED_FIFO `fifo`, or SCHED_OTHER where that is 0."""
    wanted = f"SCHED_FIFO {fifo}" if fifo else "SCHED_OTHER"
    found = policies(scans, role)
    note = refusals(scans, role)
    if note:
        note += " (see `./lab doctor`: real-time budget and SYS_NICE)"
    return Treatment(f"{role} scheduling policy", wanted, ", ".join(found), found == [wanted], note=note)


def judge_process(scans: Sequence[Scan], role: str) -> Treatment:
    """Judge whether `role` was the same process, or the same part elsewhere, from the first reading to the last."""
    what, wanted, found = f"{role} process", "the same in every scan", identities(scans, role)
    if not all(found):
        missing = next(number // 2 + 1 for number, one in enumerate(found) if not one)
        return Treatment(what, wanted, f"not there at scan {missing} of {len(scans)}", False)
    changed = [number // 2 + 1 for number in range(1, len(found)) if found[number] != found[number - 1]]
    if not changed:
        return Treatment(what, wanted, wanted, True)
    note = f"it was restarted, and what it had been given was gone meanwhile: see `docker compose logs` of the {role}"
    times = f"restarted {len(changed)} x, first seen at scan {changed[0]} of {len(scans)}"
    return Treatment(what, wanted, times, False, note=note)


def judge_permission(scans: Sequence[Scan], role: str, priority: int) -> list[Treatment]:
    """Judge what the published flags give: the right to ask for real-time priority, and no priority."""
    seen = [process for scan in scans for process in processes(scan, role)]
    limits = sorted({process["rtprio_limit"] for process in seen})
    limit_met = bool(limits) and all(limit == "unlimited" or int(limit) >= priority for limit in limits)
    capable = bool(seen) and all(process["sys_nice_bounding"] for process in seen)
    found = f"rtprio limit {', '.join(limits) or 'unknown'}; SYS_NICE {'given' if capable else 'not given'}"
    note = "" if limit_met else f"not applied: the engine refuses it or LAB_RTPRIO_{role.upper()} lowers it"
    return [
        Treatment(f"{role} may use real-time priority", "permitted", found, limit_met or capable),
        Treatment(f"{role} rtprio limit", str(priority), ", ".join(limits) or "unknown", limit_met, False, note),
    ]


def judge_nodelay(scans: Sequence[Scan], role: str, wanted: bool, *ports: int) -> Treatment:
    """Judge whether TCP_NODELAY was as `wanted` on every MQTT socket of `role`; `ports` are the broker's."""
    sockets = mqtt_sockets(scans, role, (*ports, TLS_PORT))
    states = {entry if isinstance(entry, str) else on_off(entry["tcp_nodelay"]) for entry in sockets}
    found = ", ".join(sorted(states)) or "no MQTT connection seen"
    return Treatment(f"{role} TCP_NODELAY", on_off(wanted), found, found == on_off(wanted))


def judge_isolation(scans: Sequence[Scan], role: Role, elsewhere: str) -> Treatment:
    """Judge whether `role` ran apart from the host's load: not required, because no kernel need allow it.

    `elsewhere` is its policy on the machine where it runs instead, "" where it must run on this one.
    """
    what, found = f"{role.name} apart from the load", policies(scans, role.name)
    if found == ["not running"] and elsewhere:
        return Treatment(what, "own machine", f"not here ({elsewhere})", True, False)
    wanted = f"SCHED_FIFO {role.fifo}"
    return Treatment(what, wanted, ", ".join(found), found == [wanted], False, refusals(scans, role.name))


def judge_tls(role: str, wanted: bool, version: str) -> Treatment:
    """Judge the TLS `version` negotiated by `role`: "" without TLS, "unknown" if nobody reported one."""
    verified = version in ("TLSv1.2", "TLSv1.3") if wanted else version == ""
    note = "" if verified else "the bridge goes by its pairing file (./lab pair), the controller by BROKER_TLS"
    return Treatment(f"{role} TLS", "TLS 1.2 or later" if wanted else "off", version or "off", verified, note=note)


def on_off(value: object) -> str:
    """Return a setting as the parameters write it: a switch as on or off."""
    return str(value) if not isinstance(value, bool) else "on" if value else "off"
