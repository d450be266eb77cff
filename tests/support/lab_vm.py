"""A whole virtual machine as the lab's own: a bundle and a checkout of this lab come to it on a stick."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.e2e_lab import copy_of_checkout
from support.places import ROOT
from support.vm_disk import make_disk
from support.whole_vm import Machine
from support.wire import TapWire, call

MEMORY_MB = 4096
BUNDLE, CHECKOUT = "lab.bundle", "lab.tar"
# Debian 12 has no Compose plugin of its own.
PLUGIN = "docker-compose"
WHERE = '{{range .ClientInfo.Plugins}}{{if eq .Name "compose"}}{{.Path}}{{end}}{{end}}'


def make_stick(folder: Path, bundle: Path) -> Path:
    """An ext4 file system with the bundle, a clone of this checkout as it stands, and this machine's Compose."""
    stick, image = folder / "stick", folder / "stick.ext4"
    stick.mkdir()
    call("git", "clone", "-q", "--depth=1", f"file://{ROOT}", str(folder / "lab"))
    copy_of_checkout(folder / "lab", as_set_up=False)
    call("tar", "-C", str(folder), "-cf", str(stick / CHECKOUT), "lab")
    (stick / BUNDLE).hardlink_to(bundle)
    shutil.copy(call("docker", "info", "--format", WHERE), stick / PLUGIN)
    call("mke2fs", "-q", "-t", "ext4", "-d", str(stick), str(image), f"{bundle.stat().st_size // 2**20 + 400}M")
    return image


@contextmanager
def lab_machine(name: str, folder: Path, bundle: Path, number: int) -> Iterator[Machine]:
    """The machine, up, with the checkout in its user's home and the stick on /mnt."""
    stick = f"file={make_stick(folder, bundle)},format=raw,if=virtio,readonly=on"
    disk = make_disk(name).copy_to(folder)
    with TapWire(number) as wire, Machine(wire, folder, disk, ["-drive", stick], MEMORY_MB) as machine:
        machine.run(f"sudo mount -o ro /dev/vdb /mnt && tar -xf /mnt/{CHECKOUT} && chmod go+rx .")
        if "yes" not in machine.run("docker compose version >/dev/null 2>&1 && echo yes", check=False):
            machine.run(f"sudo install -D /mnt/{PLUGIN} /usr/libexec/docker/cli-plugins/{PLUGIN}")
        yield machine
