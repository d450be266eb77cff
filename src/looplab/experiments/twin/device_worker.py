"""The devices on a machine of their own: sends what the controller orders, each message when it is due, and reports it.

Orders and reports are lines of JSON over one TCP connection, which this program opens with the token of this start of
the lab (see device_workers).
"""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any

from looplab.experiments.twin.device import Devices
from looplab.experiments.twin.device_workers import LOST_S, TIMES, own_token, port
from looplab.experiments.twin.instance.orders import Order
from looplab.mqtt.client import MqttClient, wait
from looplab.mqtt.dial import give_up_silent_peer
from looplab.run.samples import ABSENT, SampleStore
from looplab.system import own_process

PROCESS_NAME = "lab-devices"
RETRY_S = 0.2
# While it waits for an order, its connections to brokers are kept in steps of this length.
LOOK_NS = 500_000_000


class DeviceWorker:
    """Serves one connection to the controller until it ends."""

    def __init__(self, connection: socket.socket, first: bytes) -> None:
        self._connection = connection
        self._rest = b""
        give_up_silent_peer(connection, LOST_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(first)

    def run(self) -> None:
        """Follow orders. Raises OSError where the connection ends."""
        while True:
            order = self._next(())
            self._cell(Devices(Order(**order["order"]), order["name"]), order["timeout_s"])

    def _cell(self, devices: Devices, timeout_s: float) -> None:
        try:
            ready = devices.connect(timeout_s)
            state = {"scheduling": own_process.scheduling(), "tcp_nodelay": _nodelay(devices)}
            self._write(ready=ready, error=devices.last_error, **state)
            while "end" not in (order := self._next(devices.clients)):
                self._send(devices, order["begin"])
            self._write(ended=True, disconnects=devices.disconnects)
        finally:
            devices.close()

    def _send(self, devices: Devices, begin: Mapping[str, Any]) -> None:
        start_ns, count = perf_counter_ns(), begin["count"]
        self._write(begun=True)
        store, devices.first = SampleStore(count), begin["first"]
        devices.wait(start_ns + begin["lead_ns"])
        devices.send(store, range(count), begin["interval_ns"])
        times = {name: [at if at == ABSENT else at - start_ns for at in store[name].tolist()] for name in TIMES}
        self._write(times=times, disconnects=devices.disconnects)

    def _next(self, clients: Sequence[MqttClient]) -> dict[str, Any]:
        """Return the next order, and keep the connections of `clients` meanwhile."""
        while b"\n" not in self._rest:
            if wait(clients, perf_counter_ns() + LOOK_NS, [self._connection.fileno()]):
                data = self._connection.recv(65536)
                if not data:
                    raise ConnectionError("the controller has ended")
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        order: dict[str, Any] = json.loads(line)
        return order

    def _write(self, **report: Any) -> None:
        self._connection.sendall(json.dumps(report).encode() + b"\n")


def _nodelay(devices: Devices) -> list[bool]:
    """Return the states of TCP_NODELAY that the connections have, each once."""
    socks = [client.sock for client in devices.clients if client.sock is not None]
    return sorted({bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) for sock in socks})


@own_process.program(PROCESS_NAME)
def main() -> int:
    """Serve one controller after another until SIGTERM. Reads CONTROLLER (a host), DEVICE_PORT, LAB_NODE (its own)."""
    # An exception that a signal raises in a finalizer would be lost.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    controller = os.environ.get("CONTROLLER") or "controller"
    host = os.environ.get("LAB_NODE") or socket.gethostname()
    while True:
        try:
            first = f"{own_token()} {host}\n".encode()
            with socket.create_connection((controller, port()), timeout=2) as connection:
                connection.settimeout(None)
                DeviceWorker(connection, first).run()
        except OSError:
            time.sleep(RETRY_S)


if __name__ == "__main__":
    sys.exit(main())
