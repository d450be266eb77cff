"""The back end in the kernel: netem below a prio queue, for packets that arrive behind an ifb device.

The nftables rules that lead packets there are in tables that belong to the service alone. The kernel removes such a
table ("flags owner", Linux 5.12) when its process ends, however it ends: then no packet meets a queue. What queues a
killed emulator left, the next one removes.
"""

import json
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from looplab.link.distributions import Delays
from looplab.link.network import PROCESS_NAME, attempt, device_to, refusal, run
from looplab.link.settings import DIRECTIONS, LinkSettings
from looplab.system import own_process

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


def check() -> None:
    """Try all on a device of its own. Raises LabError (exit code 3) if the kernel lacks it, or without NET_ADMIN."""
    attempt(["ip", "link", "del", PROBE_DEVICE])
    try:
        run(["ip", "link", "add", PROBE_DEVICE, "type", "ifb"])
        run(["tc", "qdisc", "add", "dev", PROBE_DEVICE, "root", "handle", "1:", "prio"])
        run(["tc", "qdisc", "add", "dev", PROBE_DEVICE, "parent", "1:1", "netem", "delay", "1ms"])
        Steering().lead([QueuePlace(way, PROBE_DEVICE, PROBE_DEVICE, 0, ["192.0.2.1"]) for way in DIRECTIONS])
    finally:
        attempt(["ip", "link", "del", PROBE_DEVICE])


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


class QueuePlace(NamedTuple):
    """Where one link's packets wait: at position `at` of the prio queue of `queue`, for packets on `device`."""

    direction: str
    device: str
    queue: str
    at: int
    addresses: Sequence[str]

    def rules(self) -> list[str]:
        """Return what leads packets of the peer's addresses there: those that arrive by the ifb device."""
        flow = flow_of(self.at)
        if self.direction == "ingress":
            return [f'ip saddr {one} meta priority set {flow} fwd to "{self.queue}"' for one in self.addresses]
        return [f'oifname "{self.device}" ip daddr {one} meta priority set {flow}' for one in self.addresses]


class Steering:
    """One set of rules, which lasts as long as this object."""

    def __init__(self) -> None:
        # Imported here: only this back end needs it.
        from nftables import Nftables

        self._nft = Nftables()
        self._there = False

    def lead(self, places: Sequence[QueuePlace]) -> None:
        """Lead packets to these places, in one step. Raises LabError (exit code 3)."""
        self._run(_creation(places))
        self._there = True

    def clear(self) -> None:
        """Remove all rules. Raises LabError (exit code 3)."""
        if self._there:
            self._run([f"delete table {family} {TABLE}" for family in _FAMILIES])
            self._there = False

    def _run(self, lines: list[str]) -> None:
        code, _output, errors = self._nft.cmd("\n".join(lines))
        if code:
            first = str(errors).strip().splitlines()[:1]
            raise refusal(["nft", "…", TABLE], first[0] if first else "")


def _creation(places: Sequence[QueuePlace]) -> list[str]:
    lines = [f"add table {family} {TABLE} {{ flags owner; }}" for family in _FAMILIES]
    lines.append(f"add chain ip {TABLE} out {{ type filter hook postrouting priority 0; }}")
    leaving, arriving = ([p for p in places if p.direction == way] for way in ("egress", "ingress"))
    lines += [f"add rule ip {TABLE} out {rule}" for place in leaving for rule in place.rules()]
    for at, device in enumerate(sorted({place.device for place in arriving})):
        lines.append(f'add chain netdev {TABLE} in{at} {{ type filter hook ingress device "{device}" priority 0; }}')
        here = (rule for place in arriving if place.device == device for rule in place.rules())
        lines += [f"add rule netdev {TABLE} in{at} {rule}" for rule in here]
    return lines


class Netem:
    """Replaces all queues of the interfaces that lead to the peers of the links."""

    name = "netem"

    def __init__(self) -> None:
        self._places: list[QueuePlace] = []
        self._check_s = 0.0
        self._steering = Steering()
        # The role of the emulator is found by this name, whichever process makes the links.
        own_process.set_name(PROCESS_NAME)

    def fault(self) -> str:
        if monotonic() < self._check_s:
            return ""
        self._check_s = monotonic() + CHECK_S
        gone = sorted({place.queue for place in self._places if not _counts(place.queue)})
        return f"netem is gone from {', '.join(gone)}" if gone else ""

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
        """Remove all queues and the rules that lead to them."""
        self._steering.clear()
        remove(sorted({place.device for place in self._places}))
        self._places = []

    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Replace all queues. Raises LabError."""
        self.close()
        places: list[QueuePlace] = []
        queues: dict[str, list[LinkSettings]] = {}
        for link in links:
            device = device_to(addresses[link.peer][0])
            queue = ifb_of(device) if link.direction == "ingress" else device
            here = queues.setdefault(queue, [])
            places.append(QueuePlace(link.direction, device, queue, len(here), addresses[link.peer]))
            here.append(link)
        devices = sorted({place.device for place in places})
        self._places = places
        # Left by an emulator that was killed.
        remove(devices)
        for ifb in sorted(set(queues) - set(devices)):
            run(["ip", "link", "add", ifb, "type", "ifb"])
            run(["ip", "link", "set", ifb, "up"])
        for queue, here in queues.items():
            run(["tc", "-batch", "-"], tc_batch(queue, here))
        self._steering.lead(places)


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
