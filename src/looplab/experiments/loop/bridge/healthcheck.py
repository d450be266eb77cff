"""Report on the bridge's own machine whether it is connected and its robot answers, and what is missing if not.

docker compose -f rpi/compose.yaml exec bridge python3 -m looplab.experiments.loop.bridge.healthcheck [--wait SECONDS]
"""

import argparse
import errno
import os
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID
from looplab.experiments.loop.bridge import state as bridge_state

LOOK_S = 0.2
# A broker lives as long as a run: a refused connection shows that its machine is on.
REFUSED = os.strerror(errno.ECONNREFUSED)


def status(facts: dict[str, Any] | None) -> tuple[list[str], bool]:
    """Return lines on bridge, robot and broker, and whether nothing is missing here or on the way to the broker."""
    if facts is None:
        return ["bridge: not running (docker compose -f rpi/compose.yaml logs bridge names the cause)"], False
    robot, connected = bool(facts.get("robot_online")), bool(facts.get("connected"))
    no_run = REFUSED in str(facts.get("last_error"))
    first = f"bridge: running, version {facts.get('version')}, framing {facts.get('framing')}"
    return [first, _robot(facts), _broker(facts, no_run)], robot and (connected or no_run)


def _robot(facts: dict[str, Any]) -> str:
    if facts.get("robot_online"):
        return f"robot:  online at {facts.get('serial')} ({facts.get('robot')})"
    return f"robot:  OFFLINE: {facts.get('robot_fault')}"


def _broker(facts: dict[str, Any], no_run: bool) -> str:
    broker = facts.get("broker")
    if facts.get("connected"):
        return f"broker: connected to {broker}; the retained status says online"
    if no_run:
        return f"broker: {broker} is there, but no run is going on: it is joined when one starts"
    return f"broker: NOT REACHED: {facts.get('last_error') or f'{broker} did not answer yet'}"


def main() -> int:
    """Return 0 if nothing is missing on this machine or on the way, 1 if something is after the wait."""
    parser = argparse.ArgumentParser(
        prog="bridge_status", description="Is the bridge connected, does the robot answer?"
    )
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="for what is not there yet")
    end_s = monotonic() + parser.parse_args().wait
    folder = Path(os.environ.get("STATE_DIR") or "/state")
    while True:
        lines, good = status(bridge_state.read(folder))
        if good or monotonic() >= end_s:
            break
        sleep(LOOK_S)
    print("\n".join(lines))
    return EXIT_GOOD if good else EXIT_INVALID


if __name__ == "__main__":
    sys.exit(main())
