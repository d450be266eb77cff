"""One simulated device: authorises, posts on its own schedule, drops its connection at random."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from time import perf_counter_ns
from typing import Any
from urllib.parse import urlsplit

import gevent
from geventhttpclient import HTTPClient

from looplab.experiments.middleware.devices import DevicePlan
from looplab.experiments.middleware.systems import address_of, is_success

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class DeviceConnections:
    """One device's connections: to each service, or to the balancer alone. A broken one is not tried again."""

    def __init__(self, routes: Mapping[str, str], certificate: str, timeout_s: float) -> None:
        self._routes, self._certificate, self._timeout_s = routes, certificate, timeout_s
        self._clients: dict[str, HTTPClient] = {}

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Return the status of the answer once it is read. Raises OSError."""
        address = address_of(self._routes, path)
        client = self._clients.get(address) or self._connect(address)
        response = client.request(method, path, body, dict(headers))
        response.read()
        return int(response.status_code)

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


@cache
def context(certificate: str) -> ssl.SSLContext:
    """Return the TLS settings that trust `certificate` alone; one for all devices, for each takes much memory."""
    return ssl.create_default_context(cadata=certificate)


@dataclass
class Fleet:
    """What the devices of a process share; `entries` has what each needs to be known.

    Of the requests that `ended` since the last report it holds (device, number, sent_ns, received_ns, cause of failure
    or "").
    """

    plan: DevicePlan
    entries: Sequence[Mapping[str, Any]]
    adapter: type
    ended: list[tuple[int, int, int, int, str]] = field(default_factory=list)
    start_ns: int = field(default_factory=perf_counter_ns)

    def now_ns(self) -> int:
        return perf_counter_ns() - self.start_ns


class Device:
    """Posts request k when it is due, or as soon as request k - 1 has ended: never two at a time."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.fleet, self.number = fleet, number
        self.random = Random(f"{fleet.plan.seed} device {number}")
        plan = fleet.plan
        self.adapter = fleet.adapter(fleet.entries[number - plan.first])
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
            cause = self._post(number)
            fleet.ended.append((self.number, number, sent_ns, fleet.now_ns(), cause))
            if self.random.random() < fleet.plan.drop_probability:
                self._close()
        self.client.close()

    def _post(self, number: int) -> str:
        """Return why the post failed, "" if it succeeded."""
        if not self.authorised and (cause := self._authorise()):
            return cause
        payload = "".join(self.random.choices(ALPHABET, k=self.fleet.plan.payload_bytes))
        name = self.fleet.plan.message(self.number, number)
        return self._ask(lambda: self.adapter.post(self.client.request, name, payload))

    def _authorise(self) -> str:
        """Ask whether the device may post; return why not, or ""."""
        cause = self._ask(lambda: self.adapter.authorise(self.client.request))
        self.authorised = not cause
        return f"authorise_{cause}" if cause else ""

    def _ask(self, question: Callable[[], int]) -> str:
        """Return why a question failed, "" if the middleware answered well."""
        try:
            status = question()
        except Exception as error:
            # Any exception of the client library means one request without an answer.
            self._close()
            return type(error).__name__
        return "" if is_success(status) else f"http_{status}"

    def _close(self) -> None:
        self.client.close()
        self.authorised = False
