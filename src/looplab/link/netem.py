"""The back end in the kernel: netem below a prio queue, for what arrives behind an ifb device.

What leads packets there ends with the service, in whatever way that ends (steering.py): no queue outlives it that a
packet meets. A process of its own then takes the queues away, too, unless it was killed as well.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from looplab.errors import LabError
from looplab.link.commands import attempt, run
from looplab.link.figures import Delays
from looplab.link.route import device_to
from looplab.link.settings import LinkSettings
from looplab.link.steering import Steering, Turn, lacking
from looplab.system import processes

PROBE_DEVICE = "lab-link-try"
IFB_PREFIX = "lab-in-"
# Packets netem may hold: 10 s of 10 000 a second.
LIMIT_PACKETS = 100_000
# A rate so high that its time does not count: with any rate netem keeps the order.
ORDER_RATE = "32gbit"
# How often the kernel is asked whether its queues are still there; each look starts a process.
LOOK_S = 2.0
END_TIMEOUT_S = 5.0
# Band 1 is for what no link carries; netem's handles are 101:, 102:, ...
_PLAIN_BAND = 1
_MAP = ["0"] * 16


def present() -> str:
    """Why this kernel cannot, "" where it can: tried on a device of its own. Needs NET_ADMIN."""
    attempt(["ip", "link", "del", PROBE_DEVICE])
    try:
        for command in (
            ["ip", "link", "add", PROBE_DEVICE, "type", "ifb"],
            ["tc", "qdisc", "add", "dev", PROBE_DEVICE, "root", "handle", "1:", "prio"],
            ["tc", "qdisc", "add", "dev", PROBE_DEVICE, "parent", "1:1", "netem", "delay", "1ms"],
        ):
            good, said = attempt(command)
            if not good:
                return said.splitlines()[-1] if said else f"{command[0]} failed"
        return lacking(PROBE_DEVICE)
    finally:
        attempt(["ip", "link", "del", PROBE_DEVICE])


def netem_words(link: LinkSettings) -> list[str]:
    """What follows `netem` on tc's command line."""
    words = ["limit", str(LIMIT_PACKETS), "delay", f"{link.delay_ms * 1000:.0f}us"]
    if link.jitter_ms:
        words.append(f"{link.jitter_ms * 1000:.0f}us")
        # netem has no table for it: a delay with jitter and no distribution is uniform.
        if link.distribution != "uniform":
            words += ["distribution", link.distribution]
    if link.loss_percent:
        words += ["loss", "random", f"{link.loss_percent:g}%"]
    if link.duplicate_percent:
        words += ["duplicate", f"{link.duplicate_percent:g}%"]
    if link.rate_kbit:
        words += ["rate", f"{link.rate_kbit}kbit"]
    elif not link.reorder:
        words += ["rate", ORDER_RATE]
    return words


def tc_batch(device: str, links: Sequence[LinkSettings]) -> str:
    """tc's batch for one device: a prio queue, netem on a band for each link, all else on the first."""
    bands = str(max(2, len(links) + 1))
    lines = [["qdisc", "add", "dev", device, "root", "handle", "1:", "prio", "bands", bands, "priomap", *_MAP]]
    for at, link in enumerate(links):
        handle = f"{101 + at}:"
        words = netem_words(link)
        lines.append(["qdisc", "add", "dev", device, "parent", flow_of(at), "handle", handle, "netem", *words])
    return "".join(" ".join(line) + "\n" for line in lines)


def flow_of(at: int) -> str:
    """The class of the link at this position of its device; those of tc are hexadecimal."""
    return f"1:{_PLAIN_BAND + 1 + at:x}"


class Netem:
    """Replaces all queues of the interfaces that lead to the peers of the links."""

    name = "netem"

    def __init__(self) -> None:
        self._devices: list[str] = []
        self._links: list[LinkSettings] = []
        self._addresses: dict[str, list[str]] = {}
        self._look_s = 0.0
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(target=_guard, args=(theirs, self._pipe))
        self._process.daemon = True
        self._process.start()
        theirs.close()
        # After the fork: the other process must not hold the rules' socket open.
        self._steering = Steering()

    def fault(self) -> str:
        """Why there is no emulation any more; "" while there is."""
        if not self._process.is_alive():
            return "the process that restores the link ended"
        if monotonic() < self._look_s:
            return ""
        self._look_s = monotonic() + LOOK_S
        gone = [device for device in self._devices if not _counts(device)]
        return f"netem is gone from {', '.join(gone)}" if gone else ""

    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Replace all links; on an error those before are put back. Raises LabError."""
        before, places = self._links, self._addresses
        try:
            self._build(links, addresses)
        except LabError:
            self._build(before, places)
            raise

    def move(self, addresses: Mapping[str, Sequence[str]]) -> None:
        """The same links to peers that have other addresses now."""
        self._build(self._links, addresses)

    def state(self) -> list[dict[str, Any]]:
        """Counts of each link since it was set; netem tells neither duplicates nor delays."""
        counted = {device: _counts(device) for device in self._devices}
        result = []
        for link in self._links:
            device, at = self._place(link)
            packets, dropped = counted.get(device, {}).get(f"{101 + at}:", (0, 0))
            result.append(
                {
                    "packets": packets + dropped,
                    "dropped": dropped,
                    "duplicated": None,
                    "delay_ms": Delays().as_json(),
                    "overflowed": 0,
                }
            )
        return result

    def close(self) -> None:
        """Restore the links and end the guard."""
        self._clear()
        if self._process.is_alive():
            self._pipe.send(None)
            self._process.join(END_TIMEOUT_S)

    def _build(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        self._clear()
        self._links, self._addresses = list(links), {peer: list(found) for peer, found in addresses.items()}
        out = _by_device([link for link in links if link.direction == "egress"], addresses)
        incoming = _by_device([link for link in links if link.direction == "ingress"], addresses)
        self._devices = [*out, *(ifb_of(device) for device in incoming)]
        # The guard knows of them before they are there.
        self._pipe.send([*out, *incoming])
        # What an emulator left that was killed with its guard.
        remove([*out, *incoming])
        for device, here in out.items():
            run(["tc", "-batch", "-"], tc_batch(device, here))
        for device, here in incoming.items():
            ifb = ifb_of(device)
            run(["ip", "link", "add", ifb, "type", "ifb"])
            run(["ip", "link", "set", ifb, "up"])
            run(["tc", "-batch", "-"], tc_batch(ifb, here))
        self._steering.replace([*_turns(out, addresses, False), *_turns(incoming, addresses, True)])

    def _place(self, link: LinkSettings) -> tuple[str, int]:
        """(device, position on it) of a link."""
        device = device_to(self._addresses[link.peer][0])
        here = _by_device([one for one in self._links if one.direction == link.direction], self._addresses)[device]
        return (device if link.direction == "egress" else ifb_of(device)), here.index(link)

    def _clear(self) -> None:
        self._steering.clear()
        remove([device for device in self._devices if not device.startswith(IFB_PREFIX)])
        remove([device.removeprefix(IFB_PREFIX) for device in self._devices if device.startswith(IFB_PREFIX)])
        self._devices = []


def ifb_of(device: str) -> str:
    """The device that stands for what arrives at `device`; names have at most 15 characters."""
    return f"{IFB_PREFIX}{device}"[:15]


def remove(devices: Sequence[str]) -> None:
    """Take away all queues of these interfaces; quiet where they are gone already."""
    for device in devices:
        attempt(["tc", "qdisc", "del", "dev", device, "root"])
        attempt(["ip", "link", "del", ifb_of(device)])


def _turns(
    by_device: Mapping[str, Sequence[LinkSettings]], addresses: Mapping[str, Sequence[str]], incoming: bool
) -> list[Turn]:
    return [
        Turn(device, address, flow_of(at), ifb_of(device) if incoming else "")
        for device, links in by_device.items()
        for at, link in enumerate(links)
        for address in addresses[link.peer]
    ]


def _by_device(links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> dict[str, list[LinkSettings]]:
    found: dict[str, list[LinkSettings]] = {}
    for link in links:
        found.setdefault(device_to(addresses[link.peer][0]), []).append(link)
    return found


def _counts(device: str) -> dict[str, tuple[int, int]]:
    """handle -> (packets, drops) of the netem queues of a device; none where the device is gone."""
    good, said = attempt(["tc", "-s", "-json", "qdisc", "show", "dev", device])
    found = json.loads(said) if good else []
    return {str(q["handle"]): (int(q["packets"]), int(q["drops"])) for q in found if q["kind"] == "netem"}


def _guard(commands: Connection, other_end: Connection) -> None:
    """Remember the interfaces; when the service is gone, take the queues away."""
    other_end.close()
    processes.set_name("lab-link")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    devices: list[str] = []
    try:
        while True:
            told = commands.recv()
            if told is None:
                break
            devices = told
    except EOFError:
        remove(devices)
    os._exit(0)
