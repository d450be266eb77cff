"""No call between the lab's own parts goes through a proxy, which knows none of their names."""

from dataclasses import replace

import pytest

from looplab.lab import metrics_page
from looplab.spec.brokers import BROKERS
from looplab.system.json_client import Service
from looplab.system.json_service import serve
from looplab.treatments import broker


@pytest.fixture(autouse=True)
def proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the engine's client sets it where its config.json names `proxies`; nothing listens there."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_parts_answer_beside_a_proxy() -> None:
    server = serve("127.0.0.1", 0, {"GET /metrics": lambda _request: {"here": "yes"}}, "Set `PORT`.")
    at = f"127.0.0.1:{server.server_port}"
    try:
        assert Service("thing", "Start it.").ask(f"http://{at}/metrics", "GET") == {"here": "yes"}
        assert "yes" in metrics_page.fetch(f"http://{at}/metrics")
        page = replace(BROKERS["rabbitmq"], page=f"{server.server_port}/metrics")
        assert "yes" in broker.read_page(page, "127.0.0.1")
    finally:
        server.shutdown()
        server.server_close()
