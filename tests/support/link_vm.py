"""Both back ends in a virtual machine whose kernel has netem: the very checks of link_checks.py, and what is left
behind by emulators that end in every way.
"""

from pathlib import Path

from support import virtual_machine

HERE = Path(__file__).parent
DELAY_MS = 40

INIT = """
left() { echo "RESULT $1 {\\"check\\": \\"$2\\", \\"left\\": \\"$(queues_left target)\\"}"; }
trip() {
    echo "RESULT netem {\\"check\\": \\"$1\\", \\"trip_ms\\": $(ip netns exec target python3 -c \
        'from looplab.link.ping import ping; print(ping("10.9.0.2", 10)["p50"])')}"
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
kill -9 $(named lab-link-watch)
busybox sleep 4
left netem killed
# All at once, as an engine kills a container: the guard first, so that it cannot clean up.
start second
trip delayed
kill -9 $(named lab-link) $(named lab-link-watch)
trip "killed with its guard"
# A new one in the same network namespace.
start third
trip "started again"
kill $emulator; wait $emulator
left netem "removed again"
"""


def run(image: str, backends: list[str], probes: int) -> virtual_machine.Results:
    """(back end, result) of each line."""
    values = {"BACKENDS": " ".join(backends), "PROBES": probes, "DELAY_MS": DELAY_MS}
    return virtual_machine.run({"": image}, INIT, values, {"link_checks.py": (HERE / "link_checks.py").read_text()})
