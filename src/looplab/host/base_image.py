"""Make debian:trixie-slim from Debian's own packages, where no registry can give it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.host.apt import install_packages, is_root
from looplab.host.command import follow, is_there
from looplab.host.steps import Step

SUITE = "trixie"
# debootstrap says a line for each package and stage; about so many for a minimal system.
DEBOOTSTRAP_LINES = 400
# Unpacking needs device nodes and programs that may run: /tmp is often mounted without either.
SCRATCH = "/var/tmp"
ORIGIN_LABEL = "looplab.origin"
BUNDLE_REMEDY = "On a machine with a network run ./lab bundle FILE, bring FILE here, then ./lab load FILE."

# The image runs no services of its own and keeps no documentation, as images of Debian do.
_POLICY = "#!/bin/sh\nexit 101\n"
_DPKG_EXCLUDES = """path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
"""
_APT_HABITS = 'Acquire::Languages "none";\nAPT::Install-Recommends "false";\nDpkg::Use-Pty "0";\n'
_EMPTIED = (
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)


def make_base_image(reference: str) -> None:
    """debootstrap, trim, import as `reference`; needs root for device nodes and chroot."""
    if not is_root():
        raise LabError(
            f"The image {reference} is not here, no registry gives it, and building it needs root.",
            f"Run sudo ./lab setup once, or: {BUNDLE_REMEDY}",
            EXIT_MACHINE,
        )
    if not is_there("debootstrap") and not Path("/usr/sbin/debootstrap").exists():
        install_packages("debootstrap", ["debootstrap", "debian-archive-keyring"], expected_s=10)
    scratch = Path(tempfile.mkdtemp(prefix="looplab-base-", dir=SCRATCH))
    tree = scratch / "tree"
    try:
        _bootstrap(tree)
        trim(tree)
        _import(tree, reference)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _bootstrap(tree: Path) -> None:
    # LAB_DEBIAN_MIRROR names a mirror of the house; without it debootstrap takes its own default.
    mirror = [address] if (address := os.environ.get("LAB_DEBIAN_MIRROR")) else []
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    program = shutil.which("debootstrap", path=path) or "debootstrap"
    command = [program, "--variant=minbase", SUITE, str(tree), *mirror]
    seen = 0
    with Step(f"Building a Debian {SUITE} base from packages", expected_s=60) as step:

        def count(_line: str) -> None:
            nonlocal seen
            seen += 1
            step.advance(min(seen, DEBOOTSTRAP_LINES - 1), DEBOOTSTRAP_LINES, f"{seen} lines of debootstrap")

        done = follow(command, count, timeout_s=1200, environment={"PATH": path})
        if not done.good:
            reasons = [line for line in done.stdout.splitlines() if line.startswith("E: ")] or [done.said]
            raise LabError(
                f"debootstrap could not build the base image: {reasons[-1].removeprefix('E: ')}",
                f"Name a reachable Debian mirror in LAB_DEBIAN_MIRROR. Or: {BUNDLE_REMEDY}",
                EXIT_MACHINE,
            )


def trim(tree: Path) -> None:
    """Take out what an image does not need; licences stay."""
    for folder in _EMPTIED:
        _empty(tree / folder)
    for path in sorted((tree / "usr/share/doc").rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name != "copyright":
            path.unlink()
    (tree / "var/cache/apt/archives/partial").mkdir(parents=True)
    (tree / "var/lib/apt/lists/partial").mkdir(parents=True)
    (tree / "etc/dpkg/dpkg.cfg.d/looplab").write_text(_DPKG_EXCLUDES)
    (tree / "etc/apt/apt.conf.d/90looplab").write_text(_APT_HABITS)
    policy = tree / "usr/sbin/policy-rc.d"
    policy.write_text(_POLICY)
    policy.chmod(0o755)
    # The host's own name servers would be baked in; the engine mounts its own file over this.
    (tree / "etc/resolv.conf").write_text("")
    (tree / "etc/hostname").write_text("localhost\n")


def _empty(folder: Path) -> None:
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _import(tree: Path, reference: str) -> None:
    changes = ('CMD ["bash"]', f"LABEL {ORIGIN_LABEL}=built", f"LABEL looplab.stands-for={reference}")
    command = ["docker", "import", *(f"--change={change}" for change in changes), "-", reference]
    pack_command = ["tar", "--numeric-owner", "--one-file-system", "-C", str(tree), "-c", "."]
    with Step(f"Importing it as {reference}", expected_s=8):
        pack = subprocess.Popen(pack_command, stdout=subprocess.PIPE)
        taken = subprocess.run(command, stdin=pack.stdout, capture_output=True, text=True, check=False)
        if pack.stdout is not None:
            pack.stdout.close()
        if pack.wait() != 0 or taken.returncode != 0:
            raise LabError(
                f"The engine did not take the base image: {taken.stderr.strip() or 'tar failed'}",
                f"Check the free space of the engine's data folder and of {SCRATCH}.",
                EXIT_MACHINE,
            )
