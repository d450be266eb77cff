"""The client's end of JSON over HTTP between the lab's small services (json_service.py)."""

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from looplab.errors import EXIT_INVALID, EXIT_MACHINE, EXIT_USAGE, LabError, MachineError

JSON = "application/json"
# Where Compose mounts the volume `identities`.
TOKENS = "/run/looplab"
STATUS = {EXIT_USAGE: 400, EXIT_INVALID: 409, EXIT_MACHINE: 503}
STRANGER = "Another program, or another start of the lab, answers there: `./lab down`, then start again."


def _opener(*handlers: urllib.request.BaseHandler) -> Callable[..., Any]:
    # A proxy that the engine's client gives containers as HTTP_PROXY knows none of the lab's names.
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers).open


open_direct = _opener()
_EXIT_CODES = {401: EXIT_USAGE, **{status: code for code, status in STATUS.items()}}


def secret_file(name: str) -> Path:
    """Return where this part finds a file of the volume `identities`, which `prepare` fills (run/identities.py)."""
    return Path(os.environ.get("TOKENS") or TOKENS) / name


def read_token(name: str) -> str:
    """Return the token of this start of the lab for the services of that name, "" if there is none."""
    try:
        return secret_file(name).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class Service(NamedTuple):
    """A service as its clients call it: `name` and `remedy` are for the message if it does not answer.

    `tls` holds the authority that an address https:// must have a certificate of.
    """

    name: str
    remedy: str
    tls: ssl.SSLContext | None = None

    def ask(
        self, url: str, method: str, body: object = None, timeout_s: float = 20.0, token: str = ""
    ) -> dict[str, Any]:
        """Return the answer to one request, `body` as JSON. Raises LabError: the service's, or that it is away."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": JSON, **({"Authorization": f"Bearer {token}"} if token else {})}
        request = urllib.request.Request(url, data, headers, method=method)
        open_url = _opener(urllib.request.HTTPSHandler(context=self.tls)) if self.tls else open_direct
        try:
            with open_url(request, timeout=timeout_s) as reply:
                text = reply.read()
                # Only an answer with status 200 must have a body.
                result: dict[str, Any] = json.loads(text) if text or reply.status == 200 else {}
                return result
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._silence(url, error) from None

    def _silence(self, url: str, error: Exception) -> LabError:
        cause = getattr(error, "reason", error)
        remedy = STRANGER if isinstance(cause, ssl.SSLError) else self.remedy
        return MachineError(f"The {self.name} at {url} does not answer: {error}.", remedy)

    def _refusal(self, error: urllib.error.HTTPError) -> LabError:
        try:
            with error:
                answer = json.load(error)
            message, remedy = str(answer["message"]), str(answer["remedy"])
        except (OSError, ValueError, KeyError, TypeError):
            message, remedy = f"The {self.name} answered {error.code}.", "Read its log: `docker compose logs`."
        return LabError(message, remedy, _EXIT_CODES.get(error.code, EXIT_INVALID))
