"""A registry on loopback that has counted enough pulls: what the real engine prints of it gets its remedy."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from looplab.errors import MachineError
from looplab.lab.docker.images import Images
from looplab.system.remedies import PULL_LIMIT

pytestmark = pytest.mark.engine

WORDS = "You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit"
# Docker Hub counts pulls, and at its door requests of any kind.
BODIES = {
    "pulls": json.dumps({"errors": [{"code": "TOOMANYREQUESTS", "message": WORDS}]}),
    "requests": "Too Many Requests (HAP429).\n",
}


class Limited(BaseHTTPRequestHandler):
    """Answers as a registry, and gives no image; the class attribute `body` says why."""

    body = b""

    def do_GET(self) -> None:
        of_an_image = self.path != "/v2/"
        content = self.body if of_an_image else b"{}"
        self.send_response(429 if of_an_image else 200)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *_words: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def registry(body: str) -> Iterator[str]:
    """Return its name; an engine speaks plain HTTP with a registry on loopback."""
    own = type("Own", (Limited,), {"body": body.encode()})
    with ThreadingHTTPServer(("127.0.0.1", 0), own) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"localhost:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_limit_has_its_remedy(body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = Images(tmp_path)
    with registry(body) as name, pytest.raises(MachineError) as refused:
        images.ensure_upstream({"POSTGRES_IMAGE": f"{name}/library/postgres:17"})
    assert refused.value.remedy == PULL_LIMIT.do
    assert "toomanyrequests: You have" in refused.value.message or "HTTP 429" in refused.value.message
    assert "not available: too many pulls from this network" in capsys.readouterr().err
    # It did answer, and another registry is none of its business.
    assert (images.silent, images.why_not("house.test/a:1")) == ({}, "house.test does not have it")
