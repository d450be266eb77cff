"""What a broker reports on its page of metrics: version and counts; what does not answer reports nothing."""

import http.server
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.parts import HOST
from support.waiting import until

from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter import broker as exporter_broker
from looplab.exporter.broker import BrokerWatch
from looplab.exporter.server import broker_topics
from looplab.metrics.page import Page
from looplab.spec.brokers import BROKERS, Broker
from looplab.treatments import broker as reports
from looplab.treatments.broker import published, version

# As RabbitMQ 4.0.5 writes it, cut.
PAGE = """# TYPE rabbitmq_build_info untyped
rabbitmq_build_info{rabbitmq_version="4.0.5",erlang_version="27.3.4.1"} 1
rabbitmq_erlang_uptime_seconds 7.338
rabbitmq_global_messages_received_total{protocol="amqp091"} 5
rabbitmq_global_messages_received_total{protocol="mqtt311"} 1234
rabbitmq_global_messages_delivered_total{protocol="mqtt311",queue_type="rabbit_classic_queue"} 30
rabbitmq_global_messages_delivered_total{protocol="mqtt311",queue_type="rabbit_mqtt_qos0_queue"} 12
"""
NOBODY = 1


@pytest.fixture
def served() -> Iterator[int]:
    """The port of a server of that page."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def paged(port: int) -> Broker:
    return replace(BROKERS["rabbitmq"], page=f"{port}/metrics")


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_that_does_not_answer_reports_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "PAGE_PATIENCE_S", 0.3)
    known = BROKERS[name]
    broker = paged(NOBODY) if known.page else known
    assert version(broker, HOST, NOBODY) == ""
    assert published(broker, HOST, NOBODY)[0] is None


def test_a_page_has_version_and_count_which_the_exporter_shows(served: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert version(paged(served), HOST, NOBODY) == "4.0.5"
    assert published(paged(served), HOST, NOBODY)[0] == 1234
    monkeypatch.setattr(exporter_broker, "PAGE_S", 0.05)
    watch = BrokerWatch(HOST, NOBODY, broker_topics(EXPERIMENTS), broker=paged(served))

    def shown() -> dict[str, float]:
        watch.add_to(page := Page())
        return {one.name: one.value for family in page.collect() for one in family.samples}

    try:
        until(lambda: shown().get("lab_broker_uptime_seconds"), "the page is read")
        found = shown()
    finally:
        watch.stop()
    assert (found["lab_broker_up"], found["lab_broker_publish_received_total"]) == (1, 1234)
