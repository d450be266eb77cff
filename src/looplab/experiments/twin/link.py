"""A network between the devices and the broker: delay, jitter and loss, which the paper leaves for later work.

One emulator, in the network namespace of the broker's machine, for packets from and to the controller.
"""

from looplab.experiments.twin.parameters import TwinParameters
from looplab.link.settings import LinkSettings, both_ways
from looplab.treatments.emulators import Emulators

EMULATORS = Emulators({"broker": "http://broker-1:9107"})
# Where the devices are, as the broker's machine knows it.
PEER = "controller"


def links(p: TwinParameters) -> dict[str, list[LinkSettings]]:
    """Return what the emulator shall make, {} without a link; a packet does not overtake another."""
    if not p.link:
        return {}
    jitter = {"jitter_ms": p.link_jitter_ms, "distribution": "normal" if p.link_jitter_ms else "constant"}
    return {"broker": both_ways(PEER, p.link_delay_ms, **jitter, loss_percent=p.link_loss_percent, reorder=False)}
