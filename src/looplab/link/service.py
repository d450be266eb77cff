"""The emulator's service: one set of links at a time, told over HTTP, watched, and restored at the end.

    PUT /links     a JSON list of LinkSettings; all take effect at once, or none
    GET /links     the back end, and of each link its settings, counts and the delay it really made since PUT;
                   with ?ping=20 also the round trip to each peer, by so many ICMP echoes
    DELETE /links  every link as it was
    POST /probe    {"peer", "count", "interval_ms"}: UDP probes to the peer's echo responder

Bodies and answers are JSON; an error is {"message", "remedy"}. What changes anything is taken from this network
namespace and from LINK_CONTROL only; GET from anywhere the port is bound to (LINK_BIND).
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import ThreadingHTTPServer
from time import monotonic
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from looplab.errors import EXIT_MACHINE, EXIT_USAGE, LabError
from looplab.link.distributions import theory
from looplab.link.ping import MOST_PINGS, ping
from looplab.link.probe import WAIT_S, parse_probe, probe
from looplab.link.route import device_to
from looplab.link.settings import LinkSettings, read_links
from looplab.system.json_service import JsonHandler
from looplab.system.network_namespace import devices, ways_out

PORT = 9107
MAX_REQUEST_BYTES = 65536
PEER_TIMEOUT_S = 60.0
LOOK_S = 0.25
# How often a peer's address is asked for again: its container may have been replaced.
RESOLVE_S = 0.5


class BackEnd(Protocol):
    """What carries out the links."""

    name: str

    def fault(self) -> str: ...
    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None: ...
    def move(self, addresses: Mapping[str, Sequence[str]]) -> None: ...
    def state(self) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...


class Emulator:
    """The links that are set, and the back end that makes them; every method may be called by any thread."""

    def __init__(self, backend: BackEnd) -> None:
        self.backend = backend
        self._lock = threading.Lock()
        self._links: list[LinkSettings] = []
        self._addresses: dict[str, list[str]] = {}
        self._devices: set[str] = set()
        self._there_first = ways_out()
        self._applied_s = monotonic()
        self._moves = 0
        # Another one after a restart, whose counts began anew.
        self._instance = secrets.token_hex(4)

    def apply(self, links: Sequence[LinkSettings]) -> dict[str, Any]:
        """Replace all links; raises LabError, and then those before go on."""
        with self._lock:
            addresses = {link.peer: resolve(link.peer) for link in links}
            leading = _leading(addresses)
            self.backend.apply(links, addresses)
            self._links, self._addresses, self._applied_s, self._moves = list(links), addresses, monotonic(), 0
            self._devices = leading
            return {"backend": self.backend.name, "links": [link.as_json() for link in links]}

    def state(self, pings: int = 0) -> dict[str, Any]:
        """What GET /links answers. Raises LabError where the emulation has ended."""
        # Before the counts are read, so that they hold the pings; the lock must not wait for them.
        trips = {peer: self._round_trip(peer, found[0], pings) for peer, found in self._addresses.items() if pings}
        with self._lock:
            counted = self.backend.state()
            links = [
                {
                    "settings": link.as_json(),
                    "addresses": self._addresses[link.peer],
                    "theory_ms": dict(zip(("mean", "sd"), theory(link), strict=True)),
                    **counts,
                }
                for link, counts in zip(self._links, counted, strict=True)
            ]
            age_s = round(monotonic() - self._applied_s, 3)
            made = {"backend": self.backend.name, "instance": self._instance}
            state = {**made, "since_s": age_s, "moves": self._moves, "links": links}
            return {**state, "rtt_ms": trips} if pings else state

    def _round_trip(self, peer: str, address: str, pings: int) -> dict[str, Any] | None:
        return ping(address, pings, WAIT_S + self._longest_s(peer))

    def _longest_s(self, peer: str) -> float:
        """What a round trip may take where the link's jitter is at its worst."""
        return sum(link.delay_ms + 8 * link.jitter_ms for link in self._links if link.peer == peer) / 1000

    def probe(self, document: object) -> dict[str, Any]:
        """What POST /probe answers; waits as long as the links to that peer may take."""
        wanted = parse_probe(document)
        peer = wanted.pop("peer")
        return probe(resolve(peer)[0], **wanted, wait_s=WAIT_S + self._longest_s(peer))

    def fault(self) -> str:
        """Why there is no emulation any more; "" while there is."""
        with self._lock:
            gone = sorted(self._devices - devices())
            if gone:
                return f"the interface {', '.join(gone)} vanished: its container ended or left the network"
            return self.backend.fault()

    def ended(self) -> bool:
        """Whether the container whose links these were has ended, and nobody wanted links of it any more."""
        with self._lock:
            return not self._links and bool(self._there_first) and not ways_out()

    def follow_peers(self) -> None:
        """Lead the links to where their peers are now; a name that resolves no more keeps its address."""
        with self._lock:
            fresh = {}
            for peer, known in self._addresses.items():
                try:
                    fresh[peer] = resolve(peer)
                except LabError:
                    fresh[peer] = known
            if fresh != self._addresses:
                leading = _leading(fresh)
                self.backend.move(fresh)
                self._addresses, self._devices = fresh, leading
                self._moves += 1

    def close(self) -> None:
        """Restore all links."""
        with self._lock:
            self._links, self._addresses = [], {}
            self.backend.close()


def _leading(addresses: Mapping[str, Sequence[str]]) -> set[str]:
    """The interfaces that lead to the peers."""
    return {device_to(address) for found in addresses.values() for address in found}


def resolve(peer: str) -> list[str]:
    """The IPv4 addresses of a host, sorted; raises LabError (exit code 2) where there is none."""
    try:
        found = socket.getaddrinfo(peer, None, socket.AF_INET, socket.SOCK_DGRAM)
    except OSError as error:
        raise LabError(
            f"The peer {peer!r} of a link has no address here: {error}.",
            "Name a service on the same network as the emulator's target, or an IPv4 address.",
            EXIT_USAGE,
        ) from None
    return sorted({str(entry[4][0]) for entry in found})


def serve(emulator: Emulator, address: str, port: int, control: str = "") -> ThreadingHTTPServer:
    """Start answering in threads of their own; raises LabError (exit code 3) where the port is taken.

    `control` is the host that may change the links from outside this network namespace, "" for none.
    """
    try:
        server = ThreadingHTTPServer((address, port), _handler(emulator, control))
    except OSError as error:
        raise LabError(
            f"Port {address}:{port} cannot be opened: {error.strerror}.",
            "Another emulator is in this network namespace, or set LINK_PORT.",
            EXIT_MACHINE,
        ) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _handler(emulator: Emulator, control: str) -> type[JsonHandler]:
    class Handler(JsonHandler):
        def do_GET(self) -> None:  # noqa: N802 (the name that http.server calls)
            self._answer("/links", lambda: emulator.state(_pings(self.path)), anyone=True)

        def do_PUT(self) -> None:  # noqa: N802 (the name that http.server calls)
            self._answer("/links", lambda: emulator.apply(read_links(self._body())))

        def do_DELETE(self) -> None:  # noqa: N802 (the name that http.server calls)
            self._answer("/links", lambda: emulator.apply([]))

        def do_POST(self) -> None:  # noqa: N802 (the name that http.server calls)
            self._answer("/probe", lambda: emulator.probe(_decoded(self._body())))

        def _answer(self, path: str, act: Callable[[], dict[str, Any]], *, anyone: bool = False) -> None:
            if self.path.partition("?")[0] != path:
                self.reply(404, _error("There is no such thing.", "PUT, GET, DELETE /links or POST /probe."))
            elif not anyone and not _may_change(self.client_address[0], control):
                self.reply(403, _error("Only the emulator's own network namespace may do that.", "Set LINK_CONTROL."))
            else:
                try:
                    self.reply(200, act())
                except LabError as error:
                    code = 400 if error.exit_code == EXIT_USAGE else 503
                    self.reply(code, _error(error.message, error.remedy))

        def _body(self) -> str:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or not 0 < int(length) <= MAX_REQUEST_BYTES:
                self.close_connection = True
                raise LabError(
                    f"The request's body is {length or 'not there'}.", f"1 to {MAX_REQUEST_BYTES} bytes.", EXIT_USAGE
                )
            return self.rfile.read(int(length)).decode("utf-8", "replace")

    return Handler


def _may_change(address: str, control: str) -> bool:
    """Whether somebody at `address` may set the links: from this network namespace, or the host `control`."""
    if address.startswith("127."):
        return True
    try:
        return bool(control) and address in resolve(control)
    except LabError:
        return False


def _pings(path: str) -> int:
    text = dict(parse_qsl(urlsplit(path).query)).get("ping", "0")
    if not text.isdigit() or int(text) > MOST_PINGS:
        raise LabError(f"ping={text!r}: expected 0 to {MOST_PINGS}.", "Mend the request.", EXIT_USAGE)
    return int(text)


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise LabError(f"The request is not JSON: {error}.", "Send a JSON object.", EXIT_USAGE) from None


def _error(message: str, remedy: str) -> dict[str, str]:
    return {"message": message, "remedy": remedy}
