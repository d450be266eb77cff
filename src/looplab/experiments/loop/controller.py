"""One run of the loop: waits for broker, bridge, robot, link and load, sends cell by cell, scans between cells."""

import os
from collections.abc import Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any, ClassVar

from looplab.errors import MachineError
from looplab.experiments.loop import BRIDGE, EXPERIMENT, PARTS, LoopCell, readiness, treatments
from looplab.experiments.loop.bridge_news import BROKER_RESTARTED, BridgeNews
from looplab.experiments.loop.connections import ControllerConnections
from looplab.experiments.loop.document import COLUMNS, of_rows, passed
from looplab.experiments.loop.losses import NEVER_NS, Losses
from looplab.experiments.loop.own_programs import (
    OwnClient,
    OwnMeasurement,
    bridge_role,
    judge_own_bridge,
    other_clients,
    wait_for_own_bridge,
)
from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.printed.measurement import PrintedMeasurement
from looplab.experiments.loop.protocol import (
    COMMAND_EMULATED,
    TOPIC_ANSWER,
    TOPIC_REQUEST,
    subscription_qos,
)
from looplab.experiments.loop.request_loop import RequestLoop
from looplab.run import placement, quiet
from looplab.run.accounting import answers_held_us, held_us, tally
from looplab.run.cells import CellResult, CellRun, entry
from looplab.run.open_loop import Messages
from looplab.run.record import Place
from looplab.run.samples import ANSWERED, WAITING, SampleStore, limit_ns
from looplab.spec.brokers import BROKERS
from looplab.spec.parameters import SLEEP
from looplab.spec.roles import CONTROLLER, LINK
from looplab.system.own_process import try_fifo
from looplab.treatments import NO_LOAD, link
from looplab.treatments.broker import version
from looplab.treatments.judgement import Treatment
from looplab.treatments.link import NO_LINK
from looplab.treatments.loads import loads
from looplab.treatments.scans import Scan, grown, running

_ROLES = [role.name for role in EXPERIMENT.roles if not role.optional]
LINK_URL = "http://bridge:9107"
WARMUP_INTERVAL_NS = 20_000_000
STEP_NS = 100_000_000
# Twice the bridge's own pause before it publishes its counts.
BRIDGE_REPORT_NS = 600_000_000
# A run listens for answers of lost messages for so many time limits after its last message.
HEAR_OUT = 2


class LoopController(CellRun[LoopParameters, LoopCell]):
    """The steps of one run."""

    experiment = EXPERIMENT
    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def __init__(self, parameters: LoopParameters, place: Place) -> None:
        super().__init__(parameters, place, treatments.roles(parameters.broker, bridge_role(parameters)))
        p, token = self.parameters, self.record.token
        self.news = BridgeNews(token, p.samples)
        self.client = placement.client_of(self.client)
        counted = p.load in loads() and loads()[p.load].counted
        self.asks = (treatments.applied(p), f"{p.broker_host}:{p.broker_port}" if counted else "", p.broker)
        self.link_url = (os.environ.get("LINK_URL") or LINK_URL) if p.link != NO_LINK else ""
        self._connected_ns: list[int] = []
        self._client = ControllerConnections(
            p, token, self._received, lambda: self._connected_ns.append(perf_counter_ns())
        )
        self.others = other_clients(p, self._client.wait)
        # What came on the answers' topic before the first message was sent.
        self._heard = b""
        self._tls = ""
        self._attempt = ""
        self._lost_before = 0
        self._warmup = {"sent": 0, "answered": 0}
        # Messages of this run itself that the broker has counted by the last scan, answers included.
        self._own = 0
        self._current: RequestLoop | None = None
        self.measurement = self._measurement(self.record.store, token, p.messages * p.repetitions)

    def prepare(self) -> None:
        self._wait_for_parts()
        # Once, before anything is measured: the treatments are judged again before every cell.
        if priority := self.parameters.priority_controller:
            self._attempt = try_fifo(priority)
        self.news.begin()
        self._lost_before = self._client.disconnects
        # The first scan applies the treatments, under which the warm-up runs; the first cell begins at the second.
        self.scan()
        self._warm_up()
        self.wait_for_quiet()
        self.scan()
        self._current = self.measurement

    def measure_cell(self, index: int, cell: LoopCell) -> CellResult[LoopCell]:
        p, rows, client = self.parameters, self.parameters.rows(index), self._client
        lost, before = client.disconnects, client.moved_bytes
        for repetition in range(p.repetitions):
            first = rows.start + repetition * p.messages
            self.measurement.repetition(first, p.messages, round(cell.interval_ms * 1e6), cell.qos)
            self.record.append(range(first, first + p.messages))
            self.progress(index, cell, (repetition + 1) * p.messages)
        # Drain before the scan: nobody listens while the treatments are read.
        self.measurement.drain(rows)
        # A new connection counts from its begin.
        after, store = client.moved_bytes if client.disconnects == lost else None, self.record.store
        moved = None if before is None or after is None else after - before
        self._count_own(store, rows, cell.qos)
        # Latencies are summarised at the end of the run: that would take too long between cells.
        wire_bytes = None if moved is None or self.others else round(moved / len(rows), 2)
        return CellResult(cell, {"wire_bytes": wire_bytes})

    def conclude(self, index: int) -> None:
        self.scan()
        if index + 1 == len(self.parameters.cells):
            self._wait_for_counts()
            self._hear_out()

    def scan(self) -> Scan | None:
        """Have the treatments read; the scan also holds what this run has published and what the bridge reports."""
        seen = self.take_scan(own=self._own, elsewhere=treatments.elsewhere(self.news.info))
        self._client.wait(perf_counter_ns() + 10_000_000)
        return seen

    def _wait_for_counts(self) -> None:
        """Wait for the counts that the bridge publishes once it has been idle for a moment.

        Where answers came twice, there may be another bridge, which publishes its own.
        """
        known, twice = self.news.info, any(self.measurement.counts.duplicates)
        end_ns = perf_counter_ns() + BRIDGE_REPORT_NS * (2 if twice else 1)
        while (twice or self.news.info == known) and perf_counter_ns() < end_ns:
            self._client.wait(perf_counter_ns() + 20_000_000)

    def _hear_out(self) -> None:
        """Listen for the answers of messages that were lost for no known cause: one that comes now has expired."""
        every = range(self.parameters.samples)
        missing = self._losses().unknown(every)
        end_ns = perf_counter_ns() + HEAR_OUT * limit_ns(self.parameters.deadline_ms)
        while missing and perf_counter_ns() < end_ns:
            self._step()
            missing = [row for row in missing if row not in self.measurement.counts.expired]

    def judge(self) -> list[Treatment]:
        bridge = self.news.info
        cells = [{**one.cell.document, **self._by_scans(index)} for index, one in enumerate(self.measured)]
        return [
            *treatments.judge(self.parameters, self.scans, bridge, self.client.fault, self._attempt),
            *treatments.judge_robot(self.parameters, cells, virtual=treatments.is_virtual(bridge)),
            *treatments.judge_connections(self.parameters, self._tls, bridge),
            *self._judge_kept(),
            *treatments.judge_legs(self.parameters, (self.others or self._client).granted, bridge, self._answer_qos()),
            *(self.others or self).judge_clients(),
            treatments.judge_broker(self.parameters, self.record.versions.get("broker", "")),
            *readiness.other_bridges(self.news.instances, answered_twice=any(self.measurement.counts.duplicates)),
            link.judge(self.parameters.link, self.links, any(running(scan, LINK.name) for scan in self.scans)),
            *([judge_own_bridge(self.measurement.counts)] if self.parameters.own_bridge else []),
        ]

    def _judge_kept(self) -> Sequence[Treatment]:
        restarted = treatments.broker_restarted(self.scans)
        lost = self._client.disconnects - self._lost_before + (self.others.disconnects if self.others else 0)
        cause = BROKER_RESTARTED if restarted else self._client.last_loss or "a client connected again"
        return [
            treatments.judge_connection(CONTROLLER.name, [cause] * lost),
            treatments.judge_connection(BRIDGE.name, self.news.losses(broker_restarted=restarted)),
        ]

    def judge_clients(self) -> Sequence[Treatment]:
        """Return what the scans show of the lab's own client."""
        p = self.parameters
        return [
            treatments.judge_number(p, self.scans),
            treatments.judge_path(p, self.scans, CONTROLLER),
            self._client.judge_version(),
        ]

    def document(self, measured: CellResult[LoopCell], rows: range) -> dict[str, Any]:
        index, store, cell = rows.start // len(rows), self.record.store, measured.cell
        more = {
            **measured.more,
            **of_rows(store, rows),
            **self.measurement.counts.of_cell(index),
            **self._by_scans(index),
            **{name: self.interference[index][name] for name in ("steal_s", "strangers_cpu_s")},
            "lost_by": self._losses().count(rows),
        }
        document = entry(CellResult(cell, more), store, rows)
        sent, answered = tally(store, rows)
        usual_ns = 1000 * (document["T_us"]["p50"] or 0)
        held = (held_us(store, sent), answers_held_us(store, answered, usual_ns))
        return {**document, **quiet.causes(document, *held)}

    def contents(self) -> dict[str, Any]:
        counts = self.measurement.counts
        return {
            **super().contents(),
            "warmup": self._warmup,
            "malformed": counts.malformed + self.news.malformed,
            "foreign": counts.foreign + self.news.foreign,
            "expired": len(counts.expired),
            **self.news.document(broker_restarted=treatments.broker_restarted(self.scans)),
            **placement.document(self.scans),
            **(self.others.document() if isinstance(self.others, OwnClient) else {}),
        }

    def _by_scans(self, index: int) -> dict[str, Any]:
        """Return what run.json holds of a cell's load, run-queue waits and noise floor.

        Empty where a scan is missing.
        """
        before, after = self.around[index]
        if before is None or after is None:
            return {"load": {}, "cpu_wait_us": {}, "cpu_runs": {}}
        load = treatments.strength(self.parameters.load, before, after)
        runs = {part: grown(before, after, part, "runs") for part in PARTS}
        return {"load": load, "cpu_runs": runs, **quiet.between(before, after, _ROLES)}

    def close(self) -> None:
        if self.others:
            self.others.close()
        self._client.close()
        self.client.end_loads()

    def _measurement(self, store: SampleStore, token: str, per_cell: int) -> RequestLoop:
        p = self.parameters
        form = f"{p.command}-{token}-%d".encode()
        requests = Messages(TOPIC_REQUEST, form, per_cell, p.deadline_ms, sleeps=p.pacing == SLEEP)
        if isinstance(self.others, OwnClient):
            return OwnMeasurement(self.others, store, requests, token, self.news.take)  # type: ignore[arg-type]
        if self.others:
            return PrintedMeasurement(self.others, store, requests, token, self.news.take)
        return RequestLoop(self._client, self._client.subscriber, store, requests, token, self.news.take)

    def _answer_qos(self) -> set[tuple[int, int]]:
        """Return the QoS of requests, each with that of an answer."""
        cells = self.parameters.cells
        return {(cells[index].qos, came) for index, came in self.measurement.answer_qos}

    def _losses(self) -> Losses:
        """Return the causes of lost messages by what is known so far."""
        away = [] if self._client.connected else [NEVER_NS]
        returns = [*self._connected_ns[len(self._client.clients) :], *away, *self.news.returns_ns()]
        every, expired = range(self.parameters.samples), self.measurement.counts.expired
        return Losses(self.record.store, every, self.news.merged, expired, returns)

    def _received(self, topic: bytes, payload: bytes, qos: int) -> None:
        if self._current is not None:
            self._current.received(topic, payload, qos)
        elif topic == TOPIC_ANSWER.encode():
            self._heard = payload
        else:
            self.news.take(topic, payload)

    def _wait_for_parts(self) -> None:
        self._connect()
        self._wait_for_bridge()
        p = self.parameters
        if p.link != NO_LINK:
            self.wait_for_part("link", lambda: readiness.check_link(p.link, self.link_url), self._step)
        if p.load != NO_LOAD:
            check = partial(readiness.check_load, p.load, self.client, treatments.applied(p))
            self.wait_for_part(p.load, check, self._step)

    def _connect(self) -> None:
        client, p, timeout_s = self._client, self.parameters, self.parameters.parts_timeout_s
        self.record.say("waiting", what=f"broker at {p.broker_host}:{p.broker_port}")
        if not client.connect(timeout_s):
            raise MachineError(
                f"No broker within {timeout_s} s: {client.last_error or 'no answer'}.",
                "See whether the broker runs and what it reports (`docker compose ps`, `docker compose logs broker`), "
                "and that one scenario alone is running.",
            )
        if client.sock:
            self._tls = client.sock.tls
        self.record.versions["broker"] = version(BROKERS[p.broker], p.broker_host, p.broker_port)

    def _wait_for_bridge(self) -> None:
        """Wait for bridge and robot, each in its own time. Raises LabError (exit code 3) for the first that is missing.

        A bridge on a Pi must be of this version.
        """
        p, news = self.parameters, self.news
        if p.own_bridge:
            self.record.say("waiting", what="own bridge")
            wait_for_own_bridge(p, self.record.token, self._client, lambda: self._heard)
            return
        self.wait_for_part("bridge", lambda: readiness.check_bridge(p, news.status), self._step)
        readiness.check_version(p, news.info)
        if p.command != COMMAND_EMULATED:
            self.wait_for_part("robot", lambda: readiness.check_robot(p, news.status, news.info), self._step)

    def _warm_up(self) -> None:
        """Send a few requests at each QoS along the whole way, with a token of their own: counted, part of no cell."""
        count, qos = self.parameters.warmup_messages, self.parameters.qos
        if not count:
            return
        store = SampleStore(count * len(qos), more=self.columns)
        self._current = self._measurement(store, f"w{self.record.token}", count)
        for index, one in enumerate(qos):
            self._current.repetition(index * count, count, WARMUP_INTERVAL_NS, one)
        self._current.drain(range(store.count))
        for index, one in enumerate(qos):
            self._count_own(store, range(index * count, (index + 1) * count), one)
        states = store["state"].tolist()
        if isinstance(self.others, OwnClient):
            self.others.performances.clear()
        self._warmup = {"sent": len(states), "answered": states.count(ANSWERED), "lost": states.count(WAITING)}

    def _count_own(self, store: SampleStore, rows: range, qos: int) -> None:
        """Count the messages of this run that the broker counts, too; the bridge answers as it is subscribed."""
        p = self.parameters
        counted = BROKERS[p.broker].counted_qos(self.record.versions["broker"])
        requests, answers = qos in counted, subscription_qos(p.qos_legs, qos) in counted
        self._own += passed(store, rows, requests=requests, answers=answers)

    def _step(self) -> None:
        self._client.wait(perf_counter_ns() + STEP_NS)


# The name that looplab.run.life knows it by.
Controller = LoopController
