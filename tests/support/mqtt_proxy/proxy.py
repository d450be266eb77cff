"""The proxy's loop: one thread that accepts, reads, sleeps until something is due, and forwards it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import select
import socket
import time
from collections.abc import Callable

from looplab.errors import EXIT_MACHINE, EXIT_USAGE, LabError
from support.mqtt_proxy.connection import Connection, reset_on_close
from support.mqtt_proxy.lane import Link
from support.mqtt_proxy.ledger import Ledger
from support.mqtt_proxy.rules import Direction, Rule

Address = tuple[str, int]

RECEIVE_BYTES = 256 * 1024
# A full link stops reading; TCP then slows the sender down, as a full router queue would.
LANE_LIMIT_BYTES = 32 * 1024 * 1024
# select() cannot watch descriptors from 1024 on, and each connection has two.
CONNECTION_LIMIT = 400

PR_SET_TIMERSLACK = 29
# The last stretch is polled, because waking up from sleep takes about this long.
SPIN_NS = 60_000
# select() may oversleep by a thousandth of its timeout, so a long sleep stops this much early.
OVERSLEEP_DIVISOR = 500


class ImpairmentLoop:
    """The proxy itself; run() lasts until stop()."""

    def __init__(self, listen: Address, to: Address, rules: list[Rule]) -> None:
        self.ledger = Ledger(rules)
        self.links = {direction: Link(direction, self.ledger) for direction in Direction}
        self.buffer = bytearray(RECEIVE_BYTES)
        self._to = to
        self._listener = _listen(listen)
        self._connections: list[Connection] = []
        self._accepted = 0
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._stopping = False

    @property
    def address(self) -> Address:
        host, port = self._listener.getsockname()[:2]
        return host, port

    @property
    def wake_descriptor(self) -> int:
        """For signal.set_wakeup_fd: a byte written here ends a sleep of the loop."""
        return self._wake_writer.fileno()

    def stop(self) -> None:
        """May be called from a signal handler."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"\0")

    def run(self) -> None:
        _sharpen_timers()
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._shut_down()
            gc.enable()
            gc.unfreeze()

    def _turn(self) -> None:
        timeout_s = self._forward_due()
        readers: dict[socket.socket, Callable[[], None]] = {
            self._listener: self._accept,
            self._wake_reader: lambda: None,
        }
        writers: dict[socket.socket, Callable[[], None]] = {}
        for connection in self._connections:
            self._watch(connection, readers, writers)
        readable, writable, _ = select.select(list(readers), list(writers), [], timeout_s)
        for ready in readable:
            readers[ready]()
        for ready in writable:
            writers[ready]()

    def _watch(
        self,
        connection: Connection,
        readers: dict[socket.socket, Callable[[], None]],
        writers: dict[socket.socket, Callable[[], None]],
    ) -> None:
        if connection.over:
            return
        if not connection.broker_connected:
            writers[connection.broker] = lambda: self._broker_answered(connection)
        for pipe in connection.pipes:
            unconnected = pipe.source is connection.broker and not connection.broker_connected
            if pipe.reading and not unconnected and pipe.lane.queued_bytes < LANE_LIMIT_BYTES:
                readers[pipe.source] = lambda pipe=pipe: pipe.receive(self.buffer)  # type: ignore[misc]
            if pipe.blocked:
                writers[pipe.destination] = pipe.forward_due

    def _forward_due(self) -> float | None:
        """Forwards what is due; says for how many seconds nothing will be."""
        next_due_ns: int | None = None
        ended = False
        for connection in self._connections:
            due_ns = self._serve(connection)
            ended = ended or not connection.pipes
            if due_ns is not None and (next_due_ns is None or due_ns < next_due_ns):
                next_due_ns = due_ns
        if ended:
            self._connections = [connection for connection in self._connections if connection.pipes]
        if next_due_ns is None:
            return None
        remaining_ns = next_due_ns - time.monotonic_ns()
        return max(0, remaining_ns - SPIN_NS - remaining_ns // OVERSLEEP_DIVISOR) / 1e9

    def _serve(self, connection: Connection) -> int | None:
        """Forwards what is due on one connection; says when something will be again."""
        for pipe in connection.pipes:
            if connection.broker_connected and not connection.over:
                pipe.forward_due()
        if connection.reset_due_ns is not None:
            if time.monotonic_ns() < connection.reset_due_ns:
                return connection.reset_due_ns
            connection.reset()
        elif all(pipe.ended for pipe in connection.pipes):
            connection.close("closed", time.monotonic_ns())
        if not connection.broker_connected:
            return None
        dues = [pipe.lane.next_due_ns() for pipe in connection.pipes if not pipe.blocked]
        return min((due_ns for due_ns in dues if due_ns is not None), default=None)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError as error:
            self.ledger.event(time.monotonic_ns(), self._accepted, "not_accepted", str(error))
            return
        number, self._accepted = self._accepted, self._accepted + 1
        if len(self._connections) >= CONNECTION_LIMIT:
            client.close()
            self.ledger.event(time.monotonic_ns(), number, "not_accepted", f"{CONNECTION_LIMIT} are open")
            return
        try:
            broker = _start_connecting(self._to)
        except OSError as error:
            self._refuse(client, number, error)
            return
        _prepare(client)
        self._connections.append(Connection(number, client, broker, self.links, self.buffer))
        self.ledger.event(time.monotonic_ns(), number, "accepted")

    def _broker_answered(self, connection: Connection) -> None:
        """The connect to the broker has ended one way or the other."""
        failure = connection.broker.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            detail = f"{self._to[0]}:{self._to[1]}: {errno.errorcode.get(failure, failure)}"
            self.ledger.event(time.monotonic_ns(), connection.number, "broker_unreachable", detail)
            connection.cut(None)
        else:
            connection.broker_connected = True

    def _refuse(self, client: socket.socket, number: int, error: OSError) -> None:
        reset_on_close(client)
        client.close()
        detail = f"{self._to[0]}:{self._to[1]}: {error}"
        self.ledger.event(time.monotonic_ns(), number, "broker_unreachable", detail)

    def _shut_down(self) -> None:
        now_ns = time.monotonic_ns()
        for connection in self._connections:
            for pipe in connection.pipes:
                connection.count_undelivered(pipe)
            connection.close("the proxy stopped", now_ns)
        for own in (self._listener, self._wake_reader, self._wake_writer):
            own.close()


def _listen(address: Address) -> socket.socket:
    host, port = address
    try:
        listener = socket.create_server(address, backlog=128)
    except socket.gaierror as error:
        message = f"{host} is no address of this machine: {error.strerror}"
        raise LabError(message, "give --listen an address of it", EXIT_USAGE) from error
    except OSError as error:
        raise LabError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            "give --listen a free port (0 takes any)",
            EXIT_MACHINE,
        ) from error
    listener.setblocking(False)
    return listener


def _start_connecting(address: Address) -> socket.socket:
    """A socket on its way to the broker, whose name is looked up anew: a restarted one may have moved."""
    family, kind, protocol, _, target = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
    broker = socket.socket(family, kind, protocol)
    _prepare(broker)
    with contextlib.suppress(BlockingIOError):
        broker.connect(target)
    return broker


def _prepare(side: socket.socket) -> None:
    side.setblocking(False)
    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _sharpen_timers() -> None:
    """Wake-ups within a nanosecond of the wanted time, where the kernel's default allows itself 50 us."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0:
        raise LabError(
            f"the kernel refuses a timer slack of 1 ns: {errno.errorcode.get(ctypes.get_errno(), 'unknown')}",
            "run the proxy on Linux, outside a sandbox that forbids prctl",
            EXIT_MACHINE,
        )
