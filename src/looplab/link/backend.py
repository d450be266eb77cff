"""Choose the back end that makes the links on this kernel."""

from __future__ import annotations

from looplab.errors import EXIT_MACHINE, EXIT_USAGE, LabError
from looplab.link import netem
from looplab.link.commands import CAPABILITY_REMEDY, refusal
from looplab.link.nfqueue import Nfqueue
from looplab.link.service import BackEnd

NAMES = ("auto", "netem", "nfqueue")


def choose(name: str) -> BackEnd:
    """Return netem if the kernel has it, else NFQUEUE, or the one named. Raises LabError (exit code 2 or 3)."""
    name = name.strip() or "auto"
    if name not in NAMES:
        raise LabError(
            f"LINK_BACKEND={name!r}: expected one of {', '.join(NAMES)}.", "Correct `LINK_BACKEND`.", EXIT_USAGE
        )
    if name == "nfqueue":
        return Nfqueue()
    missing = netem.missing()
    if not missing:
        return netem.Netem()
    if name == "netem":
        raise refusal(["tc", "qdisc", "add", "…", "netem"], missing)
    try:
        return Nfqueue()
    except LabError as error:
        if error.remedy == CAPABILITY_REMEDY:
            raise
        raise LabError(
            f"This kernel can emulate no link: netem: {missing}; NFQUEUE: {error.message}",
            "On the host: modprobe sch_netem ifb, or modprobe nfnetlink_queue xt_NFQUEUE.",
            EXIT_MACHINE,
        ) from error
