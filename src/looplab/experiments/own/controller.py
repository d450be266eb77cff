"""One run of own: watches an application for some seconds, then has its packets dissected."""

import contextlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from looplab.capture import Application
from looplab.capture import client as capture
from looplab.errors import LabError, UsageError
from looplab.experiments.own import EXPERIMENT, OwnCell, treatments
from looplab.experiments.own.causes import causes, refusals
from looplab.experiments.own.parameters import OwnParameters
from looplab.link import client as emulator
from looplab.link.settings import both_ways
from looplab.run import quiet
from looplab.run.accounting import Columns, summarise
from looplab.run.cells import CellResult, CellRun
from looplab.run.document import samples_file
from looplab.run.record import File, Place
from looplab.run.samples import ABSENT, ANSWERED, LATE, WAITING, SampleStore, limit_ns
from looplab.treatments import NO_LOAD, link
from looplab.treatments.judgement import Treatment
from looplab.treatments.loads.load import effort
from looplab.treatments.scans import running

CAPTURE_PORT, LINK_PORT = 9109, 9107
STEP_S = 1.0
# The application's containers may start so much later.
START_S = 20.0


class OwnController(CellRun[OwnParameters, OwnCell]):
    """The steps of one run. It sends nothing."""

    experiment = EXPERIMENT
    columns = ("out_ns", "back_ns", "requester", "device", "qos")

    def __init__(self, parameters: OwnParameters, place: Place) -> None:
        self._names: list[str] = []
        self._hosts: dict[str, str] = {}
        super().__init__(
            parameters, place, treatments.roles(parameters, lambda service: address(service, "OWN_PRIORITY"))
        )
        self.broker = (parameters.broker_service, parameters.broker_port)
        self._capture = os.environ.get("CAPTURE_URL") or f"http://{parameters.broker_service}:{CAPTURE_PORT}"
        self.link_url = f"http://{parameters.link}:{LINK_PORT}" if parameters.link != link.NO_LINK else ""
        counted = f"{parameters.broker_service}:{parameters.broker_port}" if parameters.load != NO_LOAD else ""
        self.asks = (treatments.priorities(parameters), counted, parameters.broker)
        self._found: Mapping[str, Any] = {}

    def files(self) -> list[File]:
        more = {name: self._client(name) for name in ("requester", "device")}
        return [
            samples_file(
                self.experiment.cell, self.parameters, {**more, "qos": lambda columns, row: columns["qos"][row]}
            )
        ]

    def _client(self, name: str) -> Any:
        return lambda columns, row: "" if (at := columns[name][row]) == ABSENT else self._names[at]

    def prepare(self) -> None:
        """Wait for the capture; the treatments take hold before the application is watched."""
        self.wait_for_part("capture", lambda: capture.check(self._capture))
        if self.parameters.priorities:
            self.wait_for_part("services with a priority", self._check_services)
        if self.link_url:
            address(self.parameters.link, "OWN_LINK")
            self.wait_for_part("link emulator", self._set_link)
        self.take_scan()
        time.sleep(self.parameters.warmup_s)
        self.wait_for_quiet()
        if self.link_url:
            # A second container of the service may have started meanwhile.
            address(self.parameters.link, "OWN_LINK")
        self.take_scan()

    def _set_link(self) -> None:
        p = self.parameters
        links = both_ways(p.broker_service, p.link_delay_ms, p.link_jitter_ms, p.link_loss_percent)
        emulator.apply(links, self.link_url)

    def _check_services(self) -> None:
        """Raise LabError until each service that gets a priority runs: it may still be starting."""
        scan = self.client.scan({})
        away = [role for role in treatments.priorities(self.parameters) if not running(scan, role)]
        if away:
            raise LabError(f"{', '.join(away)}: not running.", 'It needs `pid: "service:treatments"`.')

    def measure_cell(self, index: int, cell: OwnCell) -> CellResult[OwnCell]:
        p = self.parameters
        since_s = time.time()
        while (left_s := since_s + p.watch_s - time.time()) > 0:
            time.sleep(min(STEP_S, left_s))
            self.record.progress(str(cell), 0, 0, left_s)
        self.take_scan()
        limit_s = limit_ns(p.deadline_ms) / 1e9
        time.sleep(limit_s)
        application = Application(
            p.request_topic, p.answer_topic, p.key, since_s, since_s + p.watch_s, limit_s, p.messages
        )
        found = self._found = capture.stop_application(application, self._capture)
        named = {one["client"]: _name(one["client"]) for one in found["clients"]}
        self._names = list(named.values())
        containers = {host: _name(f"{host}:0").removesuffix(":0") for host in {one["host"] for one in found["clients"]}}
        self._hosts = {named[one["client"]]: containers[one["host"]] for one in found["clients"]}
        for kind in ("held", "held_by", "zero_windows", "sent_again"):
            found[kind] = {named.get(name, name): value for name, value in found[kind].items()}
        rows = fill(self.record.store, p.rows(index), found["columns"], round(since_s * 1e9), p.deadline_ms)
        return CellResult(cell, self._figures(found, rows), self._faults(found, rows))

    def conclude(self, index: int) -> None:
        """Store the samples; the treatments were read before the packets were dissected."""
        self.record.append(self.parameters.rows(index))

    def judge(self) -> list[Treatment]:
        return self.by_scans(lambda scans: treatments.judge(self.parameters, scans, self.links, self._found))

    def close(self) -> None:
        """Have load and link end: nothing is measured any more."""
        self.client.end_loads()
        if self.link_url:
            with contextlib.suppress(LabError):
                emulator.apply([], self.link_url, link.CLEAR_TIMEOUT_S)

    def _figures(self, found: Mapping[str, Any], rows: range) -> dict[str, Any]:
        """Return what run.json holds of the cell beside its samples."""
        p, counts = self.parameters, found["counts"]
        names = ("duplicates", "without_key", "key_in_use")
        packets = {name.lower(): number for name, number in found["packets"].items()}
        taken = {name: found[name] for name in ("captured", "dropped")}
        return {
            **{name: counts.get(name, 0) for name in names},
            **fates(self.record.store, rows),
            "interval_ms": interval_ms(self.record.store, rows),
            "captured": {**taken, **packets},
            # Nobody knows when a client meant to send.
            "send_lateness_us": summarise(()),
            "clients": [{**one, "client": name} for one, name in zip(found["clients"], self._names, strict=True)],
            "topics": [_rates(topic, counted, p.watch_s) for topic, counted in sorted(found["topics"].items())],
            "causes": causes(found, len(rows), p.broker_service, self._hosts),
            **self._around(),
        }

    def _around(self) -> dict[str, Any]:
        """Return what the scans before and after the cell show of the machine."""
        before, after = self.scans[-2:]
        if before is None or after is None:
            return {}
        roles = [role.name for role in self.roles]
        return {"load": effort(self.parameters.load, before, after), **quiet.between(before, after, roles)}

    def _faults(self, found: Mapping[str, Any], rows: range) -> list[str]:
        faults = refusals(found, self.parameters)
        if found["dropped"]:
            faults.append(f"the capture lost {found['dropped']} packets")
        if room := found["counts"].get("without_room"):
            faults.append(f"{room} requests had no room: raise MESSAGES, or lower WATCH_S")
        if not rows and not faults:
            seen = ", ".join(sorted(found["topics"])[:8]) or "none"
            faults.append(f"no request of {self.parameters.request_topic} with a key; topics seen: {seen}")
        return [*faults, *unmatched(self.record.store, rows, found["counts"], self.parameters.key)]


def fill(
    store: SampleStore, rows: range, columns: Mapping[str, Sequence[int]], zero_ns: int, deadline_ms: int
) -> range:
    """Write the requests that were captured into the first of `rows`, and return these; times are since `zero_ns`."""
    used = range(rows.start, rows.start + len(columns["in_ns"]))
    for name, values in columns.items():
        column = store[{"in_ns": "sent_ns"}.get(name, name)]
        begun = zero_ns if name.endswith("_ns") else 0
        for row, value in zip(used, values, strict=True):
            column[row] = ABSENT if value == ABSENT else value - begun
    sent, received = store["sent_ns"], store["received_ns"]
    for row in used:
        store["due_ns"][row] = sent[row]
        in_time = received[row] - sent[row] <= deadline_ms * 1_000_000
        store["state"][row] = WAITING if received[row] == ABSENT else ANSWERED if in_time else LATE
    return used


def fates(columns: Columns, rows: range) -> dict[str, int]:
    """Return how far the lost requests came."""
    lost = [row for row in rows if columns["state"][row] == WAITING]
    answered = [row for row in lost if columns["back_ns"][row] != ABSENT]
    passed = [row for row in lost if columns["out_ns"][row] != ABSENT]
    return {
        "undelivered": len(lost) - len(passed),
        "unanswered": len(passed) - len(answered),
        "answer_lost": len(answered),
    }


def unmatched(columns: Columns, rows: range, counts: Mapping[str, int], key: str) -> list[str]:
    """Return what is wrong with the key if there were answers, and none belongs to a request."""
    without, unasked = counts.get("without_key", 0), counts.get("unasked", 0)
    if not rows or not without + unasked or any(columns["back_ns"][row] != ABSENT for row in rows):
        return []
    return [f"KEY={key}: no answer has the key of a request ({without} messages have none, {unasked} answers another)"]


def interval_ms(columns: Columns, rows: range) -> float | None:
    """Return the mean time between two requests of one client, in ms."""
    sent: dict[int, list[int]] = {}
    for row in rows:
        sent.setdefault(columns["requester"][row], []).append(columns["sent_ns"][row])
    gaps = [(after - before) / 1e6 for times in sent.values() for before, after in pairwise(times)]
    return round(fmean(gaps), 6) if gaps else None


def address(service: str, variable: str, timeout_s: float = START_S) -> str:
    """Return the address of a service that `variable` names; it may start later than this run.

    Raises LabError (exit code 2) if it has none after `timeout_s`, or several.
    """
    end_s = time.monotonic() + timeout_s
    while True:
        try:
            addresses = socket.gethostbyname_ex(service)[2]
            break
        except OSError as error:
            if time.monotonic() > end_s:
                raise UsageError(
                    f"{variable}: {service} has no address here: {error}.",
                    "Name a service of your Compose file that runs and is on the default network.",
                ) from None
        time.sleep(STEP_S / 4)
    if len(addresses) > 1:
        raise UsageError(
            f"{variable}: {service} has {len(addresses)} containers, and this is for one.",
            "Name a service with one container (no `scale`).",
        )
    return addresses[0]


def _rates(topic: str, counted: Sequence[int], span_s: float) -> dict[str, Any]:
    names = ("in_per_s", "in_bytes_per_s", "out_per_s", "out_bytes_per_s")
    return {"topic": topic, **{name: round(value / span_s, 3) for name, value in zip(names, counted, strict=True)}}


def _name(client: str) -> str:
    """Return a client id as a field of a CSV file; of an address the name that Docker gives it."""
    host, _, port = client.rpartition(":")
    with contextlib.suppress(OSError):
        client = f"{socket.gethostbyaddr(host)[0].partition('.')[0]}:{port}" if port.isdigit() else client
    return "".join("_" if letter in ',"\r\n' else letter for letter in client)


Controller = OwnController
