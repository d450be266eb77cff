"""The client's end of JSON over HTTP between the lab's small services (json_service.py)."""

import http.client
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from looplab.errors import EXIT_INVALID, EXIT_MACHINE, EXIT_USAGE, LabError, MachineError

JSON = "application/json"
# Where Compose mounts the volume `identities`.
TOKENS = "/run/looplab"
STATUS = {EXIT_USAGE: 400, EXIT_INVALID: 409, EXIT_MACHINE: 503}
# A proxy that the engine's client gives containers as HTTP_PROXY knows none of the lab's names.
open_direct = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
_EXIT_CODES = {401: EXIT_USAGE, **{status: code for code, status in STATUS.items()}}


def read_token(name: str) -> str:
    """Return the token of this start of the lab for the services of that name, "" if there is none.

    `prepare` writes it (run/identities.py), and the volume `identities` brings it to both ends.
    """
    try:
        return (Path(os.environ.get("TOKENS") or TOKENS) / name).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class Service(NamedTuple):
    """A service as its clients call it: `name` and `remedy` are for the message if it does not answer."""

    name: str
    remedy: str

    def ask(
        self, url: str, method: str, body: object = None, timeout_s: float = 20.0, token: str = ""
    ) -> dict[str, Any]:
        """Return the answer to one request, `body` as JSON. Raises LabError: the service's, or that it is away."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": JSON, **({"Authorization": f"Bearer {token}"} if token else {})}
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with open_direct(request, timeout=timeout_s) as reply:
                text = reply.read()
                # Only an answer with status 200 must have a body.
                result: dict[str, Any] = json.loads(text) if text or reply.status == 200 else {}
                return result
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise MachineError(f"The {self.name} at {url} does not answer: {error}.", self.remedy) from None

    def _refusal(self, error: urllib.error.HTTPError) -> LabError:
        try:
            with error:
                answer = json.load(error)
            message, remedy = str(answer["message"]), str(answer["remedy"])
        except (OSError, ValueError, KeyError, TypeError):
            message, remedy = f"The {self.name} answered {error.code}.", "Read its log: `docker compose logs`."
        return LabError(message, remedy, _EXIT_CODES.get(error.code, EXIT_INVALID))
