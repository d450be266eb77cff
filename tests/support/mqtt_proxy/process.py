"""The proxy in a process of its own, so that neither side's work delays the other's."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from typing import Any

from support.mqtt_proxy.proxy import Address, serve
from support.mqtt_proxy.record import Record
from support.mqtt_proxy.rules import Rule

LIMIT_S = 20.0


class ImpairmentProxy:
    """Run the proxy for as long as a `with` block lasts: in it `port` is open, after it `record` is complete."""

    def __init__(self, to: Address, rules: Sequence[Rule] = ()) -> None:
        self.host, self.port = "127.0.0.1", 0
        self.record = Record(list(rules))
        self._to = to

    def __enter__(self) -> ImpairmentProxy:
        context = multiprocessing.get_context("spawn")
        self._channel, theirs = context.Pipe()
        words = (theirs, (self.host, 0), self._to, self.record.rules)
        self._process = context.Process(target=serve, args=words, daemon=True)
        self._process.start()
        theirs.close()
        self.port = self._answer("start")
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> Record:
        """End the process; return its record, the same at each call."""
        if self._process.is_alive():
            self._channel.send("stop")
            self.record = self._answer("stop")
            self._process.join(LIMIT_S)
        return self.record

    def _answer(self, what: str) -> Any:
        try:
            assert self._channel.poll(LIMIT_S), "timeout"
            return self._channel.recv()
        except (AssertionError, EOFError, OSError) as error:
            self._process.kill()
            raise RuntimeError(f"the MQTT proxy did not {what}: {error}") from error
