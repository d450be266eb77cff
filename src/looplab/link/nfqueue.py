"""The back end in user space: rules lead packets to a process that holds each one until it is due."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_MACHINE, LabError
from looplab.link.commands import CAPABILITY_REMEDY
from looplab.link.figures import Delays
from looplab.link.rules import Rules
from looplab.link.settings import MAX_LINKS, LinkSettings

# Queue numbers of one PUT after the other; a bank that still holds packets is long closed when its turn comes again.
FIRST_QUEUE, BANKS = 9100, 1000
REPLY_TIMEOUT_S = 10.0
QUEUE_TABLE = Path("/proc/self/net/netfilter/nfnetlink_queue")


class Nfqueue:
    """Each set of links gets new queues: they are open before the rules, in one step, lead to them."""

    name = "nfqueue"

    def __init__(self) -> None:
        from looplab.link.path import carry

        self._rules = Rules()
        self._rules.install()
        self._pipe, theirs = multiprocessing.Pipe()
        # Forked, not spawned: nothing is imported again, and no thread runs yet.
        self._process = multiprocessing.get_context("fork").Process(target=carry, args=(theirs, self._pipe))
        self._process.daemon = True
        self._process.start()
        theirs.close()
        self._turn = 0
        self._links: Sequence[LinkSettings] = []

    def fault(self) -> str:
        """Why there is no emulation any more; "" while there is."""
        if self._process.is_alive():
            return ""
        return f"the process that held the packets ended (exit code {self._process.exitcode})"

    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Replace all links; on an error those before stay. Raises LabError."""
        turn = (self._turn + 1) % BANKS
        bank = _first(turn)
        refused = self._ask("open", bank, list(links))
        if refused:
            raise _refusal(refused, links)
        try:
            self._rules.replace(links, addresses, self._numbers(bank, links))
        except LabError:
            self._ask("retire", bank)
            raise
        self._ask("retire", self._bank)
        self._turn, self._links = turn, links

    def move(self, addresses: Mapping[str, Sequence[str]]) -> None:
        """The same links to peers that have other addresses now."""
        self._rules.replace(self._links, addresses, self._numbers(self._bank, self._links))

    def state(self) -> list[dict[str, Any]]:
        """Counts and delays of each link, in the order they were given."""
        result = []
        for packets, dropped, duplicated, delays in self._ask("state", self._bank):
            assert isinstance(delays, Delays)
            counts = {"packets": packets, "dropped": dropped, "duplicated": duplicated}
            result.append({**counts, "delay_ms": delays.as_json()})
        lost = overflows()
        for at, entry in enumerate(result):
            entry["overflowed"] = lost.get(self._bank + at, 0)
        return result

    def close(self) -> None:
        """Restore the links: rules first, then whatever is held leaves at once."""
        self._rules.remove()
        if self._process.is_alive():
            self._pipe.send(("end", 0, None))
            self._process.join(REPLY_TIMEOUT_S)

    @property
    def _bank(self) -> int:
        return _first(self._turn)

    def _numbers(self, bank: int, links: Sequence[LinkSettings]) -> list[int]:
        return [bank + at for at in range(len(links))]

    def _ask(self, word: str, bank: int, links: list[LinkSettings] | None = None) -> Any:
        try:
            self._pipe.send((word, bank, links))
            if self._pipe.poll(REPLY_TIMEOUT_S):
                return self._pipe.recv()
        except (OSError, EOFError):
            pass
        why = self.fault() or "the process that holds the packets does not answer"
        raise LabError(
            f"The link is not emulated any more: {why}.",
            "Packets pass without delay now. Start the emulator's container anew and repeat the run.",
            EXIT_MACHINE,
        )


def _first(turn: int) -> int:
    return FIRST_QUEUE + turn * MAX_LINKS


def overflows() -> dict[int, int]:
    """Packets that each queue of this namespace lost because it, or its socket, was full."""
    try:
        lines = QUEUE_TABLE.read_text().splitlines()
    except OSError:
        return {}
    # queue, port id, waiting, copy mode, copy range, dropped by queue, dropped by socket, ...
    fields = [[int(word) for word in line.split()] for line in lines]
    return {row[0]: row[5] + row[6] for row in fields}


def _refusal(said: str, links: Sequence[LinkSettings]) -> LabError:
    if "not permitted" in said and any(link.duplicate_percent for link in links):
        return LabError(
            "duplicate_percent needs the right to send a packet as it is.",
            "Add NET_RAW to cap_add of the emulator's container, or set duplicate_percent to 0.",
            EXIT_MACHINE,
        )
    if "not permitted" in said:
        return LabError(f"The kernel refuses a queue: {said}.", CAPABILITY_REMEDY, EXIT_MACHINE)
    return LabError(
        f"The kernel gives no queue: {said}.", "Is another emulator in this network namespace?", EXIT_MACHINE
    )
