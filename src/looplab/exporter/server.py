"""The exporter: serves the run that goes on or went on last, the broker and the machine to Prometheus on port 9101.

GET /metrics answers with everything. Prometheus asks for /metrics/live each second: without the runs and cells in which
nothing has changed for half a minute, for it has them.

An experiment's `live.py`, if there is one, has `Live`, its kind of LiveCell, or `latencies(state)`, those of the
current cell of a run without live rows; and perhaps `BROKER_TOPICS`, which adds to a page what the broker retains.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from looplab.errors import LabError, MachineError
from looplab.exporter.broker import BrokerWatch
from looplab.exporter.live import LiveFolder
from looplab.exporter.machine import HostWatch
from looplab.metrics.page import Page
from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.spec.experiment import Experiments
from looplab.spec.reader import Reader
from looplab.spec.roles import BROKER
from looplab.system import own_process
from looplab.system.env_files import read_port
from looplab.treatments.loads import loads

PORT, PAGES_PORT = 9101, 8080


class Exporter:
    """Puts the page together. `pages_port` is that of the lab's pages, to which the dashboards link."""

    def __init__(
        self,
        live: Path,
        experiments: Experiments,
        broker: BrokerWatch | None,
        host: HostWatch,
        pages_port: int = PAGES_PORT,
    ) -> None:
        self._live = LiveFolder(live, experiments)
        self._broker, self._host, self._pages_port = broker, host, pages_port
        self._lock = threading.Lock()

    def page(self, *, changing: bool = False) -> Page:
        """Return all metrics; if `changing`, without cells that are settled."""
        page = Page()
        with self._lock:
            self._live.add_to(page, changing=changing)
            if self._broker is not None:
                self._broker.add_to(page)
            self._host.add_to(page)
        page.add("lab_pages_info", {"port": str(self._pages_port)}, 1)
        return page


class LabCollector(Collector):
    """One of the exporter's two pages for prometheus_client."""

    def __init__(self, exporter: Exporter, *, changing: bool) -> None:
        self._exporter, self._changing = exporter, changing

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry need not read the lab to know its names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the families of one scrape."""
        yield from self._exporter.page(changing=self._changing).families()


def broker_topics(experiments: Experiments) -> dict[str, Callable[[Page, bytes], None]]:
    """Return what adds a retained payload to a page, by topic."""
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


class _Handler(WSGIRequestHandler):
    timeout = 60

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: a line for each scrape would only wake the disk."""


class _Server(ThreadingWSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent about a client that gave up waiting: on a loaded machine that is each scrape."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def server(exporter: Exporter, host: str, port: int) -> WSGIServer:
    """Return an HTTP server over `exporter`, bound and not yet serving. Raises MachineError if the port is taken."""
    pages = {}
    for path, changing in (("/metrics", False), ("/metrics/live", True)):
        registry = CollectorRegistry()
        registry.register(LabCollector(exporter, changing=changing))
        pages[path] = make_wsgi_app(registry, disable_compression=True)

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        if known := pages.get(environ["PATH_INFO"]):
            return known(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"Try /metrics.\n"]

    try:
        return make_server(host, port, answer, _Server, _Handler)
    except OSError as error:
        raise MachineError(
            f"The exporter cannot listen on port {port}: {error.strerror}.",
            "Stop what listens there, or set EXPORTER_PORT to a free port.",
        ) from error


def main(experiments: Experiments) -> int:
    """Serve until SIGTERM; BROKER_HOST, BROKER_PORT, EXPORTER_PORT, LIVE_DIR and LAB_PAGES_PORT say where."""
    own_process.set_name("lab-exporter")
    for number in (signal.SIGTERM, signal.SIGINT):
        # No file can be half written, and an exception raised in a signal handler may be lost.
        signal.signal(number, lambda *_: os._exit(0))
    environment = dict(os.environ)
    try:
        under_test = BROKERS[Reader(environment, "").choice("BROKER", DEFAULT, tuple(BROKERS))]
        broker = BrokerWatch(
            environment.get("BROKER_HOST") or "broker",
            read_port(environment, "BROKER_PORT", 1883),
            broker_topics(experiments),
            broker=under_test,
        )
        names = {**process_names(experiments), BROKER.name: (*BROKER.comms, under_test.comm)}
        host = HostWatch(names)
        pages_port = read_port(environment, "LAB_PAGES_PORT", PAGES_PORT)
        live = Path(environment.get("LIVE_DIR") or "/live")
        exporter = Exporter(live, experiments, broker, host, pages_port)
        serving = server(exporter, "0.0.0.0", read_port(environment, "EXPORTER_PORT", PORT))
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    broker.start()
    serving.serve_forever()
    return 0
