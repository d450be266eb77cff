"""Disks of whole virtual machines: a system with its own kernel, systemd, udev, NetworkManager and ssh, from packages.

The Pi's is as Raspberry Pi Imager leaves a card: a user `pi` who may use sudo, no Docker. Docker's packages lie on it
as an archive of their own, because the machine has no way to the Internet. The others have their engine. Each is made
once for each recipe and kept outside the checkout; root only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from support.wire import call

# The script that every release of Ubuntu is bootstrapped with.
UBUNTU = "gutsy"
UBUNTU_KEYS = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")


class GuestSystem(NamedTuple):
    """`installed` are its packages beside those of each machine, `to_be_installed` those of its archive."""

    suite: str
    host: str
    user: str = "student"
    installed: str = "docker.io docker-cli docker-compose git python3"
    to_be_installed: str = ""
    kernel: str = "linux-image-amd64"
    # Of debootstrap; an older one does not know each suite's name.
    script: str = "sid"
    # Beside `SUITE main` of the mirror; {0} is the mirror.
    sources: tuple[str, ...] = ("{0}-security {1}-security main",)


ROOTLESS = "rootlesskit slirp4netns uidmap dbus-user-session"
SYSTEMS = {
    # To be installed is what rpi/install.sh asks apt-get for.
    "pi": GuestSystem("trixie", "robot-pi", "pi", "", "docker.io docker-cli docker-compose"),
    # Has sch_netem, and what images/link/Dockerfile installs.
    "link": GuestSystem(
        "trixie", "lab-link", installed="python3 procps iptables python3-netfilterqueue python3-nftables"
    ),
    # With an engine on which a part of the lab has no effect.
    "debian13": GuestSystem(
        "trixie", "lab-debian13",
        installed=f"docker.io docker-cli docker-compose git python3 {ROOTLESS} nftables",
    ),
    # Debian 12 has no Compose plugin: the host's is brought.
    "debian12": GuestSystem("bookworm", "lab-debian12", installed="docker.io apparmor git python3"),
    "ubuntu2404": GuestSystem(
        "noble", "lab-ubuntu2404", installed="docker.io docker-compose-v2 git python3", kernel="linux-image-virtual",
        script=UBUNTU,
        sources=("{0} {1} universe", "{0} {1}-updates main universe", "{0} {1}-security main universe"),
    ),
}  # fmt: skip
# What this machine needs: program and package.
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "debootstrap": "debootstrap", "ssh": "openssh-client"}
PACKAGES = "apt-utils systemd-sysv udev dbus kmod initramfs-tools zstd openssh-server network-manager sudo iproute2"
# What apt has downloaded becomes an archive of its own; the lists of the mirror go.
ARCHIVE = """
mkdir /opt/packages && cd /opt/packages
find /var/cache/apt/archives -name '*.deb' -exec mv -t . {} +
apt-ftparchive packages . >Packages
rm -r /var/lib/apt/lists && mkdir -p /var/lib/apt/lists/partial
"""
SIZE = "16G"
BUILD_LIMIT_S = 1800
MODULES_IN_INITRD = "virtio_blk virtio_pci virtio_net ext4"


class Disk(NamedTuple):
    """A kernel, its initial RAM disk, and an ext4 root file system without partitions."""

    kernel: Path
    initrd: Path
    root: Path
    user: str

    def copy_to(self, folder: Path) -> Disk:
        """The same with a root file system that may be written to."""
        root = folder / self.root.name
        subprocess.run(["cp", "--sparse=always", str(self.root), str(root)], check=True)
        return self._replace(root=root)


def make_disk(name: str) -> Disk:
    """The kept one of SYSTEMS, else a new one (some minutes). LAB_DEBIAN_MIRROR, LAB_UBUNTU_MIRROR name the house's."""
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    assert not missing, f"apt-get install {' '.join(missing)}"
    system = SYSTEMS[name]
    # Without a name debootstrap takes its own default.
    mirror = os.environ.get("LAB_UBUNTU_MIRROR" if system.script == UBUNTU else "LAB_DEBIAN_MIRROR", "")
    recipe = hashlib.sha256(f"{system} {mirror} {Path(__file__).read_text()}".encode()).hexdigest()[:12]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "looplab" / f"virtual-{name}-{recipe}"
    if not folder.exists():
        unfinished = folder.with_suffix(f".{os.getpid()}")
        unfinished.mkdir(parents=True)
        try:
            _make(unfinished, system, mirror)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return Disk(folder / "vmlinuz", folder / "initrd.img", folder / "root.ext4", system.user)


def _make(folder: Path, system: GuestSystem, mirror: str) -> None:
    tree = folder / "tree"
    # Without Ubuntu's keyring, which Debian lacks, debootstrap would ask Debian for noble.
    trust = ["--no-check-gpg"] if system.script == UBUNTU and not UBUNTU_KEYS.exists() else []
    _run("debootstrap", *trust, "--variant=minbase", system.suite, str(tree), mirror, system.script)
    # No service may start in here.
    policy = tree / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    sources = tree / "etc/apt/sources.list"
    mirror = mirror or sources.read_text().split()[1].rstrip("/")
    lines = [line.format(mirror, system.suite) for line in ("{0} {1} main", *system.sources)]
    sources.write_text("".join(f"deb {line}\n" for line in lines))
    _inside(tree, "apt-get -qq update && apt-get -qq -y upgrade")
    (tree / "etc/initramfs-tools").mkdir(exist_ok=True)
    (tree / "etc/initramfs-tools/modules").write_text("\n".join([*MODULES_IN_INITRD.split(), ""]))
    install = "apt-get -qq -y --no-install-recommends install"
    keep = "-o Dpkg::Options::=--force-confold"
    _inside(tree, f"{install} {keep} {PACKAGES} {system.installed} {system.kernel} && apt-get clean")
    _inside(tree, f"useradd --create-home --shell /bin/bash --groups dialout,sudo {system.user}")
    if system.to_be_installed:
        _inside(tree, f"{install} --download-only {system.to_be_installed}")
    _inside(tree, ARCHIVE)
    policy.unlink()
    files = {
        "etc/hostname": f"{system.host}\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {system.host}\n",
        "etc/fstab": "",
        f"etc/sudoers.d/010_{system.user}-nopasswd": f"{system.user} ALL=(ALL) NOPASSWD: ALL\n",
        "etc/apt/sources.list": "deb [trusted=yes] file:/opt/packages ./\n",
        # In place of Ubuntu's, which leaves its network cards to netplan.
        "etc/NetworkManager/conf.d/10-globally-managed-devices.conf": "",
        # One for each machine that is started from it.
        "etc/machine-id": "",
    }
    for name, text in files.items():
        (tree / name).write_text(text)
    for name in ("vmlinuz", "initrd.img"):
        (newest,) = (tree / "boot").glob(f"{name}-*")
        shutil.copy(newest, folder / name)
    _run("mke2fs", "-q", "-t", "ext4", "-d", str(tree), str(folder / "root.ext4"), SIZE)
    shutil.rmtree(tree)


def _inside(tree: Path, script: str) -> None:
    """`script` with `tree` as its root and a /proc of its own."""
    namespaces = ["unshare", "--mount", "--pid", "--fork", f"--root={tree}", "--mount-proc", "--wd=/"]
    _run(*namespaces, "env", "-i", "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin", "sh", "-ec", script)


def _run(*words: str) -> str:
    return call(*words, timeout_s=BUILD_LIMIT_S)
