"""What the lab's small HTTP services have in common: answers in JSON, and silence."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Replies with JSON documents over HTTP/1.1; logs nothing."""

    protocol_version = "HTTP/1.1"

    def reply(self, code: int, body: dict[str, Any]) -> None:
        """Send `body` with that status."""
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: object) -> None:
        """Stay silent: a line for each look would only wake the disk."""
