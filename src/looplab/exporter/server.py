"""The exporter: serves the run that goes on or went on last, the broker and the machine to Prometheus on port 9101.

GET /metrics answers with everything. Prometheus asks for /metrics/live each second: without the runs and cells in which
nothing has changed for half a minute, for it has them.

An experiment's `live.py`, if there is one, has `Live`, its kind of LiveCell, or `latencies(state)`, those of the
current cell of a run without live rows; and perhaps `BROKER_TOPICS`, which adds to a page what the broker retains.
"""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from looplab.exporter.broker import BrokerWatch, Topics
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

    def __init__(self, live: LiveFolder, parts: Sequence[BrokerWatch | HostWatch], pages_port: int) -> None:
        self._live, self._parts, self._pages_port = live, parts, pages_port
        self._lock = threading.Lock()

    def page(self, *, changing: bool = False) -> Page:
        """Return all metrics; if `changing`, without cells that are settled."""
        page = Page()
        with self._lock:
            self._live.add_to(page, changing=changing)
            for part in self._parts:
                part.add_to(page)
        page.add("lab_pages_info", {"port": str(self._pages_port)}, 1)
        return page

    def answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer a request as WSGI wants it; each path but that of Prometheus has all metrics."""
        registry = CollectorRegistry()
        registry.register(self.page(changing=environ["PATH_INFO"] == "/metrics/live"))
        return make_wsgi_app(registry, disable_compression=True)(environ, start_response)


def broker_topics(experiments: Experiments) -> Topics:
    """Return what experiments retain at the broker."""
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


@own_process.program("lab-exporter")
def main(experiments: Experiments) -> int:
    """Serve until SIGTERM; BROKER_HOST, BROKER_PORT, EXPORTER_PORT, LIVE_DIR and LAB_PAGES_PORT say where."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # No file can be half written, and an exception raised in a signal handler may be lost.
        signal.signal(number, lambda *_: os._exit(0))
    environment = dict(os.environ)
    under_test = BROKERS[Reader(environment, "").choice("BROKER", DEFAULT, tuple(BROKERS))]
    place = environment.get("BROKER_HOST") or "broker", read_port(environment, "BROKER_PORT", 1883)
    broker = BrokerWatch(*place, broker_topics(experiments), broker=under_test)
    host = HostWatch({**process_names(experiments), BROKER.name: (*BROKER.comms, under_test.comm)})
    pages_port = read_port(environment, "LAB_PAGES_PORT", PAGES_PORT)
    port = read_port(environment, "EXPORTER_PORT", PORT)
    live = LiveFolder(Path(environment.get("LIVE_DIR") or "/live"), experiments)
    exporter = Exporter(live, [broker, host], pages_port)
    make_server("0.0.0.0", port, exporter.answer, ThreadingWSGIServer, _Handler).serve_forever()
    return 0
