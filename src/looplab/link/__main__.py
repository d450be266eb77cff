"""The sidecar's process: emulates the links of its network namespace."""

import os
import sys
import threading
from time import monotonic

from looplab.errors import EXIT_GOOD, LabError, MachineError, UsageError
from looplab.link import netem
from looplab.link.network import MAX_RTO_MIN_MS, raise_rto_min
from looplab.link.nfqueue import Nfqueue
from looplab.link.service import CHECK_S, PEER_TIMEOUT_S, BackEnd, Emulator, serve_links
from looplab.link.settings import LinkSettings, read_links
from looplab.spec.reader import Reader
from looplab.system import own_process


@own_process.program("lab-link-watch")
def main() -> int:
    """Return 0 if asked to stop or no longer needed, 2 for wrong settings, 3 if the machine lacks something."""
    stop = own_process.stop_event()
    get = Reader(os.environ, "compose/link.NAME.yaml")
    if milliseconds := get.integer("LINK_RTO_MIN_MS", 0, 0, MAX_RTO_MIN_MS):
        routes = raise_rto_min(milliseconds)
        print(f"link: TCP waits at least {milliseconds} ms before it sends again ({routes} routes)", flush=True)
    links = read_links(get)
    backend = _back_end(get.choice("LINK_BACKEND", "auto", ("auto", "netem", "nfqueue")))
    emulator = Emulator(backend)
    try:
        if _apply(emulator, links, stop):
            bind, control = os.environ.get("LINK_BIND") or "127.0.0.1", os.environ.get("LINK_CONTROL", "").strip()
            serve_links(emulator, bind, control)
            print(f"link: {backend.name}, {len(links)} links", flush=True)
            _watch(emulator, stop)
    finally:
        emulator.close()
    return EXIT_GOOD


def _back_end(name: str) -> BackEnd:
    """Return netem if the kernel has it, else NFQUEUE, or the one named. Raises LabError (exit code 3)."""
    if name == "nfqueue":
        return Nfqueue()
    try:
        netem.check()
        return netem.Netem()
    except LabError as error:
        if name == "netem":
            raise MachineError(f"This kernel has no netem: {error.message}", error.remedy) from error
        print(f"link: no netem: {error.message}", flush=True)
        return Nfqueue()


def _watch(emulator: Emulator, stop: threading.Event) -> None:
    """Watch until asked to stop, or until the target has ended without links; raises LabError if the back end fails."""
    while not stop.wait(CHECK_S):
        if emulator.ended():
            print("link: the container whose link this was has ended, and so does its emulator", flush=True)
            return
        why = emulator.fault()
        if why:
            raise MachineError(
                f"The link is not emulated any more: {why}.",
                "Packets pass as before. Restart this container and repeat the run.",
            )
        emulator.follow_peers()


def _apply(emulator: Emulator, links: list[LinkSettings], stop: threading.Event) -> bool:
    """Return whether the links are set once every peer has an address: its container may start after this one."""
    end_s = monotonic() + PEER_TIMEOUT_S
    while not stop.is_set():
        try:
            emulator.apply(links)
            return True
        except UsageError as error:
            if monotonic() > end_s:
                raise MachineError(error.message, error.remedy) from None
        stop.wait(CHECK_S)
    return False


if __name__ == "__main__":
    sys.exit(main())
