"""One run from its parameters to results/: waits for the parts, measures cell by cell, accounts, stores."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from looplab.errors import EXIT_MACHINE, EXIT_USAGE, LabError
from looplab.experiments.loop import readiness as presence
from looplab.experiments.loop import robot_isolation as robot_service
from looplab.experiments.loop.outages import NETWORK, absences, delayed, unnoticed
from looplab.experiments.loop.parameters import NO_LINK, Parameters, read_parameters
from looplab.experiments.loop.protocol import (
    OFFLINE,
    ONLINE,
    TOPIC_ANSWER,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_STATUS,
    TOPIC_ROBOT_STATUS,
)
from looplab.experiments.loop.request_loop import Measurement
from looplab.experiments.loop.table import table
from looplab.mqtt.client import MqttClient
from looplab.mqtt.pairing import read_pairing
from looplab.run.accounting import cell, cell_rows, sample_lines, transport_lines
from looplab.run.folder import SAMPLES_HEADER, SCHEMA, TRANSPORT_HEADER, RunFolder
from looplab.run.process import Interrupted, heard, keep_interrupted, live_store, run_process, write_state
from looplab.run.samples import SampleStore
from looplab.system.machine_facts import describe
from looplab.treatments import judgement as treatments
from looplab.treatments import link as judgement
from looplab.treatments import tls as tls_treatment

LONGEST_NOTE_BYTES = 10_000
# Changes of retained statuses that a run keeps; a flood of them must not fill memory and run.json.
MOST_CHANGES = 1000
# Of what bridges say of themselves, the newest: enough to see whether there are two.
MOST_WORDS = 20
WARMUP_INTERVAL_NS = 20_000_000
# Twice the bridge's own pause before it publishes its counts.
BRIDGE_REPORT_NS = 600_000_000
LINK_URL = "http://bridge:9107"
TREATMENTS_URL = f"http://treatments:{9100}/facts"


class Controller:
    """Owns one run; `say(event, **facts)` reports progress to a person or to ./lab."""

    def __init__(self, parameters: Parameters, results: Path, live: Path | None, say: Callable[..., None]) -> None:
        self.parameters = parameters
        self._say = say
        self._live = live
        self.store = live_store(parameters.samples, live)
        self._folder = RunFolder(results, parameters.scenario, parameters.samples)
        self._token = secrets.token_hex(4)
        self._retained: dict[str, bytes] = {}
        self._retained_changes: list[dict[str, Any]] = []
        self._bridge_before: dict[str, Any] = {}
        self._words: deque[bytes] = deque(maxlen=MOST_WORDS)
        self._client = treatments.TreatmentsClient(os.environ.get("TREATMENTS_URL") or TREATMENTS_URL)
        self._looks: list[dict[str, Any] | None] = []
        self._loads: list[dict[str, Any]] = []
        self._link_url = os.environ.get("LINK_URL") or LINK_URL
        self._link_looks: list[dict[str, Any]] = []
        self._environment = describe(os.environ.get("LOOPLAB_ENVIRONMENT", ""))
        pairing = _pairing_file(parameters)
        self._broker = (parameters.broker_host, parameters.broker_port)
        if pairing is not None:
            access = read_pairing(pairing)
            self._broker = (access.host, access.port)
        self._link = MqttClient(
            *self._broker,
            f"controller-{self._token}",
            tcp_nodelay=parameters.tcp_nodelay,
            subscriptions=[(TOPIC_ANSWER, max(parameters.qos)), ("lab/#", 1)],
            on_message=self._received,
            pairing=pairing,
        )
        self._tls = ""
        self._current: Measurement | None = None
        self.measurement = self._measurement(self.store, self._token)

    def run(self) -> dict[str, Any]:
        """Measure, store, and return the run.json document. Raises LabError, Interrupted."""
        try:
            self._wait_for_parts()
            self._bridge_before = self._bridge_info()
            warmup = self._warm_up()
            self._look()
            self._sweep()
            self._hear_bridge()
            run = self._document(warmup)
            self._write_all()
        except (Interrupted, KeyboardInterrupt):
            heard()
            self._keep("interrupted")
            raise Interrupted from None
        except LabError as error:
            self._keep(str(error))
            raise
        finally:
            self._link.close()
        self._folder.finish(run)
        self._state("finished")
        return run

    def _measurement(self, store: SampleStore, token: str) -> Measurement:
        p = self.parameters
        return Measurement(
            self._link,
            store,
            p.command,
            token,
            per_cell=p.messages * p.repetitions,
            deadline_ms=p.deadline_ms,
            on_other=self._note,
        )

    def _received(self, topic: bytes, payload: bytes, qos: int) -> None:
        if self._current is not None:
            self._current.received(topic, payload, qos)
        else:
            self._note(topic, payload)

    def _note(self, topic: bytes, payload: bytes) -> None:
        """Keep what is retained under lab/: who is online, what the bridge says of itself."""
        name = topic.decode("ascii", "replace")
        if name not in (TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS, TOPIC_BRIDGE_INFO):
            self.measurement.foreign += 1
            return
        if len(payload) > LONGEST_NOTE_BYTES or (name != TOPIC_BRIDGE_INFO and payload not in (ONLINE, OFFLINE)):
            self.measurement.malformed += 1
            return
        changed, self._retained[name] = self._retained.get(name) != payload, payload
        if name == TOPIC_BRIDGE_INFO:
            self._words.append(payload)
        elif changed and len(self._retained_changes) < MOST_CHANGES:
            change = {"at_ns": perf_counter_ns(), "topic": name, "status": payload.decode()}
            if name == TOPIC_BRIDGE_STATUS:
                info = self._bridge_info()
                change.update({key: str(info[key]) for key in ("instance", "boot") if key in info})
            self._retained_changes.append(change)

    def _wait_for_parts(self) -> None:
        p = self.parameters
        self._say("waiting", what=f"broker at {self._broker[0]}:{self._broker[1]}")
        if not self._link.connect(p.parts_timeout_s):
            raise LabError(
                f"No broker within {p.parts_timeout_s} s: {self._link.last_error or 'no answer'}.",
                "See whether the broker runs and what it says (`docker compose ps`, `docker compose logs`), and that "
                "one scenario alone is running.",
                EXIT_MACHINE,
            )
        self._tls = self._link.sock.tls if self._link.sock else ""
        self._wait_for_bridge()
        if p.link != NO_LINK:
            self._wait_for_link()
        if p.load != "none":
            self._say("waiting", what=p.load)
            self._wait_for_load()

    def _wait_for_bridge(self) -> None:
        """Until bridge and robot are there and set up as this run is; LabError (3) names the first that is not."""
        p = self.parameters
        end_ns, told = 0, ""
        while (missing := presence.missing(p, self._retained)) is not None:
            if missing.settled:
                raise LabError(f"{missing.problem}.", missing.remedy, EXIT_MACHINE)
            if missing.part != told:
                self._say("waiting", what=missing.part)
                told = missing.part
                end_ns = perf_counter_ns() + p.parts_timeout_s * 1_000_000_000
            if perf_counter_ns() > end_ns:
                raise LabError(f"{missing.problem} within {p.parts_timeout_s} s.", missing.remedy, EXIT_MACHINE)
            self._link.wait(perf_counter_ns() + 100_000_000)

    def _wait_for_link(self) -> None:
        """The emulator may still be looking for its peer; until then packets pass undelayed."""
        p = self.parameters
        self._say("waiting", what="link")
        end_ns = perf_counter_ns() + p.parts_timeout_s * 1_000_000_000
        while not (state := judgement.look(self._link_url, pings=0)).get("links"):
            if perf_counter_ns() > end_ns:
                why = state.get("fault", "its emulator knows no link")
                raise LabError(
                    f"The link {p.link} was not there within {p.parts_timeout_s} s: {why}",
                    "See `docker compose logs link`, and compose/links.md.",
                    EXIT_MACHINE,
                )
            self._link.wait(perf_counter_ns() + 100_000_000)

    def _wait_for_load(self) -> None:
        p = self.parameters
        end_ns = perf_counter_ns() + p.parts_timeout_s * 1_000_000_000
        while not treatments.running(self._client.facts(p, published=False), p.load):
            if perf_counter_ns() > end_ns:
                raise LabError(
                    f"The {p.load} load was not seen running within {p.parts_timeout_s} s.",
                    f"See `docker compose logs` of the {p.load} service.",
                    EXIT_MACHINE,
                )
            self._link.wait(perf_counter_ns() + 100_000_000)

    def _warm_up(self) -> dict[str, Any]:
        """A few requests along the whole way, with a token of their own: counted, not part of any cell."""
        count = self.parameters.warmup_messages
        if not count:
            return {"sent": 0, "answered": 0}
        store = SampleStore(count)
        self._current = self._measurement(store, f"w{self._token}")
        self._current.repetition(0, count, WARMUP_INTERVAL_NS, min(self.parameters.qos))
        result = cell(store, range(count), {})
        return {"sent": result["sent"], "answered": result["answered"], "lost": result["lost"]}

    def _sweep(self) -> None:
        p = self.parameters
        self._current = self.measurement
        started = time.monotonic()
        for interval_ms, qos, rows in cell_rows(p):
            for repetition in range(p.repetitions):
                first = rows.start + repetition * p.messages
                self.measurement.repetition(first, p.messages, round(interval_ms * 1e6), qos)
                done = range(first, first + p.messages)
                self._folder.append("samples.csv", sample_lines(p, self.store, done))
                self._say(
                    "repetition",
                    scenario=p.scenario,
                    interval_ms=interval_ms,
                    qos=qos,
                    repetition=repetition + 1,
                    repetitions=p.repetitions,
                    messages_done=done.stop,
                    messages=p.samples,
                    answered=self._answered(done),
                    seconds_left=round(self._seconds_left(done.stop), 1),
                    elapsed_s=round(time.monotonic() - started, 1),
                )
            # First, because nobody listens while the treatments are looked at.
            self.measurement.drain(rows)
            self._look()

    def _seconds_left(self, messages_done: int) -> float:
        p = self.parameters
        per_cell = p.messages * p.repetitions
        left = 0.0
        for index, (interval_ms, _qos) in enumerate(p.cells):
            messages = min(per_cell, max(0, (index + 1) * per_cell - messages_done))
            left += messages * interval_ms / 1000
        return left

    def _answered(self, rows: range) -> int:
        received = self.store["received_ns"]
        return sum(received[row] >= 0 for row in rows)

    def _look(self) -> None:
        """Have the treatments applied and verified, between cells and never within one."""
        look = self._client.facts(self.parameters, published=self.parameters.load == "flood")
        if look is not None and self.parameters.link != NO_LINK:
            self._link_looks.append(judgement.look(self._link_url))
        before = self._looks[-1] if self._looks else None
        if before is not None and look is not None:
            self._loads.append(treatments.load_strength(self.parameters, before, look))
        self._looks.append(look)
        self._state("running")
        self._link.wait(perf_counter_ns() + 10_000_000)

    def _judged(self) -> list[treatments.Treatment]:
        bridge = self._bridge_info()
        found = treatments.judge(self.parameters, self._looks, bridge)
        emulating = any(treatments.running(look, "link") for look in self._looks)
        found += robot_service.judge(self.parameters, self.store, virtual=treatments.is_virtual(bridge))
        found += tls_treatment.judge(self.parameters, self._tls, bridge)
        found += presence.other_bridges(self._words, answered_twice=any(self.measurement.duplicates))
        return [*found, judgement.judge(self.parameters.link, self._link_looks, emulating)]

    def _hear_bridge(self) -> None:
        """The bridge tells its counts when it has been idle for a moment; where nothing comes, it has told them.

        Where answers came twice, there may be another bridge, which tells its own.
        """
        known, twice = self._retained.get(TOPIC_BRIDGE_INFO), any(self.measurement.duplicates)
        end_ns = perf_counter_ns() + BRIDGE_REPORT_NS * (2 if twice else 1)
        while (twice or self._retained.get(TOPIC_BRIDGE_INFO) == known) and perf_counter_ns() < end_ns:
            self._link.wait(perf_counter_ns() + 20_000_000)

    def _document(self, warmup: dict[str, Any]) -> dict[str, Any]:
        p = self.parameters
        found = self._judged()
        measurement = self.measurement
        cells = []
        for index, (interval_ms, qos, rows) in enumerate(cell_rows(p)):
            counts = {
                "duplicates": measurement.duplicates[index],
                "out_of_order": measurement.out_of_order[index],
                "disconnects": measurement.disconnects[index],
            }
            entry = {"interval_ms": interval_ms, "qos": qos, **cell(self.store, rows, counts)}
            if index < len(self._loads):
                entry["load"] = self._loads[index]
            cells.append(entry)
        wrong = [f"{t.what}: wanted {t.wanted}, found {t.found}" for t in found if t.required and not t.verified]
        away = absences(self._retained_changes)
        told = sum(measurement.disconnects) + sum(absence["cause"] == NETWORK for absence in away)
        return {
            "schema": SCHEMA,
            "run_id": self._folder.run_id,
            "scenario": p.scenario,
            "fidelity": p.fidelity,
            "valid": not wrong,
            "invalid_because": wrong,
            "parameters": p.as_json(),
            "token": self._token,
            "warmup": warmup,
            "cells": cells,
            "malformed": measurement.malformed,
            "foreign": measurement.foreign,
            "events": self._retained_changes,
            "absences": away,
            "reconnects": unnoticed(self._bridge_before, self._bridge_info(), told),
            "delayed": delayed(self.store, range(p.samples)),
            "bridge": self._bridge_info(),
            "treatments": [t.as_json() for t in found],
            **({"link": self._link_looks[-1]} if self._link_looks else {}),
            "environment": self._environment,
        }

    def _bridge_info(self) -> dict[str, Any]:
        return presence.bridge_info(self._retained)

    def _write_all(self) -> None:
        rows = range(self.parameters.samples)
        self._folder.rewrite("samples.csv", SAMPLES_HEADER, sample_lines(self.parameters, self.store, rows))
        self._folder.rewrite("transport.csv", TRANSPORT_HEADER, transport_lines(self.store, rows))

    def _keep(self, why: str) -> None:
        kept = keep_interrupted(self._folder, self.store, self.parameters.scenario, why, self._write_all)
        self._state("interrupted")
        if kept:
            self._say("interrupted", path=kept, why=why)

    def _state(self, state: str) -> None:
        document = {
            "state": state,
            "run_id": self._folder.run_id,
            "parameters": self.parameters.as_json(),
            "treatments": [t.as_json() for t in self._judged()] if self._looks else [],
        }
        write_state(self._live, document)


def say_plain(event: str, **facts: Any) -> None:
    """Progress for a person who started the lab with plain Compose."""
    if event == "waiting":
        print(f"waiting for the {facts['what']}", flush=True)
    elif event == "repetition":
        print(
            f"{facts['scenario']}: interval {facts['interval_ms']:g} ms, QoS {facts['qos']}, repetition "
            f"{facts['repetition']}/{facts['repetitions']}: {facts['answered']} answered, "
            f"{facts['messages_done']}/{facts['messages']} sent, about {facts['seconds_left']:.0f} s left",
            flush=True,
        )
    elif event == "interrupted":
        print(f"interrupted: {facts['why']}; what was measured is kept in results/{facts['path']}", flush=True)


def _pairing_file(parameters: Parameters) -> Path | None:
    """Where the controller's identity is, with BROKER_TLS=on; LabError (exit code 2) where nobody says where."""
    if not parameters.broker_tls:
        return None
    name = os.environ.get("BROKER_PAIRING")
    if not name:
        raise LabError("BROKER_TLS=on, and BROKER_PAIRING names no pairing file.", "Run ./lab setup.", EXIT_USAGE)
    return Path(name)


def main() -> int:
    """Run from the environment; exit code 0 valid run, 1 invalid or interrupted, 2 wrong use, 3 machine."""
    return run_process(lambda *place: Controller(read_parameters(), *place).run(), say_plain, table)


if __name__ == "__main__":
    sys.exit(main())
