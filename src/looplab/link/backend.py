"""Which way the links are made on this kernel."""

from __future__ import annotations

from looplab.errors import EXIT_MACHINE, EXIT_USAGE, LabError
from looplab.link.nfqueue import Nfqueue
from looplab.link.service import BackEnd

NAMES = ("auto", "netem", "nfqueue")


def choose(name: str) -> BackEnd:
    """netem where the kernel has it, else NFQUEUE; LINK_BACKEND names one. Raises LabError (exit code 2 or 3)."""
    name = name.strip() or "auto"
    if name not in NAMES:
        raise LabError(f"LINK_BACKEND={name!r}: expected one of {', '.join(NAMES)}.", "Mend LINK_BACKEND.", EXIT_USAGE)
    if name == "netem":
        raise LabError("no netem yet", "", EXIT_MACHINE)
    return Nfqueue()
