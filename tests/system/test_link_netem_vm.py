"""Kernel netem and NFQUEUE under Debian's own kernel in a virtual machine: the checks of support/link_checks.py.

Some minutes of software emulation: only where LAB_NETEM_VM=1 says so. Needs root, qemu-system-x86 and debootstrap.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.link_checks import CHECKS
from support.places import ROOT
from support.vm_disk import make_disk
from support.whole_vm import EMULATED, KERNEL
from support.wire import call

BACK_ENDS = ["netem", "nfqueue"]
DELAY_MS, PROBES = 40, 1000
MARK = "RESULT "
# The machine's time is counted in its own instructions (2 ns each) and jumps over idleness: nothing that runs on the
# host disturbs it.
ICOUNT = ("-icount", "shift=1,sleep=off")
INIT = """
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/mnt PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ip link set lo up
left() {
    queues=$(ip netns exec target tc qdisc show | tr '\\n' ' ')
    echo "RESULT $1 {\\"check\\": \\"$2\\", \\"left\\": \\"$queues\\"}"
}
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
    ip netns exec $1 sysctl -qw net.ipv4.ping_group_range="0 65535"
done
start() {
    ip netns exec target sh /mnt/entry >/run/$1.log 2>&1 &
    emulator=$!
    timeout 60 sh -c "until grep -q link: /run/$1.log; do sleep 1; done"
    sed 's/^/# /' /run/$1.log
}
for backend in netem nfqueue; do
    LINK_BACKEND=$backend start $backend
    ip netns exec target python3 /mnt/link_checks.py 10.9.0.2 --probes @PROBES@ | sed "s/^/RESULT $backend /"
    kill $emulator; wait $emulator
    left $backend removed
done
export LINK_PEER=10.9.0.2 LINK_DELAY_MS=@DELAY_MS@ LINK_BACKEND=netem
start first
trip delayed
pkill -9 -x lab-link
trip killed
# A new one in the same network namespace.
start second
trip "started again"
kill $emulator; wait $emulator
left netem "removed again"
echo RESULT end {}
poweroff -ff
"""


def run(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return (back end, result) of each line that a machine with the checkout's code prints."""
    disk, stick, image = make_disk("link"), folder / "stick", folder / "stick.ext4"
    shutil.copytree(ROOT / "src/looplab", stick / "looplab")
    for name in ("tests/support/link_checks.py", "images/link/entry"):
        shutil.copy(ROOT / name, stick)
    (stick / "init").write_text(INIT.replace("@PROBES@", str(PROBES)).replace("@DELAY_MS@", str(DELAY_MS)))
    call("mke2fs", "-q", "-t", "ext4", "-d", str(stick), str(image), "64M")
    command = [
        *("timeout", "1200", "qemu-system-x86_64", "-nographic", "-no-reboot", "-accel", "tcg", *EMULATED, *ICOUNT),
        *("-m", "2048", "-kernel", str(disk.kernel), "-initrd", str(disk.initrd)),
        *("-drive", f"file={disk.root},format=raw,if=virtio,snapshot=on"),
        *("-drive", f"file={image},format=raw,if=virtio"),
        *("-append", f'{KERNEL} init=/bin/sh -- -c "mount -o ro /dev/vdb /mnt; exec sh /mnt/init"'),
    ]
    found = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as machine:
        assert machine.stdout is not None
        for line in machine.stdout:
            print(line.rstrip(), flush=True)
            if MARK in line:
                who, _, document = line.partition(MARK)[2].strip().partition(" ")
                found.append((who, json.loads(document)))
    assert found[-1:] == [("end", {})], "the machine did not come to its end"
    return found[:-1]


pytestmark = [pytest.mark.flag("LAB_NETEM_VM"), pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """By (back end, check)."""
    return {(backend, result["check"]): result for backend, result in run(tmp_path_factory.mktemp("link"))}


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
