"""A virtual machine with Debian's own kernel, which has sch_netem, and the files of one of the lab's own images.

Everything is a Debian package or an image of the lab: the kernel (unpacked, not installed), the image (exported),
busybox as init. Needs root, docker, qemu-system-x86, busybox-static and cpio.
"""

import json
import lzma
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from looplab.lab.docker.engine import find_engine
from looplab.lab.docker.images import is_here
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
busybox mkdir -p /run/netns /tmp; busybox chmod 1777 /run /tmp
for module in veth ifb sch_netem; do busybox modprobe $module; done
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
END = """
echo RESULT end {}
busybox poweroff -f
"""

Results = list[tuple[str, dict[str, Any]]]


def unpack_kernel(folder: Path) -> tuple[Path, Path]:
    """(kernel, its modules) out of Debian's package."""
    depends = call("apt-cache", "depends", KERNEL).splitlines()
    package = next(line.split()[-1] for line in depends if "Depends: linux-image-" in line)
    call("apt-get", "download", package, cwd=folder, timeout_s=300)
    call("dpkg-deb", "-x", str(next(folder.glob("linux-image-*.deb"))), str(folder / "kernel"))
    # lib/modules, from Debian 13 on usr/lib/modules.
    return next((folder / "kernel/boot").glob("vmlinuz-*")), next((folder / "kernel").glob("**/lib/modules/*"))


def export(image: str, place: Path) -> None:
    """The files of an image."""
    container = call("docker", "create", image)
    try:
        with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as files:
            subprocess.run(["tar", "-x", "-C", str(place)], stdin=files.stdout, check=True)
    finally:
        call("docker", "rm", container)
    for unused in UNUSED:
        shutil.rmtree(place / unused, ignore_errors=True)


def make_root(folder: Path, image: str, modules: Path, init: str, files: Mapping[str, str]) -> Path:
    """The image's files, the kernel's MODULES, the checkout's code, texts by their place, an init: an initramfs."""
    root = folder / "root"
    root.mkdir()
    export(image, root)
    code = root / "opt/looplab/looplab"
    shutil.rmtree(code)
    shutil.copytree(ROOT / "src/looplab", code)
    for place, text in files.items():
        (root / place).write_text(text)
    _add_modules(root, modules)
    (root / "init").write_text(BEGIN + init + END)
    (root / "init").chmod(0o755)
    archive = folder / "root.cpio"
    with archive.open("wb") as out:
        found = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=found, stdout=out, check=True)
    return archive


def _add_modules(root: Path, modules: Path) -> None:
    target = root / "usr/lib/modules" / modules.name
    for name in MODULES:
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


def boot(kernel: Path, archive: Path) -> Results:
    """Boot, echo the console to standard error, return (who, result) of each line."""
    command = [
        *("timeout", str(TIMEOUT_S), "qemu-system-x86_64", "-nographic", "-no-reboot", "-accel", "tcg", *EMULATED),
        *("-m", str(MEMORY_MB), *ICOUNT),
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


def run(image: str, init: str, values: Mapping[str, object], files: Mapping[str, str]) -> Results:
    """Return the results of a whole machine, with @NAME@ in the init replaced by its value; see make_root for files."""
    missing = missing_packages(PACKAGES)
    assert not missing, f"apt-get install {' '.join(missing)}"
    if not find_engine().serves or not is_here(image):
        pytest.fail(f"no Docker engine with {image} answers here: run ./lab setup for it first")
    for name, value in values.items():
        init = init.replace(f"@{name}@", str(value))
    with tempfile.TemporaryDirectory(prefix="looplab-vm-") as name:
        folder = Path(name)
        # apt's own user writes here.
        folder.chmod(0o755)
        kernel, modules = unpack_kernel(folder)
        found = boot(kernel, make_root(folder, image, modules, init, files))
    assert found, "the machine said nothing"
    assert found[-1] == ("end", {}), found
    return found[:-1]
