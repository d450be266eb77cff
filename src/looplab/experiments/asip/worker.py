"""The Python client of the experiment: a process that measures what a controller orders (docs: the class Worker)."""

import gc
import os
import platform
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter_ns

from looplab.errors import LabError
from looplab.experiments.asip.board import INPUT, OUTPUT, UNALLOCATED
from looplab.experiments.asip.client import AsipClient
from looplab.experiments.asip.transports import Way, connect
from looplab.system import own_process

PROCESS_NAME = "lab-asip-client"
PORT = 5100
# How often a client that follows a wave hears its controller.
HEAR_NS = 100_000_000
# Tests without an answer for this long, or for five deadlines: the way to the board is gone.
SILENCE_NS = 10_000_000_000
ABSENT = -1

Words = dict[str, str]


class Latency:
    """Sets an output and waits for the input it is wired to; all times are monotonic ns."""

    def __init__(self, client: AsipClient, words: Words) -> None:
        self._client = client
        self._out, self._in = int(words["out"]), int(words["in"])
        self._interval_ns = int(words["interval_us"]) * 1000
        self._deadline_ns = int(words["deadline_us"]) * 1000
        client.watch(int(words["in_port"]), int(words["in_bit"]))

    def prepare(self) -> None:
        """Set the modes of both pins and wait until the board has done so."""
        self._client.set_mode(self._out, OUTPUT)
        self._client.set_mode(self._in, INPUT)
        self._client.synchronise()

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


class Worker:
    """Serves one controller at a time: a line of words for each request, lines for its answer.

    `hello`, `latency key=value…`, `follow key=value…` and then `stop`; any other line ends what runs. An answer is one
    line, except `latency`: `sample <k> <due> <sent> <received>` for each test, then `done …`. What fails answers
    `error <sentence>`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lines = sock.makefile("r", encoding="utf-8", errors="replace", newline="\n")

    def serve(self) -> None:
        """Serve until the controller leaves."""
        known: dict[str, Callable[[Words], None]] = {
            "hello": self._hello,
            "latency": self._latency,
            "follow": self._follow,
        }
        for line in self._lines:
            verb, *pairs = line.split()[:40] or [""]
            try:
                words = dict(pair.split("=", 1) for pair in pairs)
                known.get(verb, self._unknown)(words)
            except LabError as error:
                self._say(f"error {error.message}")
            except (KeyError, ValueError) as error:
                self._say(f"error the request {verb!r} is incomplete or malformed: {error}")

    def _say(self, text: str) -> None:
        self._socket.sendall(f"{text}\n".encode())

    def _unknown(self, _words: Words) -> None:
        self._say("error expected hello, latency or follow")

    def _hello(self, _words: Words) -> None:
        self._say(f"hello language=python runtime=CPython_{platform.python_version()} jit=off")

    def _latency(self, words: Words) -> None:
        warmup, tests = int(words["warmup"]), int(words["tests"])
        client = _open(words)
        try:
            latency = Latency(client, words)
            latency.prepare()
            client.account.begin()
            warm = [(received - sent) / 1000 for _, sent, received in latency.tests(warmup) if received != ABSENT]
            gc.collect()
            gc.disable()
            made = latency.tests(tests)
            facts = client.silence()
        finally:
            gc.enable()
            client.close()
        for number, times in enumerate(made):
            self._say(f"sample {number} {times[0]} {times[1]} {times[2]}")
        first, last = _mean(warm[:10]), _mean(warm[-10:])
        self._done(client, facts, f"warmup_first_us={first:.1f} warmup_last_us={last:.1f}")

    def _follow(self, words: Words) -> None:
        client, out = _open(words), int(words["out"])
        try:
            client.watch(int(words["in_port"]), int(words["in_bit"]), partial(client.write, out))
            client.set_mode(out, OUTPUT)
            # What is wired to the output: a notice of it for each copy would be no part of the wave.
            client.set_mode(int(words["aside"]), UNALLOCATED)
            client.set_mode(int(words["in"]), INPUT)
            client.synchronise()
            client.account.begin()
            self._say("ready")
            self._socket.setblocking(False)
            gc.disable()
            while not self._interrupted():
                until_ns = perf_counter_ns() + HEAR_NS
                while perf_counter_ns() < until_ns:
                    client.serve(until_ns)
            facts = client.silence()
        finally:
            gc.enable()
            self._socket.setblocking(True)
            client.close()
        self._done(client, facts)

    def _done(self, client: AsipClient, facts: Mapping[str, int], *more: str) -> None:
        counts = (f"{name}={value}" for name, value in facts.items())
        self._say(" ".join(["done", *more, f"errors={client.errors}", *counts]))

    def _interrupted(self) -> bool:
        """Return whether the controller has sent a line, or has left."""
        try:
            return self._socket.recv(1000) is not None
        except BlockingIOError:
            return False


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _open(words: Words) -> AsipClient:
    nodelay, qos = words.get("nodelay", "on") == "on", int(words.get("qos", "0"))
    way = Way(words["transport"], words["address"], nodelay, qos)
    client = AsipClient(connect(way, f"asip-python-{os.getpid()}"))
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
    with socket.create_server(("", int(os.environ.get("WORKER_PORT") or PORT))) as listener:
        print(f"client: waits for a controller on port {listener.getsockname()[1]}", flush=True)
        while True:
            sock, _ = listener.accept()
            with sock:
                try:
                    Worker(sock).serve()
                except OSError as error:
                    print(f"client: the controller left: {error}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
