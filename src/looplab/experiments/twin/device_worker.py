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
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.twin.device import Devices
from looplab.experiments.twin.device_workers import LOST_NS, TIMES, own_token, port
from looplab.experiments.twin.instance.orders import Order
from looplab.mqtt.client import MqttClient, wait
from looplab.run.samples import ABSENT, SampleStore
from looplab.system import own_process

PROCESS_NAME = "lab-devices"
RETRY_S = 0.2
# It reports this often how much it has sent.
REPORT_NS = 500_000_000


class ReportingDevices(Devices):
    """Devices that count their messages and call `report` at least every REPORT_NS."""

    published = 0
    report: Callable[[], None] = staticmethod(lambda: None)
    _report_ns = 0

    def publish(self, topic: str, number: bytes, qos: int) -> bool:
        self.published += 1
        return super().publish(topic, number, qos)

    def wait(self, until_ns: int) -> None:
        """Handle MQTT until then."""
        while True:
            super().wait(min(until_ns, max(self._report_ns, perf_counter_ns())))
            if (now := perf_counter_ns()) >= self._report_ns:
                self._report_ns = now + REPORT_NS
                self.report()
            if now >= until_ns:
                return


class DeviceWorker:
    """Serves one connection to the controller until it ends."""

    def __init__(self, connection: socket.socket, first: bytes) -> None:
        self._connection = connection
        self._rest = b""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_NS // 1_000_000)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(first)

    def run(self) -> None:
        """Follow orders. Raises OSError where the connection ends."""
        while True:
            order = self._next(())
            self._cell(ReportingDevices(Order(**order["order"]), order["name"]), order["timeout_s"])

    def _cell(self, devices: ReportingDevices, timeout_s: float) -> None:
        try:
            ready = devices.connect(timeout_s)
            state = {"scheduling": own_process.scheduling(), "tcp_nodelay": _nodelay(devices)}
            self._write(ready=ready, error=devices.last_error, **state)
            while "end" not in (order := self._next(devices.clients)):
                self._send(devices, order["begin"])
            self._write(ended=True, disconnects=devices.disconnects)
        finally:
            devices.close()

    def _send(self, devices: ReportingDevices, begin: Mapping[str, Any]) -> None:
        start_ns, count = perf_counter_ns(), begin["count"]
        self._write(begun=True)
        store = SampleStore(count)
        devices.first, devices.report = begin["first"], lambda: self._write(sent=devices.published)
        devices.wait(start_ns + begin["lead_ns"])
        devices.send(store, range(count), begin["interval_ns"])
        times = {name: [at if at == ABSENT else at - start_ns for at in store[name].tolist()] for name in TIMES}
        self._write(sent=count, times=times, disconnects=devices.disconnects)

    def _next(self, clients: Sequence[MqttClient]) -> dict[str, Any]:
        """Return the next order, and keep the connections of `clients` meanwhile."""
        while b"\n" not in self._rest:
            if wait(clients, perf_counter_ns() + REPORT_NS, [self._connection.fileno()]):
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


def main() -> int:
    """Serve one controller after another until SIGTERM. Reads CONTROLLER (a host), DEVICE_PORT, LAB_NODE (its own)."""
    own_process.set_name(PROCESS_NAME)
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
        except MachineError as error:
            print(error, file=sys.stderr, flush=True)
            return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
