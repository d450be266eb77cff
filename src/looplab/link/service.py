"""The emulator's service: one set of links at a time, set over HTTP, watched, and removed at the end.

    PUT /links     a JSON list of LinkSettings, [] for none; all take effect at once and replace those before
    GET /links     the back end, and of each link its settings, counts and the delay it really made since PUT;
                   with ?ping=20 also the round trip to each peer, by so many ICMP echoes

Bodies and answers are JSON (system/json_service.py). Only this network namespace and LINK_CONTROL may change
anything; GET is answered wherever the port is bound (LINK_BIND).
"""

import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from looplab.errors import LabError, UsageError
from looplab.link.distributions import theory
from looplab.link.network import device_to
from looplab.link.ping import MOST_PINGS, WAIT_S, ping
from looplab.link.settings import LinkSettings, parse_links
from looplab.system.json_service import Request, check_client, serve
from looplab.system.own_process import devices, ways_out

PORT = 9107
PEER_TIMEOUT_S = 60.0
# How often the links are checked, and a peer's name is resolved again: its container may have been replaced.
CHECK_S = 0.5


class BackEnd(Protocol):
    """What makes the links: netem in the kernel, or NFQUEUE in user space."""

    name: str

    def fault(self) -> str:
        """Return why the emulation has ended, "" while it has not."""

    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Replace all links. Raises LabError."""

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
        # Differs after a restart, when all counts are 0 again.
        self._instance = secrets.token_hex(4)

    def apply(self, links: Sequence[LinkSettings]) -> dict[str, Any]:
        """Replace all links; on LabError those before stay."""
        with self._lock:
            self._lead(links, {link.peer: resolve(link.peer) for link in links})
            return {"backend": self.backend.name, "links": [link.as_json() for link in links]}

    def _lead(self, links: Sequence[LinkSettings], addresses: dict[str, list[str]]) -> None:
        devices_to = {device_to(address) for known in addresses.values() for address in known}
        try:
            self.backend.apply(links, addresses)
        except LabError:
            self.backend.apply(self._links, self._addresses)
            raise
        self._links, self._addresses, self._devices = list(links), addresses, devices_to

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
                self._lead(self._links, fresh)

    def close(self) -> None:
        with self._lock:
            self._links, self._addresses = [], {}
            self.backend.close()


def resolve(peer: str) -> list[str]:
    """Return the IPv4 addresses of a host, sorted; raises LabError (exit code 2) if it has none."""
    remedy = "Name a service on the same network as the emulator's target, or an IPv4 address."
    with UsageError.of_os(f"The peer {peer!r} of a link has no address here", remedy):
        entries = socket.getaddrinfo(peer, None, socket.AF_INET, socket.SOCK_DGRAM)
    return sorted({str(entry[4][0]) for entry in entries})


def serve_links(emulator: Emulator, address: str, control: str = "") -> None:
    """Answer in threads of their own; raises LabError (exit code 3) if the port is taken.

    `control` is the host that may change the links from outside this network namespace, "" for none.
    """

    def apply(request: Request) -> dict[str, Any]:
        check_client(request, control, "LINK_CONTROL")
        return emulator.apply(parse_links(request.body))

    def state(request: Request) -> dict[str, Any]:
        return emulator.state(min(int(request.query.get("ping", "0")), MOST_PINGS))

    routes = {"GET /links": state, "PUT /links": apply}
    serve(address, PORT, routes, "Stop the other emulator in this network namespace.")
