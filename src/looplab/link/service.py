"""The emulator's service: one set of links at a time, set over HTTP, watched, and removed at the end.

    PUT /links     a JSON list of LinkSettings; all take effect at once, or none
    GET /links     the back end, and of each link its settings, counts and the delay it really made since PUT;
                   with ?ping=20 also the round trip to each peer, by so many ICMP echoes
    DELETE /links  removes every link

Bodies and answers are JSON (system/json_service.py). Only this network namespace and LINK_CONTROL may change
anything; GET is answered wherever the port is bound (LINK_BIND).
"""

import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Protocol

from looplab.errors import LabError, UsageError
from looplab.link.distributions import theory
from looplab.link.network import device_to
from looplab.link.ping import MOST_PINGS, WAIT_S, ping
from looplab.link.settings import LinkSettings, parse_links
from looplab.system.json_service import Request, serve
from looplab.system.network_namespace import devices, ways_out

PORT = 9107
PEER_TIMEOUT_S = 60.0
CHECK_S = 0.25
# How often a peer's name is resolved again: its container may have been replaced.
RESOLVE_S = 0.5


class BackEnd(Protocol):
    """What makes the links: netem in the kernel, or NFQUEUE in user space."""

    name: str

    def fault(self) -> str:
        """Return why the emulation has ended, "" while it has not."""

    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None: ...
    def move(self, addresses: Mapping[str, Sequence[str]]) -> None:
        """Lead the same links to peers that have other addresses now."""

    def state(self) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...


class Emulator:
    """The links that are set, and the back end that makes them; any thread may call every method."""

    def __init__(self, backend: BackEnd) -> None:
        self.backend = backend
        self._lock = threading.Lock()
        self._links: list[LinkSettings] = []
        self._addresses: dict[str, list[str]] = {}
        self._devices: set[str] = set()
        self._ways_out_before = ways_out()
        self._applied_s = monotonic()
        self._moves = 0
        # Differs after a restart, when all counts are 0 again.
        self._instance = secrets.token_hex(4)

    def apply(self, links: Sequence[LinkSettings]) -> dict[str, Any]:
        """Replace all links; on LabError those before stay."""
        with self._lock:
            addresses = {link.peer: resolve(link.peer) for link in links}
            leading = _leading(addresses)
            self.backend.apply(links, addresses)
            self._links, self._addresses, self._applied_s, self._moves = list(links), addresses, monotonic(), 0
            self._devices = leading
            return {"backend": self.backend.name, "links": [link.as_json() for link in links]}

    def state(self, pings: int = 0) -> dict[str, Any]:
        """Return what GET /links answers. Raises LabError if the emulation has ended."""
        # Ping before the counts are read, so that they include the pings, and without the lock.
        trips = {
            peer: ping(known[0], pings, WAIT_S + self._longest_s(peer))
            for peer, known in self._addresses.items()
            if pings
        }
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
            return {
                "backend": self.backend.name,
                "instance": self._instance,
                "since_s": round(monotonic() - self._applied_s, 3),
                "moves": self._moves,
                "links": links,
                **({"rtt_ms": trips} if pings else {}),
            }

    def _longest_s(self, peer: str) -> float:
        """Return how long a round trip takes at worst."""
        return sum(link.delay_ms + 8 * link.jitter_ms for link in self._links if link.peer == peer) / 1000

    def fault(self) -> str:
        """Return why the emulation has ended, "" while it has not."""
        with self._lock:
            gone = sorted(self._devices - devices())
            if gone:
                return f"the interface {', '.join(gone)} vanished: its container ended or left the network"
            return self.backend.fault()

    def ended(self) -> bool:
        """Return whether the container whose links these were has ended, and no link is set."""
        with self._lock:
            return not self._links and bool(self._ways_out_before) and not ways_out()

    def follow_peers(self) -> None:
        """Lead the links to the current addresses of their peers; a name that no longer resolves keeps its address."""
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
        with self._lock:
            self._links, self._addresses = [], {}
            self.backend.close()


def _leading(addresses: Mapping[str, Sequence[str]]) -> set[str]:
    return {device_to(address) for known in addresses.values() for address in known}


def resolve(peer: str) -> list[str]:
    """Return the IPv4 addresses of a host, sorted; raises LabError (exit code 2) if it has none."""
    try:
        entries = socket.getaddrinfo(peer, None, socket.AF_INET, socket.SOCK_DGRAM)
    except OSError as error:
        raise UsageError(
            f"The peer {peer!r} of a link has no address here: {error}.",
            "Name a service on the same network as the emulator's target, or an IPv4 address.",
        ) from None
    return sorted({str(entry[4][0]) for entry in entries})


def serve_links(emulator: Emulator, address: str, port: int, control: str = "") -> None:
    """Answer in threads of their own; raises LabError (exit code 3) if the port is taken.

    `control` is the host that may change the links from outside this network namespace, "" for none.
    """

    def guarded(act: Callable[[Request], dict[str, Any]]) -> Callable[[Request], dict[str, Any]]:
        def checked(request: Request) -> dict[str, Any]:
            if not _may_change(request.client, control):
                raise LabError("Only the emulator's own network namespace may do that.", "Set `LINK_CONTROL`.")
            return act(request)

        return checked

    routes = {
        "GET /links": lambda request: emulator.state(_pings(request.query)),
        "PUT /links": guarded(lambda request: emulator.apply(parse_links(request.body))),
        "DELETE /links": guarded(lambda _request: emulator.apply([])),
    }
    serve(address, port, routes, "Stop the other emulator in this network namespace, or set `LINK_PORT`.")


def _may_change(address: str, control: str) -> bool:
    """Return whether a client at `address` may set the links: in this network namespace, or the host `control`."""
    if address.startswith("127."):
        return True
    try:
        return bool(control) and address in resolve(control)
    except LabError:
        return False


def _pings(query: Mapping[str, str]) -> int:
    text = query.get("ping", "0")
    if not text.isdigit() or int(text) > MOST_PINGS:
        raise UsageError(f"ping={text!r}: expected 0 to {MOST_PINGS}.", "Correct `ping`.")
    return int(text)
