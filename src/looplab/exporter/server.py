"""The exporter: serves the live run, the stored runs, the broker and the machine to Prometheus on port 9101.

GET /metrics answers with everything. Prometheus asks for its two halves apart, /metrics/live each second and
/metrics/stored more seldom: the stored runs are thousands of numbers that do not change.

An experiment's `live.py`, if there is one, has `Live`, its kind of LiveCell, or `live_texts(state)`, further lines of a
run without live rows; and perhaps `FAMILIES`, and `BROKER_TOPICS`, which makes lines of what the broker retains.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.exporter.broker import BrokerWatch
from looplab.exporter.live import LiveFolder
from looplab.exporter.machine import HostWatch
from looplab.exporter.stored import Key, StoredRuns
from looplab.metrics.cells import families
from looplab.metrics.text_format import CONTENT_TYPE, FAMILIES, Families, Texts, line, page
from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.spec.experiment import Experiments
from looplab.spec.reader import Reader
from looplab.spec.roles import BROKER
from looplab.system import own_process
from looplab.system.env_files import read_port
from looplab.treatments.loads import loads

PORT, PAGES_PORT = 9101, 8080
# Of finished runs Prometheus gets the exact quantiles: these buckets are a fifth of the page, and nobody draws them.
NOT_STORED = "_send_lateness_seconds"
# How often results/ is looked at; between changes one stat(2).
REFRESH_S = 1.0


class Exporter:
    """Puts the pages together. A run is on one of the two pages at any moment.

    The stored page is asked for seldom: until it was, the run that finished last is on the live page.
    `pages_port` is that of the lab's pages; the dashboards' links to the handouts ask for it.
    """

    def __init__(
        self,
        live: Path,
        results: Path,
        experiments: Experiments,
        broker: BrokerWatch | None,
        host: HostWatch,
        pages_port: int = PAGES_PORT,
    ) -> None:
        self.stored = StoredRuns(results, experiments)
        self._families = all_families(experiments)
        self._own = {"lab_pages_info": line("lab_pages_info", {"port": str(pages_port)}, 1)}
        self._live = LiveFolder(live, experiments)
        self._broker = broker
        self._host = host
        self._lock = threading.Lock()
        self._stored_page: tuple[int, Key | None, bytes] | None = None
        self._version = 0
        # The newest run of the stored page.
        self._handed_over = ""

    def refresh_forever(self, stop: threading.Event) -> None:
        """Keep the stored runs up to date; a long one is parsed here and holds no scrape up."""
        while not stop.is_set():
            if self.stored.refresh():
                self._version += 1
            stop.wait(REFRESH_S)

    def live_page(self) -> bytes:
        """Return the metrics of the running run or the newest finished one, the broker and the machine."""
        with self._lock:
            return page(self._live_parts()[1], self._families)

    def stored_page(self) -> bytes:
        """Return the finished runs, except one that is being repeated now."""
        with self._lock:
            run = self._live.run(self.stored.run_ids)
            version, hidden = self._version, run.key if run else None
            if self._stored_page is None or self._stored_page[:2] != (version, hidden):
                parts = [
                    {name: text for name, text in part.items() if not name.endswith(NOT_STORED)}
                    for part in self._stored_parts(hidden)
                ]
                self._stored_page = (version, hidden, page(parts, self._families))
            self._handed_over = max(self.stored.run_ids, default="")
            return self._stored_page[2]

    def whole_page(self) -> bytes:
        with self._lock:
            hidden, parts = self._live_parts()
            return page([*parts, *self._stored_parts(hidden)], self._families)

    def _live_parts(self) -> tuple[Key | None, list[Texts]]:
        parts: list[Texts] = []
        run = self._live.run(self.stored.run_ids)
        if run is not None:
            key: Key | None = run.key
            parts.append(self._live.texts(run))
        else:
            key, finished = self._finished_last()
            parts.append(finished)
        if self._broker is not None:
            parts.append(self._broker.texts())
        parts += [self._host.texts(), self._own]
        return key, parts

    def _finished_last(self) -> tuple[Key | None, Texts]:
        """Return the newest stored run, unless the stored page has it."""
        newest = {run_id: (key, texts) for key, (run_id, texts) in self.stored.newest.items()}
        last = max(newest, default="")
        return newest[last] if last > self._handed_over else (None, {})

    def _stored_parts(self, hidden: Key | None) -> list[Texts]:
        newest = self.stored.newest
        parts: list[Texts] = [texts for key, (_run_id, texts) in sorted(newest.items()) if key != hidden]
        parts.append({"lab_damaged_runs": line("lab_damaged_runs", {}, len(self.stored.damaged))})
        return parts


def all_families(experiments: Experiments) -> Families:
    """Return every family of the exporter, the experiments' first."""
    own = [families(cell) for one in experiments.values() for cell in (one.cell, *one.tables.values())]
    live = [getattr(one.optional_part("live"), "FAMILIES", {}) for one in experiments.values()]
    return {**{name: about for known in (*own, *live) for name, about in known.items()}, **FAMILIES}


def broker_topics(experiments: Experiments) -> dict[str, Callable[[bytes], Texts]]:
    """Return what makes sample lines of a retained payload, by topic."""
    live = [getattr(one.optional_part("live"), "BROKER_TOPICS", {}) for one in experiments.values()]
    return {topic: read for topics in live for topic, read in topics.items()}


def process_names(experiments: Experiments) -> dict[str, tuple[str, ...]]:
    """Return the names of the processes of each part of the lab: the experiments' roles, loads, who watches them."""
    roles = [role for experiment in experiments.values() for role in experiment.roles]
    return {
        **{role.name: role.comms for role in (*roles, *(load.role for load in loads().values()))},
        "treatments": ("lab-treatments",),
        "exporter": ("lab-exporter",),
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent about a client that gave up waiting: on a loaded machine that is each scrape."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def server(exporter: Exporter, address: tuple[str, int]) -> ThreadingHTTPServer:
    """An HTTP server over `exporter`, bound and not yet serving. Raises LabError where the port is taken."""
    pages: dict[str, Callable[[], bytes]] = {
        "/metrics": exporter.whole_page,
        "/metrics/live": exporter.live_page,
        "/metrics/stored": exporter.stored_page,
        "/healthz": lambda: b"ok\n",
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60
        # One packet for head and body.
        wbufsize = 65536

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path in pages:
                self._reply(200, pages[path](), CONTENT_TYPE)
            else:
                self._reply(404, b"Try /metrics, /metrics/live or /metrics/stored.\n")

        def _reply(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Stay silent: a line for each scrape would only wake the disk."""

    try:
        return _Server(address, Handler)
    except OSError as error:
        raise MachineError(
            f"The exporter cannot listen on port {address[1]}: {error.strerror}.",
            "Stop what listens there, or set EXPORTER_PORT to a free port.",
        ) from error


def main(experiments: Experiments) -> int:
    """Serve until SIGTERM. Reads BROKER, LIVE_DIR, RESULTS_DIR, BROKER_HOST, BROKER_PORT, EXPORTER_PORT and
    LAB_PAGES_PORT."""
    own_process.set_name("lab-exporter")
    for number in (signal.SIGTERM, signal.SIGINT):
        # It writes nothing that could be left half done; an exception raised by a signal can get lost.
        signal.signal(number, lambda *_: os._exit(0))
    environment = dict(os.environ)
    live, results = environment.get("LIVE_DIR") or "/live", environment.get("RESULTS_DIR") or "/results"
    try:
        under_test = BROKERS[Reader(environment, "").choice("BROKER", DEFAULT, tuple(BROKERS))]
        broker = BrokerWatch(
            environment.get("BROKER_HOST") or "broker",
            read_port(environment, "BROKER_PORT", 1883),
            broker_topics(experiments),
            broker=under_test,
        )
        port = read_port(environment, "EXPORTER_PORT", PORT)
        pages_port = read_port(environment, "LAB_PAGES_PORT", PAGES_PORT)
        names = {**process_names(experiments), BROKER.name: (*BROKER.comms, under_test.comm)}
        host = HostWatch(names)
        exporter = Exporter(Path(live), Path(results), experiments, broker, host, pages_port)
        serving = server(exporter, ("0.0.0.0", port))
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    broker.start()
    threading.Thread(target=exporter.refresh_forever, args=(threading.Event(),), daemon=True).start()
    serving.serve_forever()
    return 0
