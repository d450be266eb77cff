"""Kernel netem and NFQUEUE under Debian's own kernel in a virtual machine: the checks of support/link_checks.py.

Some minutes of software emulation: only where LAB_NETEM_VM=1 says so.
"""

from typing import Any

import pytest
from support import virtual_machine
from support.containers import own_image
from support.link_checks import CHECKS
from support.places import ROOT

BACK_ENDS = ["netem", "nfqueue"]
DELAY_MS, PROBES = 40, 1000
CHECKS_FILE = ROOT / "tests/support/link_checks.py"

INIT = """
left() { echo "RESULT $1 {\\"check\\": \\"$2\\", \\"left\\": \\"$(queues_left target)\\"}"; }
trip() {
    echo "RESULT netem {\\"check\\": \\"$1\\", \\"trip_ms\\": $(ip netns exec target python3 -c \
        'from looplab.link.ping import ping; print(ping("10.9.0.2", 10)["min"])')}"
}
ip netns add target; ip netns add peer
ip link add to-peer netns target type veth peer name to-target netns peer
ip -n target address add 10.9.0.1/24 dev to-peer; ip -n peer address add 10.9.0.2/24 dev to-target
for end in "target to-peer" "peer to-target"; do
    set -- $end
    ip -n $1 link set lo up
    ip -n $1 link set $2 up
    ip netns exec $1 busybox sysctl -qw net.ipv4.ping_group_range="0 65535"
done
ip netns exec peer python3 /link_checks.py --echo &
for backend in @BACKENDS@; do
    LINK_BACKEND=$backend ip netns exec target link-entry >/run/$backend.log 2>&1 &
    emulator=$!
    await /run/$backend.log link: 60
    busybox sed 's/^/# /' /run/$backend.log
    ip netns exec target python3 /link_checks.py 10.9.0.2 --probes @PROBES@ | busybox sed "s/^/RESULT $backend /"
    kill $emulator; wait $emulator
    left $backend removed
done
export LINK_PEER=10.9.0.2 LINK_DELAY_MS=@DELAY_MS@ LINK_BACKEND=netem
start() {
    ip netns exec target link-entry >/run/$1.log 2>&1 &
    emulator=$!
    await /run/$1.log link: 60
}
start first
trip delayed
kill -9 $(named lab-link)
trip killed
# A new one in the same network namespace.
start second
trip "started again"
kill $emulator; wait $emulator
left netem "removed again"
"""


def run() -> virtual_machine.Results:
    """(back end, result) of each line."""
    values = {"BACKENDS": " ".join(BACK_ENDS), "PROBES": PROBES, "DELAY_MS": DELAY_MS}
    return virtual_machine.run(own_image("link"), INIT, values, {"link_checks.py": CHECKS_FILE.read_text()})


pytestmark = [pytest.mark.flag("LAB_NETEM_VM"), pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def results() -> dict[tuple[str, str], dict[str, Any]]:
    """By (back end, check)."""
    return {(backend, result["check"]): result for backend, result in run()}


@pytest.mark.parametrize("backend", BACK_ENDS)
@pytest.mark.parametrize("check", CHECKS)
def test_both_back_ends_do_what_they_are_told(
    results: dict[tuple[str, str], dict[str, Any]], backend: str, check: str
) -> None:
    assert results[backend, check]["good"], results[backend, check]["attempts"]


@pytest.mark.parametrize("ending", ["removed", "removed again"])
def test_netem_leaves_no_queue_behind(results: dict[tuple[str, str], dict[str, Any]], ending: str) -> None:
    assert "qdisc" in results["netem", ending]["left"]
    assert "netem" not in results["netem", ending]["left"]


def test_netem_delays_nothing_once_its_container_was_killed(results: dict[tuple[str, str], Any]) -> None:
    checks = ("delayed", "killed", "started again")
    delayed, killed, again = (results["netem", check]["trip_ms"] for check in checks)
    there_and_back_ms = 2 * DELAY_MS
    assert there_and_back_ms <= delayed < 1.25 * there_and_back_ms
    assert killed < DELAY_MS / 2
    assert there_and_back_ms <= again < 1.25 * there_and_back_ms
