"""A virtual machine with Debian's own kernel, which has sch_netem, and the files of the lab's own images.

Everything is a Debian package or an image of the lab: the kernel (unpacked, not installed), the images (exported, one
over the other), busybox as init. Needs root, docker, qemu-system-x86, busybox-static and cpio.
"""

import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from looplab.lab.docker.engine import find_engine
from looplab.lab.docker.images import is_here
from support.containers import own_image
from support.places import ROOT
from support.whole_vm import EMULATED, missing_packages
from support.wire import call

KERNEL = "linux-image-cloud-amd64"
PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio"}
MODULES = ("net", "lib", "crypto", "arch", "drivers/net/ifb.ko", "drivers/net/veth.ko")
UNUSED = ("usr/share", "usr/lib/python3/dist-packages/scapy", "var/lib", "var/cache", "boot")
MEMORY_MB = 2048
TIMEOUT_S = 1200
# The machine's time is counted in its own instructions (2 ns each) and jumps over idleness: nothing that runs on the
# host disturbs it.
ICOUNT = ("-icount", "shift=1,sleep=off")
MARK = "RESULT "
# What every init begins and ends with; the results end with ("end", {}) where the machine came to its end.
BEGIN = """#!/bin/sh
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PYTHONPATH=/opt/looplab PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
for kind in "proc /proc" "sysfs /sys" "devtmpfs /dev" "tmpfs /run"; do busybox mount -t ${kind% *} none ${kind#* }; done
exec </dev/console >/dev/console 2>&1
busybox mkdir -p /run/netns /tmp /captures; busybox chmod 1777 /run /tmp /captures
for module in veth ifb sch_netem af_packet; do busybox modprobe $module; done
busybox ip link set lo up
# queues_left NAMESPACE: what queues its interfaces have
queues_left() { ip netns exec $1 tc qdisc show | busybox tr '\\n' ' '; }
# named COMM: process ids
named() {
    for process in /proc/[0-9]*; do
        busybox grep -qx $1 $process/comm && echo ${process##*/}
    done
}
# await FILE WORD SECONDS: until the word stands in the file
await() {
    for second in $(busybox seq $3); do
        busybox grep -q "$2" $1 2>/dev/null && return 0
        busybox sleep 1
    done
    echo "# $2 did not come:"; busybox cat $1
    return 1
}
"""
# Of a machine with a broker and an experiment: before its own lines and after them. The treatments service has a token.
BROKER = """
busybox mkdir -p /results /run/looplab /broker/proc /broker/dev /broker/mosquitto/data
busybox mount -t proc proc /broker/proc; busybox mount -t devtmpfs dev /broker/dev
echo token >/run/looplab/treatments
"""
DOCUMENT = """
for log in /run/*.log; do busybox sed "s,^,# $log: ," $log; done
for run in $(busybox find /results -name run.json); do
    echo "RESULT run $(python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))' $run)"
done
"""
END = """
echo RESULT end {}
busybox poweroff -f
"""

Results = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Hardware:
    """A Debian kernel and those of its modules that the machine has; QEMU's words for clock, devices, processors."""

    kernel: str = KERNEL
    modules: tuple[str, ...] = MODULES
    words: tuple[str, ...] = ICOUNT


def unpack_kernel(folder: Path, name: str) -> tuple[Path, Path]:
    """(kernel, its modules) out of Debian's package."""
    depends = call("apt-cache", "depends", name).splitlines()
    package = next(line.split()[-1] for line in depends if "Depends: linux-image-" in line)
    call("apt-get", "download", package, cwd=folder, timeout_s=300)
    call("dpkg-deb", "-x", str(next(folder.glob("linux-image-*.deb"))), str(folder / "kernel"))
    # lib/modules, from Debian 13 on usr/lib/modules.
    return next((folder / "kernel/boot").glob("vmlinuz-*")), next((folder / "kernel").glob("**/lib/modules/*"))


def export(image: str, place: Path) -> None:
    """The files of an image, over what is there."""
    container = call("docker", "create", image)
    try:
        with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as files:
            subprocess.run(["tar", "-x", "-C", str(place)], stdin=files.stdout, check=True)
    finally:
        call("docker", "rm", container)
    for unused in UNUSED:
        shutil.rmtree(place / unused, ignore_errors=True)


def make_root(
    folder: Path, images: Mapping[str, str], modules: Path, wanted: Iterable[str], init: str, files: Mapping[str, str]
) -> Path:
    """The images' files by their place in the root ("" for the root itself, more than one by commas), the kernel's
    `wanted` modules, the checkout's code, texts of files by their place, and an init: packed as an initramfs."""
    root = folder / "root"
    for place, names in images.items():
        (root / place).mkdir(parents=True, exist_ok=True)
        for image in names.split(","):
            export(image, root / place)
    code = root / "opt/looplab/looplab"
    shutil.rmtree(code)
    shutil.copytree(ROOT / "src/looplab", code)
    for place, text in files.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    _add_modules(root, modules, wanted)
    (root / "init").write_text(BEGIN + init + END)
    (root / "init").chmod(0o755)
    archive = folder / "root.cpio"
    with archive.open("wb") as out:
        found = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=found, stdout=out, check=True)
    return archive


def _add_modules(root: Path, modules: Path, wanted: Iterable[str]) -> None:
    target = root / "usr/lib/modules" / modules.name
    for name in wanted:
        source, place = modules / "kernel" / name, target / "kernel" / name
        if not source.exists():
            source, place = (path.with_name(f"{path.name}.xz") for path in (source, place))
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place)
        elif source.exists():
            shutil.copy(source, place)
    for packed in list(target.rglob("*.ko.xz")):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(modules / name, target)
    busybox = shutil.which("busybox")
    assert busybox is not None
    call(busybox, "depmod", "-b", str(root), modules.name)
    shutil.copy(busybox, root / "usr/bin/busybox")
    (root / "usr/sbin/modprobe").unlink(missing_ok=True)
    (root / "usr/sbin/modprobe").symlink_to("/usr/bin/busybox")


def boot(kernel: Path, archive: Path, hardware: Hardware = Hardware()) -> Results:
    """Boot, echo the console to standard error, return (who, result) of each line."""
    command = [
        *("timeout", str(TIMEOUT_S), "qemu-system-x86_64", "-nographic", "-no-reboot", "-accel", "tcg", *EMULATED),
        *("-m", str(MEMORY_MB), *hardware.words),
        *("-kernel", str(kernel), "-initrd", str(archive)),
        *("-append", "console=ttyS0 quiet panic=-1 init=/init"),
    ]
    results = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as machine:
        assert machine.stdout is not None
        for line in machine.stdout:
            print(line.rstrip(), file=sys.stderr, flush=True)
            _, mark, result = line.rpartition(MARK)
            if mark:
                who, _, document = result.strip().partition(" ")
                results.append((who, json.loads(document)))
    return results


def run(
    images: Mapping[str, str],
    init: str,
    values: Mapping[str, object],
    files: Mapping[str, str],
    hardware: Hardware = Hardware(),
) -> Results:
    """Everything, with @NAME@ in the init replaced by its value; see make_root for images and files."""
    missing = missing_packages(PACKAGES)
    assert not missing, f"apt-get install {' '.join(missing)}"
    for name, value in values.items():
        init = init.replace(f"@{name}@", str(value))
    with tempfile.TemporaryDirectory(prefix="looplab-vm-") as name:
        folder = Path(name)
        # apt's own user writes here.
        folder.chmod(0o755)
        kernel, modules = unpack_kernel(folder, hardware.kernel)
        root = make_root(folder, images, modules, hardware.modules, init, files)
        return boot(kernel, root, hardware)


def images_of_experiment(*own: str) -> list[str]:
    """Those whose files a machine has: the lab's own, and last the broker's."""
    return [*map(own_image, own), os.environ.get("MOSQUITTO_IMAGE") or "eclipse-mosquitto:2.0.22"]


def run_experiment(
    images: Iterable[str],
    init: str,
    values: Mapping[str, object],
    hosts: str,
    mosquitto: str,
    hardware: Hardware = Hardware(),
) -> Results:
    """A machine with an experiment, and a broker of this configuration in /broker; results hold run.json as `run`."""
    # Ours one over the other: all are made from the same Debian. The broker's need not be.
    *own, broker = images
    files = {"etc/hosts": hosts, "broker/mosquitto/config/mosquitto.conf": mosquitto}
    return run({"": ",".join(own), "broker": broker}, BROKER + init + DOCUMENT, values, files, hardware)


def whole(images: Iterable[str], start: Callable[[], Results]) -> Results:
    """Return the results of a machine that `start` ran to its end. Fails the test if `images` or results are absent."""
    absent = [name for name in images if not find_engine().serves or not is_here(name)]
    if absent:
        pytest.fail(f"no Docker engine with {', '.join(absent)} answers here: run ./lab setup for them first")
    found = start()
    assert found, "the machine said nothing"
    assert found[-1] == ("end", {}), found
    return found[:-1]
