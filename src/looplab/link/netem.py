"""The back end in the kernel: netem below a prio queue, for packets that arrive behind an ifb device.

The nftables rules that lead packets there are in tables that belong to the service alone. The kernel removes such a
table ("flags owner", Linux 5.12) when its process ends, however it ends: then no packet meets a queue. A helper process
removes the queues, too, unless it was killed as well.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, NamedTuple

from looplab.errors import LabError
from looplab.link.figures import Delays
from looplab.link.helper import Helper
from looplab.link.network import attempt, device_to, refusal, run
from looplab.link.settings import LinkSettings

PROBE_DEVICE = "lab-link-try"
IFB_PREFIX = "lab-in-"
# Packets netem may hold: 10 s of 10 000 a second.
LIMIT_PACKETS = 100_000
# A rate so high that its time does not count: with any rate netem keeps the order.
ORDER_RATE = "32gbit"
# How often `fault` asks the kernel whether its queues are still there, which starts a process.
CHECK_S = 2.0
# Band 1 is for packets outside every link.
_PLAIN_BAND = 1
_MAP = ["0"] * 16
# The name of the lab's table of nftables.
TABLE = "lab_link"
_FAMILIES = ("ip", "netdev")


def missing() -> str:
    """Return why this kernel has no netem, "" if it has: tried on a device of its own. Needs NET_ADMIN."""
    attempt(["ip", "link", "del", PROBE_DEVICE])
    try:
        for command in (
            ["ip", "link", "add", PROBE_DEVICE, "type", "ifb"],
            ["tc", "qdisc", "add", "dev", PROBE_DEVICE, "root", "handle", "1:", "prio"],
            ["tc", "qdisc", "add", "dev", PROBE_DEVICE, "parent", "1:1", "netem", "delay", "1ms"],
        ):
            good, output = attempt(command)
            if not good:
                return output.splitlines()[-1] if output else f"{command[0]} failed"
        return _missing_steering(PROBE_DEVICE)
    finally:
        attempt(["ip", "link", "del", PROBE_DEVICE])


def _missing_steering(device: str) -> str:
    """Return why this kernel cannot lead packets so, "" if it can: tried on an interface without traffic."""
    try:
        Steering().replace([Turn(device, "192.0.2.1", "1:1"), Turn(device, "192.0.2.1", "1:1", ifb=device)])
    except LabError as error:
        return error.message
    return ""


def netem_words(link: LinkSettings) -> list[str]:
    """Return the words that follow `netem` on tc's command line."""
    words = ["limit", str(LIMIT_PACKETS), "delay", f"{link.delay_ms * 1000:.0f}us"]
    if link.jitter_ms:
        words.append(f"{link.jitter_ms * 1000:.0f}us")
        # netem has no table for it: a delay with jitter and no distribution is uniform.
        if link.distribution != "uniform":
            words += ["distribution", link.distribution]
    if link.loss_percent:
        words += ["loss", "random", f"{link.loss_percent:g}%"]
    if not link.reorder:
        words += ["rate", ORDER_RATE]
    return words


def tc_batch(device: str, links: Sequence[LinkSettings]) -> str:
    """Return tc's batch for one device: a prio queue, netem on a band for each link, all else on the first."""
    bands = str(max(2, len(links) + 1))
    lines = [["qdisc", "add", "dev", device, "root", "handle", "1:", "prio", "bands", bands, "priomap", *_MAP]]
    for at, link in enumerate(links):
        child = ["parent", flow_of(at), "handle", handle_of(at)]
        lines.append(["qdisc", "add", "dev", device, *child, "netem", *netem_words(link)])
    return "".join(" ".join(line) + "\n" for line in lines)


def flow_of(at: int) -> str:
    """Return the class of the link at this position of its queue; tc's numbers are hexadecimal."""
    return f"1:{_PLAIN_BAND + 1 + at:x}"


def handle_of(at: int) -> str:
    """Return the handle of the netem queue at this position: 101:, 102:, ..."""
    return f"{101 + at}:"


@dataclass(frozen=True)
class Turn:
    """Leads packets of one peer's address on one interface to the class (`1:2`) of a prio queue.

    With `ifb` those that arrive, by that device; without it those that leave.
    """

    device: str
    address: str
    flow: str
    ifb: str = ""

    def rule(self) -> str:
        if self.ifb:
            return f'ip saddr {self.address} meta priority set {self.flow} fwd to "{self.ifb}"'
        return f'oifname "{self.device}" ip daddr {self.address} meta priority set {self.flow}'


class Steering:
    """At most one set of turns, which lasts as long as this object; no forked process may share it."""

    def __init__(self) -> None:
        # Imported here: only this back end needs it.
        from nftables import Nftables

        self._nft = Nftables()
        self._there = False

    def replace(self, turns: Iterable[Turn]) -> None:
        """Make these the only turns, in one step; on LabError (exit code 3) those before stay."""
        self._run([*self._removal(), *_creation(list(turns))])
        self._there = True

    def clear(self) -> None:
        """Remove all turns. Raises LabError (exit code 3)."""
        self._run(self._removal())
        self._there = False

    def _removal(self) -> list[str]:
        return [f"delete table {family} {TABLE}" for family in _FAMILIES] if self._there else []

    def _run(self, lines: list[str]) -> None:
        code, _output, errors = self._nft.cmd("\n".join(lines)) if lines else (0, "", "")
        if code:
            first = str(errors).strip().splitlines()[:1]
            raise refusal(["nft", "…", TABLE], first[0] if first else "")


def _creation(turns: list[Turn]) -> list[str]:
    lines = [f"add table {family} {TABLE} {{ flags owner; }}" for family in _FAMILIES]
    lines.append(f"add chain ip {TABLE} out {{ type filter hook postrouting priority 0; }}")
    lines += [f"add rule ip {TABLE} out {turn.rule()}" for turn in turns if not turn.ifb]
    for at, device in enumerate(sorted({turn.device for turn in turns if turn.ifb})):
        lines.append(f'add chain netdev {TABLE} in{at} {{ type filter hook ingress device "{device}" priority 0; }}')
        lines += [
            f"add rule netdev {TABLE} in{at} {turn.rule()}" for turn in turns if turn.ifb and turn.device == device
        ]
    return lines


class QueuePlace(NamedTuple):
    """Where one link's packets wait: at position `at` of the prio queue of `queue`, for packets on `device`."""

    link: LinkSettings
    device: str
    at: int

    @property
    def queue(self) -> str:
        return ifb_of(self.device) if self.link.direction == "ingress" else self.device

    def turns(self, addresses: Sequence[str]) -> list[Turn]:
        """Return what leads the packets of these addresses there."""
        ifb = "" if self.queue == self.device else self.queue
        return [Turn(self.device, address, flow_of(self.at), ifb) for address in addresses]


class Netem:
    """Replaces all queues of the interfaces that lead to the peers of the links."""

    name = "netem"

    def __init__(self) -> None:
        self._links: list[LinkSettings] = []
        self._addresses: dict[str, list[str]] = {}
        self._places: list[QueuePlace] = []
        self._check_s = 0.0
        self._helper = Helper(_remove_at_end)
        # Open it after the fork: the helper must not hold the rules' socket open.
        self._steering = Steering()

    def fault(self) -> str:
        if not self._helper.process.is_alive():
            return "the process that removes the queues ended"
        if monotonic() < self._check_s:
            return ""
        self._check_s = monotonic() + CHECK_S
        gone = sorted({place.queue for place in self._places if not _counts(place.queue)})
        return f"netem is gone from {', '.join(gone)}" if gone else ""

    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Replace all links; on an error restore the previous ones. Raises LabError."""
        before, addresses_before = self._links, self._addresses
        try:
            self._build(links, addresses)
        except LabError:
            self._build(before, addresses_before)
            raise

    def move(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self._build(self._links, addresses)

    def state(self) -> list[dict[str, Any]]:
        """Return counts of each link since it was set; netem reports no delays."""
        counted = {queue: _counts(queue) for queue in {place.queue for place in self._places}}
        result = []
        for place in self._places:
            packets, dropped = counted[place.queue].get(handle_of(place.at), (0, 0))
            counts = {"packets": packets + dropped, "dropped": dropped, "overflowed": 0}
            result.append({**counts, "delay_ms": Delays().as_json()})
        return result

    def close(self) -> None:
        """Remove all queues and end the helper."""
        self._clear()
        self._helper.end()

    def _build(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        self._clear()
        self._links, self._addresses = list(links), {peer: list(known) for peer, known in addresses.items()}
        places: list[QueuePlace] = []
        queues: dict[str, list[LinkSettings]] = {}
        for link in links:
            device = device_to(addresses[link.peer][0])
            here = queues.setdefault(QueuePlace(link, device, 0).queue, [])
            places.append(QueuePlace(link, device, len(here)))
            here.append(link)
        devices = sorted({place.device for place in places})
        # The helper knows of them before they are there.
        self._helper.pipe.send(devices)
        self._places = places
        # Left by an emulator that was killed with its helper.
        remove(devices)
        for ifb in sorted(set(queues) - set(devices)):
            run(["ip", "link", "add", ifb, "type", "ifb"])
            run(["ip", "link", "set", ifb, "up"])
        for queue, here in queues.items():
            run(["tc", "-batch", "-"], tc_batch(queue, here))
        self._steering.replace([turn for place in places for turn in place.turns(addresses[place.link.peer])])

    def _clear(self) -> None:
        self._steering.clear()
        remove(sorted({place.device for place in self._places}))
        self._places = []


def ifb_of(device: str) -> str:
    """Return the device that carries what arrives at `device`; names have at most 15 characters."""
    return f"{IFB_PREFIX}{device}"[:15]


def remove(devices: Sequence[str]) -> None:
    """Remove all queues of these interfaces that are still there."""
    for device in devices:
        attempt(["tc", "qdisc", "del", "dev", device, "root"])
        attempt(["ip", "link", "del", ifb_of(device)])


def _counts(device: str) -> dict[str, tuple[int, int]]:
    """Return handle -> (packets, drops) of the netem queues of a device; none if the device is gone."""
    good, output = attempt(["tc", "-s", "-json", "qdisc", "show", "dev", device])
    queues = json.loads(output) if good else []
    return {str(q["handle"]): (int(q["packets"]), int(q["drops"])) for q in queues if q["kind"] == "netem"}


def _remove_at_end(commands: Connection) -> None:
    """Be the helper process: remember the interfaces, and remove their queues when the service is gone."""
    devices: list[str] = []
    try:
        while (command := commands.recv()) is not None:
            devices = command
    except EOFError:
        remove(devices)
