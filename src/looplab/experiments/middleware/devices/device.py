"""One simulated device: authorises, posts on its own schedule, drops its connection at random."""

import ssl
from collections.abc import Mapping
from random import Random
from time import perf_counter_ns
from typing import Any
from urllib.parse import urlsplit

import gevent
from geventhttpclient import HTTPClient

from looplab.experiments.middleware.devices import DevicePlan
from looplab.experiments.middleware.systems import MiddlewareAnswer, address_of

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class DeviceConnections:
    """One device's connections: to each service, or to the balancer alone. A broken one is not tried again."""

    def __init__(self, routes: Mapping[str, str], certificate: str, timeout_s: float) -> None:
        self._routes, self._certificate, self._timeout_s = routes, certificate, timeout_s
        self._clients: dict[str, HTTPClient] = {}

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer. Raises OSError."""
        address = address_of(self._routes, path)
        client = self._clients.get(address) or self._connect(address)
        response = client.request(method, path, body, dict(headers))
        return response.status_code, bytes(response.read())

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _connect(self, address: str) -> HTTPClient:
        parts = urlsplit(address)
        client = HTTPClient(
            parts.hostname,
            parts.port,
            connection_timeout=self._timeout_s,
            network_timeout=self._timeout_s,
            disable_ipv6=True,
            ssl=parts.scheme == "https",
            ssl_context_factory=lambda *_args, **_named: context(self._certificate),
        )
        # Otherwise the client would send a failed request again on a fresh connection, and hide the failure.
        client._connection_pool.size = -1
        self._clients[address] = client
        return client


_CONTEXTS: dict[str, ssl.SSLContext] = {}


def context(certificate: str) -> ssl.SSLContext:
    """Return the TLS settings that trust `certificate` alone; one for all devices, for each takes much memory."""
    if certificate not in _CONTEXTS:
        _CONTEXTS[certificate] = ssl.create_default_context(cadata=certificate)
    return _CONTEXTS[certificate]


class Fleet:
    """What the devices of one repetition share.

    `count` are the requests that ended, `drops` the connections that devices dropped at random.
    """

    def __init__(self, plan: DevicePlan, entries: Mapping[int, Mapping[str, Any]], adapter: type) -> None:
        self.plan, self.entries, self.adapter = plan, entries, adapter
        # (device, number, sent_ns, received_ns, cause of failure or "") of requests that ended since the last report.
        self.ended: list[tuple[int, int, int, int, str]] = []
        # The request that each device waits for: (number, sent_ns).
        self.waiting: dict[int, tuple[int, int]] = {}
        self.count = self.drops = 0
        self.start_ns = perf_counter_ns()

    def now_ns(self) -> int:
        return perf_counter_ns() - self.start_ns


class Device:
    """Posts request k when it is due, or as soon as request k - 1 has ended: never two at a time."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.fleet, self.number = fleet, number
        self.random = Random(f"{fleet.plan.seed} device {number}")
        self.adapter = fleet.adapter(fleet.entries[number])
        plan = fleet.plan
        self.client = DeviceConnections(plan.routes, plan.certificate, plan.deadline_ns / 1e9)
        self.authorised = False

    def run(self) -> None:
        """Post every notification of the plan, the first after authorising; after each, perhaps drop the connection."""
        fleet = self.fleet
        for number, due_ns in enumerate(fleet.plan.due_ns(self.number)):
            if fleet.now_ns() >= fleet.plan.end_ns:
                break
            while (early_ns := due_ns - fleet.now_ns()) > 0:
                gevent.sleep(early_ns / 1e9)
            sent_ns = fleet.now_ns()
            fleet.waiting[self.number] = number, sent_ns
            cause = self._post(number)
            fleet.ended.append((self.number, number, sent_ns, fleet.now_ns(), cause))
            fleet.count += 1
            del fleet.waiting[self.number]
            if self.random.random() < fleet.plan.drop_probability:
                fleet.drops += 1
                self._close()
        self.client.close()

    def _post(self, number: int) -> str:
        """Return why the post failed, "" if it succeeded."""
        if not self.authorised and (cause := self._authorise()):
            return cause
        payload = "".join(self.random.choices(ALPHABET, k=self.fleet.plan.payload_bytes))
        name = f"{self.fleet.plan.name}-{self.number}-{number}"
        return self._ask(lambda: self.adapter.post(self.client, name, payload))

    def _authorise(self) -> str:
        """Ask whether the device may post; return why not, or ""."""
        cause = self._ask(lambda: self.adapter.authorise(self.client))
        self.authorised = not cause
        return f"authorise_{cause}" if cause else ""

    def _ask(self, question: Any) -> str:
        """Return why a question failed, "" if the middleware answered well."""
        try:
            answer: MiddlewareAnswer = question()
        except Exception as error:
            # Any exception of the client library means one request without an answer.
            self._close()
            return cause_of(error)
        return "" if answer.good else f"http_{answer.status}"

    def _close(self) -> None:
        self.client.close()
        self.authorised = False


def cause_of(error: Exception) -> str:
    """Return in a word why no answer came."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, ssl.SSLError):
        return "tls"
    if isinstance(error, ConnectionError) or "ConnectionClosed" in type(error).__name__:
        return "closed"
    return "other"
