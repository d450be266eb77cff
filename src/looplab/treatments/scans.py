"""Readings of the live processes by the treatments service, before a run's first cell and after each."""

import contextlib
import os
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from looplab.errors import LabError
from looplab.spec.brokers import DEFAULT
from looplab.spec.roles import Role
from looplab.system.json_client import Service, read_token

# The service's name on the network that it shares with the controllers alone.
URL = "http://treatments-control:9100/facts"
TOKEN = "treatments"
_TREATMENTS = Service("treatments service", "See `docker compose logs treatments`.")

# The service's answer: {"roles": {role: {"before": […], "processes": […], "refused": […]}}, "processors", "clock_ns",
# "published", …}. A controller adds "elsewhere": by role, what a part on another machine reports that its
# successor would report otherwise; and "own": how many messages its run had published by then.
Scan = Mapping[str, Any]


class TreatmentsClient:
    """Asks the treatments service about `roles`; `url` is its /facts, by default that of `TREATMENTS_URL`.

    `tls` holds the authority of its certificate where it has one.
    """

    def __init__(self, roles: Iterable[Role], url: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.roles = tuple(roles)
        # Why the last scan that failed got no answer.
        self.fault = ""
        self._url = url or os.environ.get("TREATMENTS_URL") or URL
        self._service = _TREATMENTS._replace(tls=tls)

    def scan(self, priorities: Mapping[str, int], published_from: str = "", broker: str = DEFAULT) -> Scan | None:
        """Apply `priorities` (SCHED_FIFO by role) and read; None if no service answers.

        With `published_from` ("host:port" of `broker`) the scan also holds its count of PUBLISH packets.
        """
        question: dict[str, Any] = {
            "roles": {role.name: role.question(priorities.get(role.name, 0)) for role in self.roles}
        }
        if published_from:
            question |= {"published_from": published_from, "broker": broker}
        try:
            return self._service.ask(self._url, "POST", question, token=read_token(TOKEN))
        except LabError as error:
            self.fault = f"{error.message} {error.remedy}"
            return None

    def end_loads(self) -> None:
        """Have every load ended, if a service answers: nothing is measured any more."""
        with contextlib.suppress(LabError):
            self._service.ask(self._url.replace("/facts", "/loads"), "DELETE", token=read_token(TOKEN))


def of_host(scans: Sequence[Scan], host: str) -> list[Scan]:
    """Return the scans of one host alone."""
    return [{**scan, **scan["hosts"][host]} for scan in scans]


def processes(scan: Scan, role: str) -> list[dict[str, Any]]:
    """Return the live processes of `role` in a scan."""
    found: list[dict[str, Any]] = scan["roles"][role]["processes"]
    return found


def running(scan: Scan | None, role: str) -> bool:
    """Return whether `scan` saw a live process of `role`."""
    return scan is not None and bool(processes(scan, role))


def policies(scans: Sequence[Scan], role: str) -> list[str]:
    """Return the distinct policies of all threads of `role` in all readings; "not running" where one saw none.

    What the first scan found before it applied anything does not count.
    """
    readings = [there for scan in scans for there in (scan["roles"][role]["before"], processes(scan, role))][1:]
    seen = {thread["scheduling"] for there in readings for process in there for thread in process["threads"]}
    return sorted(seen if all(readings) else {*seen, "not running"})


def identities(scans: Sequence[Scan], role: str) -> list[object]:
    """Return the identity of `role` at each reading: (pid, start time), or what the part reports."""
    each: list[object] = []
    for scan in scans:
        for there in (scan["roles"][role]["before"], processes(scan, role)):
            here = sorted((process["pid"], process["started_ticks"]) for process in there)
            each.append(here or scan.get("elsewhere", {}).get(role, []))
    return each


def grown(before: Scan, after: Scan, role: str, *keys: str) -> int:
    """Return by how much the sum of `keys` (cpu_ns, runs) of the processes of `role` grew between two scans."""
    first, last = (
        sum(int(process[key]) for process in processes(scan, role) for key in keys) for scan in (before, after)
    )
    return max(0, last - first)


def cpu_wait_us(before: Scan, after: Scan, roles: Iterable[str]) -> dict[str, float]:
    """Return for each of `roles` how long it waited on the run queue between two scans (us, a sum over threads).

    A role is missing where it does not run here, was restarted, or the kernel does not count.
    """
    waits_us = {}
    for role in roles:
        pairs = [(was["cpu_wait_ns"], now["cpu_wait_ns"]) for was, now in survivors(before, after, role)]
        waits = [now_ns - was_ns for was_ns, now_ns in pairs if None not in (was_ns, now_ns)]
        if waits:
            waits_us[role] = round(sum(waits) / 1000, 3)
    return waits_us


def survivors(before: Scan, after: Scan, role: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each process of `role` that was there in both scans, as both found it.

    The kernel reuses pids; the start time tells the processes apart.
    """
    first = {(process["pid"], process["started_ticks"]): process for process in processes(before, role)}
    now = {(process["pid"], process["started_ticks"]): process for process in processes(after, role)}
    return [(first[key], process) for key, process in now.items() if key in first]


def refusals(scans: Sequence[Scan], role: str) -> str:
    """Return why the kernel refused a priority of `role`, "" where it did not."""
    return "; ".join(sorted({why for scan in scans for why in scan["roles"][role]["refused"]}))


def mqtt_sockets(scans: Sequence[Scan], role: str, ports: Iterable[int]) -> list[dict[str, Any] | str]:
    """Return the TCP sockets of `role` on one of `ports` in all scans; a text where the kernel does not show them."""
    wanted = set(ports)
    seen: list[dict[str, Any] | str] = []
    for scan in scans:
        for process in processes(scan, role):
            sockets = process["sockets"]
            if isinstance(sockets, str):
                seen.append(sockets)
            else:
                seen += [entry for entry in sockets if wanted & {entry["local_port"], entry["peer_port"]}]
    return seen
