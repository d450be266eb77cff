"""A virtual machine with Debian's own kernel, which has sch_netem, and the very image and checks of the other back end.

Everything is a Debian package: the kernel (unpacked, not installed), the emulator's image (exported), busybox as
init. `python3 tests/link/netem_vm.py` prints the JSON lines of link_checks.py for each back end.
Needs root, docker, qemu-system-x86, busybox-static and cpio; about a minute.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_MACHINE, LabError

KERNEL = "linux-image-cloud-amd64"
PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio"}
MODULES = ("net", "lib", "crypto", "arch", "drivers/net/ifb.ko", "drivers/net/veth.ko")
UNUSED = ("usr/share", "usr/lib/python3/dist-packages/scapy", "var/lib", "var/cache", "boot")
MEMORY_MB = 1536
TIMEOUT_S = 1200
# The machine's time is counted in its own instructions (2 ns each) and jumps over idleness: nothing that runs on the
# host disturbs it.
ICOUNT = "shift=1,sleep=off"
MARK = "RESULT "
HERE = Path(__file__).parent

INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/opt/looplab PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /run
exec </dev/console >/dev/console 2>&1
busybox mkdir -p /run/netns /tmp
for module in veth ifb sch_netem; do busybox modprobe $module; done
left() {
    queues=$(ip netns exec target tc qdisc show | busybox tr '\\n' ' ')
    echo "RESULT $1 {\\"check\\": \\"$2\\", \\"left\\": \\"$queues\\"}"
}
ip link set lo up
ip netns add target; ip netns add peer
ip link add to-peer netns target type veth peer name to-target netns peer
ip -n target address add 10.9.0.1/24 dev to-peer; ip -n peer address add 10.9.0.2/24 dev to-target
for end in "target to-peer" "peer to-target"; do
    set -- $end
    ip -n $1 link set lo up
    ip -n $1 link set $2 up
done
ip netns exec peer python3 -m looplab.link --echo &
for backend in BACKENDS; do
    LINK_BACKEND=$backend ip netns exec target python3 -m looplab.link >/run/$backend.log 2>&1 &
    emulator=$!
    for second in $(busybox seq 60); do
        busybox grep -q link: /run/$backend.log 2>/dev/null && break
        busybox sleep 1
    done
    echo "# $backend answered after $second s"
    busybox sed 's/^/# /' /run/$backend.log
    ip netns exec target tc qdisc show dev to-peer
    ip netns exec target python3 /link_checks.py 10.9.0.2 --probes PROBES | busybox sed "s/^/RESULT $backend /"
    kill $emulator; wait $emulator
    left $backend removed
done
export LINK_PEER=10.9.0.2 LINK_DELAY_MS=40
LINK_BACKEND=netem ip netns exec target python3 -m looplab.link &
busybox sleep 8
for process in /proc/[0-9]*; do
    busybox grep -qx lab-link-watch $process/comm && kill -9 ${process##*/}
done
busybox sleep 4
left netem killed
echo RESULT end {}
busybox poweroff -f
"""


def need_programs() -> None:
    """Raises LabError (exit code 3) naming the packages that are missing."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        raise LabError(f"Missing: {', '.join(missing)}.", f"apt-get install {' '.join(missing)}", EXIT_MACHINE)


def _run(*words: str, cwd: Path | None = None) -> str:
    return subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True).stdout


def unpack_kernel(folder: Path) -> tuple[Path, Path]:
    """(kernel, its modules) out of Debian's package."""
    depends = _run("apt-cache", "depends", KERNEL).splitlines()
    package = next(line.split()[-1] for line in depends if "Depends: linux-image-" in line)
    _run("apt-get", "download", package, cwd=folder)
    _run("dpkg-deb", "-x", str(next(folder.glob("linux-image-*.deb"))), str(folder / "kernel"))
    return next((folder / "kernel/boot").glob("vmlinuz-*")), next((folder / "kernel/lib/modules").iterdir())


def make_root(folder: Path, image: str, modules: Path, backends: list[str], probes: int) -> Path:
    """The image's files with the kernel's modules, the checkout's code and an init, packed as an initramfs."""
    root = folder / "root"
    root.mkdir()
    container = _run("docker", "create", image).strip()
    try:
        with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as export:
            subprocess.run(["tar", "-x", "-C", str(root)], stdin=export.stdout, check=True)
    finally:
        _run("docker", "rm", container)
    for unused in UNUSED:
        shutil.rmtree(root / unused, ignore_errors=True)
    code = root / "opt/looplab/looplab"
    shutil.rmtree(code)
    shutil.copytree(Path(__file__).resolve().parents[2] / "src/looplab", code)
    shutil.copy(HERE / "link_checks.py", root)
    target = root / "usr/lib/modules" / modules.name
    for name in MODULES:
        source, place = modules / "kernel" / name, target / "kernel" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place)
        elif source.exists():
            shutil.copy(source, place)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(modules / name, target)
    busybox = shutil.which("busybox")
    assert busybox is not None
    _run(busybox, "depmod", "-b", str(root), modules.name)
    shutil.copy(busybox, root / "usr/bin/busybox")
    (root / "usr/sbin/modprobe").symlink_to("/usr/bin/busybox")
    init = root / "init"
    init.write_text(INIT.replace("BACKENDS", " ".join(backends)).replace("PROBES", str(probes)))
    init.chmod(0o755)
    archive = folder / "root.cpio"
    with archive.open("wb") as out:
        names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=out, check=True)
    return archive


def boot(kernel: Path, archive: Path) -> list[tuple[str, dict[str, Any]]]:
    """Boot, echo the console to standard error, return (back end, result) of each line."""
    command = [
        *("timeout", str(TIMEOUT_S), "qemu-system-x86_64", "-nographic", "-no-reboot", "-accel", "tcg"),
        *("-m", str(MEMORY_MB), "-smp", "1", "-icount", ICOUNT),
        *("-kernel", str(kernel), "-initrd", str(archive), "-append", "console=ttyS0 quiet panic=-1 init=/init"),
    ]
    results = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as machine:
        assert machine.stdout is not None
        for line in machine.stdout:
            print(line.rstrip(), file=sys.stderr, flush=True)
            _, mark, result = line.rpartition(MARK)
            if mark:
                backend, _, document = result.strip().partition(" ")
                results.append((backend, json.loads(document)))
    return results


def run(image: str, backends: list[str], probes: int) -> list[tuple[str, dict[str, Any]]]:
    """Everything; results end with ("end", {}) where the machine came to its end."""
    need_programs()
    with tempfile.TemporaryDirectory(prefix="looplab-vm-") as name:
        folder = Path(name)
        # apt's own user writes here.
        folder.chmod(0o755)
        kernel, modules = unpack_kernel(folder)
        return boot(kernel, make_root(folder, image, modules, backends, probes))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", default="looplab/link:0.1.0")
    parser.add_argument("--backend", action="append", choices=["netem", "nfqueue"])
    parser.add_argument("--probes", type=int, default=2000)
    options = parser.parse_args()
    backends = options.backend or ["netem", "nfqueue"]
    for backend, result in run(options.image, backends, options.probes):
        print(backend, json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
