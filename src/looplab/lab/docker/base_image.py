"""Make debian:trixie-slim from Debian's own packages, where no registry can give it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.docker.builds import BUNDLE_REMEDY
from looplab.lab.docker.image_names import ORIGIN_LABEL
from looplab.lab.machine.apt import install_packages
from looplab.lab.programs import call, follow, is_there
from looplab.system.terminal import Step, say

SUITE = "trixie"
# debootstrap says a line for each package and stage; about so many for a minimal system.
DEBOOTSTRAP_LINES = 400
# Unpacking needs device nodes and programs that may run: /tmp is often mounted without either.
SCRATCH = "/var/tmp"
# Debian's name of an architecture: the engine's, with its variant.
ARCHITECTURES = {"amd64": ("amd64", ""), "arm64": ("arm64", ""), "armhf": ("arm", "v7")}

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


def make_base_image(reference: str, architecture: str = "") -> None:
    """debootstrap, trim, import as `reference`; needs root for device nodes and chroot.

    `architecture` is a key of ARCHITECTURES, empty for this machine's own; programs of a foreign one must run here.
    """
    if os.geteuid() != 0:
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
        _bootstrap(tree, architecture)
        if not _patch(tree):
            say("No security updates for the base image: the mirror has no debian-security beside debian.")
        trim(tree)
        _import(tree, reference)
        if architecture:
            _label_architecture(scratch, reference, architecture)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _bootstrap(tree: Path, architecture: str) -> None:
    # LAB_DEBIAN_MIRROR names a mirror of the house; without it debootstrap takes its own default.
    mirror = [address] if (address := os.environ.get("LAB_DEBIAN_MIRROR")) else []
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    program = shutil.which("debootstrap", path=path) or "debootstrap"
    foreign = [f"--arch={architecture}"] if architecture else []
    command = [program, "--variant=minbase", *foreign, SUITE, str(tree), *mirror]
    seen = 0
    with Step(f"Building a Debian {SUITE} base from packages", expected_s=300 if foreign else 60) as step:

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


def _patch(tree: Path) -> bool:
    """Take Debian's security updates, which debootstrap leaves out; False where the mirror does not have them."""
    sources = tree / "etc/apt/sources.list"
    mirror = sources.read_text().split()[1].rstrip("/")
    security = tree / "etc/apt/sources.list.d/security.list"
    security.write_text(f"deb {mirror}-security {SUITE}-security main\n")
    environment = {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with Step("Taking Debian's security updates", expected_s=10) as step:
        # Without the option apt-get takes a source that cannot be had for a passing trouble.
        for words in (["update", "-o", "APT::Update::Error-Mode=any"], ["-y", "upgrade"]):
            done = call(["chroot", str(tree), "apt-get", "-qq", *words], timeout_s=600, environment=environment)
            if not done.good:
                step.finish_as(f"not to be had: {done.said}")
                security.unlink()
                return False
    return True


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


def _label_architecture(scratch: Path, reference: str, architecture: str) -> None:
    """Have the engine take the image as one of `architecture`: an engine imports every tree as its own kind."""
    unpacked = scratch / "archive"
    unpacked.mkdir()
    with Step(f"Marking it as {architecture}", expected_s=8):
        _engine("save", "--output", str(scratch / "saved.tar"), reference)
        subprocess.run(["tar", "-xf", str(scratch / "saved.tar"), "-C", str(unpacked)], check=True)
        (image,) = json.loads((unpacked / "manifest.json").read_text())
        facts = json.loads((unpacked / image["Config"]).read_text())
        facts["architecture"], facts["variant"] = ARCHITECTURES[architecture]
        # The engine names an image by its configuration's digest: the changed one gets a name of its own.
        image["Config"] = f"{architecture}.json"
        (unpacked / image["Config"]).write_text(json.dumps({key: value for key, value in facts.items() if value}))
        (unpacked / "manifest.json").write_text(json.dumps([image]))
        # What later engines write beside manifest.json would still tell of the old configuration.
        for name in ("index.json", "oci-layout", "repositories"):
            (unpacked / name).unlink(missing_ok=True)
        subprocess.run(["tar", "-cf", str(scratch / "marked.tar"), "-C", str(unpacked), "."], check=True)
        _engine("load", "--input", str(scratch / "marked.tar"))


def _engine(*words: str) -> None:
    done = call(["docker", *words], timeout_s=300)
    if not done.good:
        raise LabError(f"docker {words[0]} failed: {done.said}", "Check the free space of the engine.", EXIT_MACHINE)
