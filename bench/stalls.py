#!/usr/bin/env python3
"""Measure with which places of its neighbours a kernel stalls an ordinary task (docs/stalls.md).

A bystander wakes every 20 ms and notes how late it was. Beside it the published stress and three small neighbours run,
all as bare processes in control groups; an arm is a place of the neighbours' groups. One arm has the bystander alone:
what the machine does by itself. Another one is the positive control: real-time tasks take every processor for 200 ms
each second. A bystander that does not see them sees no stall, and the bench fails. Prints p95, p99 and maximum of the
samples of each arm, their order drawn again in each round.

On this kernel (root, Debian's stress), or in a virtual machine with the newest kernel of the Debian suites named. Its
time is counted in instructions: other work on the host makes it slower, not later. Its files are those of the lab's
images: root, an engine after ./lab setup, qemu-system-x86, busybox-static and cpio.

`--flush-ms` makes the I/O workers wait: a disk is mounted whose flush takes so long (slow_disk.py), and sync() waits
for every disk. How long it took before the samples is in the results.

    sudo .venv/bin/python bench/stalls.py [--samples 4] [--seconds 5] [--flush-ms 10] [--json]
    PYTHONPATH=src:tests .venv/bin/python bench/stalls.py --suites bookworm trixie [--cgroup 1 2] [--flush-ms 10]
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if (ROOT / "src").is_dir():
    sys.path.insert(0, str(ROOT / "src"))

from looplab.lab.machine.stalls import BYSTANDER, NEIGHBOUR, NEIGHBOURS, STRESS, Bystander, Lateness  # noqa: E402

# The bystander and the stress are in groups below MEASURED; where the neighbours' groups are, and their weight.
MEASURED, ELSEWHERE, NOWHERE = "measured", "elsewhere", None
ALONE, MADE, BASE = "bystander alone", "a stall that is made", "stress"
ARMS: dict[str, tuple[str | None, int]] = {
    ALONE: (NOWHERE, 1024),
    MADE: (NOWHERE, 1024),
    BASE: (NOWHERE, 1024),
    "neighbours beside them": (MEASURED, 1024),
    "the same, an eighth": (MEASURED, 128),
    "in a parent of their own": (ELSEWHERE, 1024),
}
SETTLE_S = 1.0
# At each full second a task takes its processor for so long; all of them at once, so that nothing can move away.
MADE_S = 0.2
HOG = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
while True:
    time.sleep(1 - time.monotonic() % 1)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end: pass
"""
# A bystander is woken every 20 ms: it sees at least this much of a stall.
SEEN_MS = 1000 * MADE_S - 25
SYNCS = 50
# The disk of the virtual machine: the I/O workers sleep only where sync() has a file system to wait for.
DISK_MB = 64
MODULES = (
    *("lib", "crypto", "arch", "drivers/virtio", "drivers/block/virtio_blk.ko"),
    *("drivers/block/loop.ko", "fs/ext4", "fs/jbd2", "fs/mbcache.ko", "fs/fuse"),
)
# Linux 6.1 hangs where it starts the second processor at boot and QEMU counts instructions: it is started later.
LATER = "maxcpus=1"
INIT = """
for processor in /sys/devices/system/cpu/cpu[1-9]*/online; do echo 1 >$processor; done
for module in virtio_pci virtio_blk ext4 fuse loop; do busybox modprobe $module; done
for program in mount umount; do busybox ln -sf /usr/bin/busybox /usr/bin/$program; done
busybox mkdir /disk; busybox mount -t ext4 /dev/vda /disk || busybox echo "RESULT disk {}"
for version in @CGROUPS@; do
    if [ $version = 1 ]; then
        busybox mount -t tmpfs none /sys/fs/cgroup
        busybox mkdir /sys/fs/cgroup/cpu; busybox mount -t cgroup -o cpu none /sys/fs/cgroup/cpu
    else
        busybox mount -t cgroup2 none /sys/fs/cgroup
    fi
    python3 /bench/stalls.py --json @OPTIONS@ 2>&1 | busybox sed -n -e "s/^{/RESULT v$version {/p" -e t -e 's/^/# /p'
    [ $version = 1 ] && busybox umount /sys/fs/cgroup/cpu
    busybox umount /sys/fs/cgroup
done
"""


class Groups:
    """Control groups with processor time in them, version 1 or 2, below one of our own."""

    def __init__(self) -> None:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        first = [mount[1] for mount in mounts if mount[2] == "cgroup" and "cpu" in mount[3].split(",")]
        second = [mount[1] for mount in mounts if mount[2] == "cgroup2"]
        if not first and not second:
            sys.exit("no control groups are mounted here")
        self.version = 1 if first else 2
        self._top = Path((first or second)[0]) / f"stalls-{os.getpid()}"
        self._made: list[Path] = []

    def make(self, name: str, weight: int = 1024) -> Path:
        """Make a group and those above it; a weight of 1024 is the usual one."""
        path = self._top / name
        for folder in [*reversed([parent for parent in path.parents if parent.is_relative_to(self._top)]), path]:
            if not folder.is_dir():
                if self.version == 2:
                    (folder.parent / "cgroup.subtree_control").write_text("+cpu")
                folder.mkdir()
                self._made.append(folder)
        if self.version == 1:
            (path / "cpu.shares").write_text(str(weight))
        else:
            (path / "cpu.weight").write_text(str(weight * 100 // 1024))
        return path

    def remove(self) -> None:
        """Remove them all; their processes have ended."""
        for path in reversed(self._made):
            path.rmdir()
        self._made.clear()


def inside(group: Path, *words: str) -> list[str]:
    """Return the words of a command that enters `group` first."""
    return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(group), *words]


@contextmanager
def running(words: Sequence[str]) -> Iterator[None]:
    process = subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def sample(arm: str, seconds: float) -> Lateness:
    """Return the lateness of a bystander in one arm."""
    place, weight = ARMS[arm]
    groups, python = Groups(), (sys.executable, "-uc")
    with ExitStack() as ended:
        # After the others: a process that was killed is gone some moments later.
        ended.callback(groups.remove)
        ended.callback(time.sleep, 0.3)
        bystander = Bystander(inside(groups.make(f"{MEASURED}/bystander"), *python, BYSTANDER))
        ended.callback(bystander.stop)
        if arm == MADE:
            # In the group of this program: on some kernels a group of our own has no real-time budget.
            for processor in sorted(os.sched_getaffinity(0)):
                ended.enter_context(running([*python, HOG, str(processor), str(MADE_S)]))
        elif arm != ALONE:
            ended.enter_context(running(inside(groups.make(f"{MEASURED}/stress"), "stress", *STRESS)))
        for number, (busy_s, pause_s) in enumerate(NEIGHBOURS if place else ()):
            code = NEIGHBOUR.format(busy_s=busy_s, pause_s=pause_s)
            group = groups.make(f"{place}/neighbour-{number}", weight)
            ended.enter_context(running(inside(group, *python, code)))
        time.sleep(SETTLE_S)
        found = bystander.sample(seconds)
    if found is None:
        sys.exit(f"{arm}: the bystander never woke")
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the samples of each arm on this kernel, and which it is."""
    if shutil.which("stress") is None:
        sys.exit("stress is missing: apt-get install stress")
    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    draw = random.Random(options.seed)
    with mounted(options.flush_ms, options.image) if options.flush_ms else nullcontext():
        took_ms = sync_ms()
        if took_ms < options.flush_ms:
            sys.exit(f"sync() took {took_ms:.2f} ms: it does not wait for the disk")
        for number in range(options.samples):
            for arm in draw.sample(list(ARMS), len(ARMS)):
                found[arm].append(asdict(sample(arm, options.seconds)))
            print(f"round {number + 1} of {options.samples}", file=sys.stderr, flush=True)
    machine = {"kernel": platform.release(), "cgroup": Groups().version, "processors": os.cpu_count()}
    return {**machine, "sync_ms": took_ms, "arms": found}


def missed(found: dict[str, Any]) -> str:
    """Return what is wrong with the positive control, "" if every sample saw the stall that was made."""
    least_ms = min(entry["max_ms"] for entry in found["arms"][MADE])
    if least_ms >= SEEN_MS:
        return ""
    return (
        f"a sample saw {least_ms:.0f} ms of a stall of {1000 * MADE_S:.0f} ms that was made: no other arm can be "
        "trusted. Real-time priority was refused, or the bystander does not see stalls."
    )


def sync_ms() -> float:
    """Return how long sync() takes, a median in ms, beside a busy process on each processor.

    Idle, the virtual machine's time would jump.
    """
    took_ns = []
    with ExitStack() as ended:
        for _ in range(os.cpu_count() or 1):
            ended.enter_context(running([sys.executable, "-c", "import os; os.nice(19)\nwhile True: pass"]))
        for _ in range(SYNCS):
            began_ns = time.monotonic_ns()
            os.sync()
            took_ns.append(time.monotonic_ns() - began_ns)
    return sorted(took_ns)[SYNCS // 2] / 1e6


@contextmanager
def mounted(flush_ms: float, image: Path | None) -> Iterator[None]:
    """Mount a disk with the content of `image`, of which each flush takes `flush_ms`."""
    with tempfile.TemporaryDirectory(prefix="looplab-stalls-") as name, ExitStack() as ended:
        served, place = Path(name) / "served", Path(name) / "mounted"
        served.touch()
        place.mkdir()
        words = [str(Path(__file__).with_name("slow_disk.py")), str(image or make_disk(Path(name))), str(served)]
        ended.enter_context(running([sys.executable, *words, str(flush_ms)]))
        for _ in range(100):
            if served.stat().st_size:
                break
            time.sleep(0.1)
        # Lazily: the kernel lets go of the loop device some moments after its own end.
        ended.callback(subprocess.run, ["umount", "-l", str(served)], check=True)
        subprocess.run(["mount", "-o", "loop", str(served), str(place)], check=True)
        ended.callback(subprocess.run, ["umount", str(place)], check=True)
        yield


def in_virtual_machine(suite: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what `measure` finds under the newest kernel of a Debian suite, for each version of control groups."""
    from support import virtual_machine

    from looplab.lab.checkout import Lab

    images = Lab(ROOT).own_images()
    given = f"--samples {options.samples} --seconds {options.seconds} --seed {options.seed}"
    given += f" --flush-ms {options.flush_ms} --image /dev/vda"
    values = {"CGROUPS": " ".join(map(str, options.cgroup)), "OPTIONS": given}
    with tempfile.TemporaryDirectory(prefix="looplab-stalls-") as name:
        words = (*virtual_machine.ICOUNT, *drive(make_disk(Path(name))))
        hardware = virtual_machine.Hardware(
            modules=MODULES, words=words, processors=options.processors, append=LATER, suite=suite
        )
        found = virtual_machine.run(
            {"": f"{images['controller']},{images['stress']}"},
            INIT,
            values,
            {f"bench/{name}.py": Path(__file__).with_name(f"{name}.py") for name in ("stalls", "slow_disk")},
            hardware,
        )
    results = [document for what, document in found if what.startswith("v")]
    if len(results) != len(options.cgroup):
        sys.exit(f"{suite}: the virtual machine ended early, see its console above")
    return results


def make_disk(folder: Path) -> Path:
    """Return the image of an empty file system in `folder`."""
    disk = folder / "disk.ext4"
    made = ["mke2fs", "-q", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(disk), f"{DISK_MB}M"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    return disk


def drive(disk: Path) -> list[str]:
    """Return QEMU's words for a disk without a write cache, as under many hypervisors: sync() has nothing to flush."""
    node = {"driver": "raw", "node-name": "disk", "file": {"driver": "file", "filename": str(disk)}}
    return ["-blockdev", json.dumps(node), "-device", "virtio-blk-pci,drive=disk,write-cache=off"]


def table(found: dict[str, Any]) -> str:
    """Return a heading and one line an arm."""
    machine = f"Linux {found['kernel']}, control groups v{found['cgroup']}, {found['processors']} processors"
    lines = [
        f"{machine}, sync() in {found['sync_ms']:.3f} ms; lateness in ms",
        f"{'':<26} {'p95':>18} {'p99':>18} {'max':>18}",
    ]
    for arm, samples in found["arms"].items():
        spans = []
        for key in ("p95_ms", "p99_ms", "max_ms"):
            ordered = sorted(entry[key] for entry in samples)
            spans.append(f"{ordered[len(ordered) // 2]:.2f} ({ordered[0]:.1f}-{ordered[-1]:.1f})")
        lines.append(f"{arm:<26} " + " ".join(f"{span:>18}" for span in spans))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--suites", nargs="+", default=(), help="Debian's, for a virtual machine with each kernel")
    parser.add_argument("--cgroup", type=int, nargs="+", choices=(1, 2), default=(1, 2), help="in the virtual machine")
    parser.add_argument("--processors", type=int, default=2, help="of the virtual machine")
    parser.add_argument("--flush-ms", type=float, default=0.0, help="of a disk (default: none that is slow)")
    parser.add_argument("--image", type=Path, help="what is on it (default: an empty ext4)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.suites:
        results = [found for suite in options.suites for found in in_virtual_machine(suite, options)]
    else:
        results = [measure(options)]
    for found in results:
        print(json.dumps(found) if options.json else table(found), flush=True)
    faults = [f"{found['kernel']}, v{found['cgroup']}: {why}" for found in results if (why := missed(found))]
    print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
