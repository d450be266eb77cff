"""The Python client of the experiment: a process that measures what a controller orders (protocol: workers.py)."""

import gc
import os
import platform
import select
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from time import perf_counter_ns

from looplab.errors import LabError
from looplab.experiments.asip.board import INPUT, OUTPUT, UNALLOCATED
from looplab.experiments.asip.client import AsipClient
from looplab.experiments.asip.transports import connect
from looplab.system import own_process

PROCESS_NAME = "lab-asip-client"
PORT = 5100
# A client that follows a wave checks this often for an order of its controller.
HEAR_NS = 100_000_000
# The way to the board is gone if no test is answered for this time, or for five deadlines.
SILENCE_NS = 10_000_000_000
ABSENT = -1

Words = dict[str, str]
Facts = Mapping[str, object]


class LatencyTests:
    """Sets an output and waits for the input it is wired to; all times are monotonic ns."""

    def __init__(self, client: AsipClient, words: Words) -> None:
        self._client = client
        self._out = int(words["out"])
        self._interval_ns, self._deadline_ns = (int(words[f"{name}_us"]) * 1000 for name in ("interval", "deadline"))
        client.watch(int(words["in_port"]), int(words["in_bit"]))

    def tests(self, count: int, silence_ns: int = SILENCE_NS) -> list[tuple[int, int, int]]:
        """Return (due, sent, received) of each test, received ABSENT where no change came in time.

        Raises LabError after `silence_ns` without an answer, or five deadlines if that is longer.
        """
        times = []
        start_ns = heard_ns = perf_counter_ns() + self._interval_ns
        silence_ns = max(silence_ns, 5 * self._deadline_ns)
        for k in range(count):
            due_ns = start_ns + k * self._interval_ns
            self._idle(due_ns)
            # What the board says from now on counts: it may never have been heard to fall.
            self._client.level = None
            sent_ns, received_ns = self._set(1)
            times.append((due_ns, sent_ns, received_ns))
            heard_ns = max(heard_ns, received_ns)
            if sent_ns - heard_ns > silence_ns:
                raise LabError(f"no test was answered for {silence_ns / 1e9:g} s")
            self._idle(due_ns + self._interval_ns // 2)
            self._set(0)
        return times

    def _set(self, level: int) -> tuple[int, int]:
        """Write the output; return when that was, and when the input's change was received."""
        sent_ns = perf_counter_ns()
        self._client.write(self._out, level)
        limit_ns = sent_ns + self._deadline_ns
        while self._client.level != level:
            if not self._client.serve(limit_ns):
                return sent_ns, ABSENT
        return sent_ns, self._client.received_ns

    def _idle(self, until_ns: int) -> None:
        while self._client.serve(until_ns):
            pass


class AsipWorker:
    """Serves one controller at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lines = sock.makefile("r", encoding="utf-8", errors="replace", newline="\n")

    def serve(self) -> None:
        """Serve until the controller leaves."""
        orders = {"hello": self._hello, "latency": self._latency, "follow": self._follow}
        for line in self._lines:
            verb, *pairs = line.split()[:40] or [""]
            # Python collects garbage here, and never during a measurement.
            gc.collect()
            try:
                self._say_ok(orders[verb](dict(pair.split("=", 1) for pair in pairs)))
            except LabError as error:
                self._say(f"error {error.message}")
            except (KeyError, ValueError) as error:
                self._say(f"error the order {verb!r} is unknown, incomplete or malformed: {error}")

    def _say(self, text: str) -> None:
        self._socket.sendall(f"{text}\n".encode())

    def _say_ok(self, facts: Facts) -> None:
        self._say(" ".join(["ok", *(f"{name}={value}" for name, value in facts.items())]))

    def _hello(self, _words: Words) -> Facts:
        return {"runtime": f"CPython_{platform.python_version()}"}

    def _latency(self, words: Words) -> Facts:
        with closing(_open(words)) as client:
            latency = LatencyTests(client, words)
            _set_modes(client, words)
            client.begin()
            made = latency.tests(int(words["tests"]))
            facts = client.silence()
        for times in made:
            self._say("{} {} {}".format(*times))
        return facts

    def _follow(self, words: Words) -> Facts:
        with closing(_open(words)) as client:
            client.watch(int(words["in_port"]), int(words["in_bit"]), partial(client.write, int(words["out"])))
            # This pin is wired to the output: its notices would be counted as part of the wave.
            client.set_mode(int(words["aside"]), UNALLOCATED)
            _set_modes(client, words)
            client.begin()
            self._say_ok({})
            while not select.select([self._socket], [], [], 0)[0]:
                until_ns = perf_counter_ns() + HEAR_NS
                while perf_counter_ns() < until_ns:
                    client.serve(until_ns)
            self._lines.readline()
            return client.silence()


def _set_modes(client: AsipClient, words: Words) -> None:
    """Set the modes of both pins and wait until the board has done so."""
    client.set_mode(int(words["out"]), OUTPUT)
    client.set_mode(int(words["in"]), INPUT)
    client.synchronise()


def _open(words: Words) -> AsipClient:
    name, nodelay, qos = f"asip-python-{os.getpid()}", words["nodelay"] == "on", int(words["qos"])
    client = AsipClient(connect(words["transport"], words["address"], name, nodelay=nodelay, qos=qos))
    try:
        client.wait_ready()
        if words["reports"] == "off":
            client.reset()
    except LabError:
        client.close()
        raise
    return client


def main() -> int:
    """Serve controllers one after the other, on WORKER_PORT."""
    own_process.set_name(PROCESS_NAME)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    gc.disable()
    with socket.create_server(("", int(os.environ.get("WORKER_PORT") or PORT))) as listener:
        print(f"client: waits for a controller on port {listener.getsockname()[1]}", flush=True)
        while True:
            sock, _ = listener.accept()
            with sock:
                try:
                    AsipWorker(sock).serve()
                except OSError as error:
                    print(f"client: the controller left: {error}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
