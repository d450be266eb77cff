"""A bundle's file: one gzip stream, written entirely or not at all, checked before it is used.

It is what `docker save` writes, and `docker load` takes it; in front of the images is the manifest, bundle.json. Its
checksums are inside itself: they find damage. Against exchange there is its SHA-256, which the maker prints.
"""

import gzip
import hashlib
import json
import re
import subprocess
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from looplab.errors import LabError, MachineError, UsageError
from looplab.lab.docker.images import images_of, tagged
from looplab.lab.image_names import is_own
from looplab.lab.programs import call
from looplab.system.terminal import Step

SCHEMA = 3
MANIFEST = "bundle.json"
MANIFEST_KEYS = {"schema", "architecture", "images", "lab"}
PIECE_BYTES = 1 << 20
# Beyond this level gzip takes three times as long for a few per cent.
LEVEL = 5
LOAD_TIMEOUT_S = 3600.0
# An archive names its images in these files; each engine reads one of them.
LISTS = ("manifest.json", "index.json", "repositories")
MOST_LIST_BYTES = 1 << 20
# An image's name on Docker Hub, as containerd writes it.
_HUB = re.compile(r"docker\.io/(library/)?")
# Engines before 25 save a layer of several images as a link; no other link is allowed.
_LAYER, _SHARED = re.compile(r"[0-9a-f]{64}/layer\.tar"), re.compile(r"\.\./[0-9a-f]{64}/layer\.tar")


def platform_name() -> str:
    """Return the engine's platform, e.g. linux/arm64. Raises LabError if it does not answer."""
    asked = call(["docker", "version", "--format", "{{.Server.Os}}/{{.Server.Arch}}"])
    _require(asked.good, asked.reason, "version")
    return asked.stdout.strip()


def write_bundle(file: Path, references: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Save `references` to `file`, entirely or not at all; return its manifest."""
    known = images_of(references)
    if absent := [reference for reference in references if reference not in known]:
        raise MachineError(f"This machine lacks images: {', '.join(absent)}.", "Run ./lab setup first.")
    manifest = {
        "schema": SCHEMA,
        "architecture": platform_name(),
        "images": {reference: known[reference].content for reference in references},
        **facts,
    }
    fresh = file.with_name(f".{file.name}.partial")
    try:
        with gzip.open(fresh, "wb", LEVEL) as packed, Step(f"Saving {len(references)} images", 60) as step:
            packed.write(_member(manifest))
            for piece in _saved(references):
                packed.write(piece)
                step.note(f"{packed.tell() / 1e6:.0f} MB read")
        fresh.replace(file)
    except OSError as error:
        raise MachineError(
            f"The bundle cannot be written to {file}: {error.strerror}.", "Name a place with more room."
        ) from error
    finally:
        fresh.unlink(missing_ok=True)
    return manifest


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits. Raises UsageError if it cannot be read."""
    try:
        with file.open("rb") as stream, Step(f"Reading {file.name}", expected_s=file.stat().st_size / 400e6):
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "./lab bundle FILE makes one.") from None


def load_bundle(file: Path, expected: Collection[str]) -> dict[str, Any]:
    """Check the file to its end, give the images to the engine; return the manifest.

    It may bring the lab's own images and those `expected`, and takes no other image's name.
    """
    manifest = read_bundle(file)
    here = platform_name()
    if manifest["architecture"] != here:
        raise MachineError(
            f"{file} holds images for {manifest['architecture']}; this machine is {here}.",
            "Make the bundle on a machine of this kind.",
        )
    images: Mapping[str, str] = manifest["images"]
    if foreign := sorted(name for name in images if not is_own(name) and name not in expected):
        raise LabError(
            f"{file} holds images that this lab does not use: {', '.join(foreign)}. Nothing was loaded.",
            "Make the bundle from the same .env, and load only what you trust.",
        )
    before, known = tagged(), images_of(images)
    if taken := sorted(name for name, here in known.items() if not is_own(name) and here.content != images[name]):
        raise MachineError(
            f"This machine has another image of the name {', '.join(taken)}. Nothing was loaded.",
            f"If no other project needs it: docker rmi {' '.join(taken)}.",
        )
    with Step(f"Loading {len(images)} images", expected_s=file.stat().st_size / 20e6):
        loaded = call(["docker", "load", "--quiet", "--input", str(file)], timeout_s=LOAD_TIMEOUT_S)
        _require(loaded.good, loaded.reason, "load")
    after = tagged()
    if changed := sorted(name for name, image in after.items() if name not in images and before.get(name) != image):
        for name in changed:
            call(["docker", "tag", before[name], name] if name in before else ["docker", "rmi", name])
        raise LabError(f"{file} also named {', '.join(changed)}: that was undone.", "Do not trust this bundle.")
    known = images_of(images)
    for reference, wanted in images.items():
        if reference not in known or known[reference].content != wanted:
            message = f"{reference} is not the image of the bundle after loading."
            raise MachineError(message, "See `docker images`.")
    return manifest


def read_bundle(file: Path) -> dict[str, Any]:
    """Return the manifest; LabError unless the file is an undamaged bundle of this schema."""
    try:
        with file.open("rb") as packed, gzip.GzipFile(fileobj=packed) as unpacked:
            size = file.stat().st_size
            with Step(f"Checking {file.name}", expected_s=size / 100e6) as step:
                with tarfile.open(fileobj=unpacked, mode="r|") as archive:
                    manifest = _manifest(archive)
                    while (member := archive.next()) is not None:
                        _check(member, archive, manifest["images"])
                        done = packed.tell()
                        step.advance(done, size, f"{done / 1e6:.0f} of {size / 1e6:.0f} MB")
                # gzip compares its checksum at the end of the stream.
                while unpacked.read(PIECE_BYTES):
                    pass
    except FileNotFoundError:
        raise UsageError(f"There is no file {file}.", "./lab bundle FILE makes one.") from None
    except Exception as error:
        # It may come from anybody: there is no end of ways in which it can be wrong.
        raise LabError(
            f"{file} is damaged, or no bundle of this lab ({error}). Nothing was loaded.",
            "Copy it again, or make a new one.",
        ) from error
    if manifest["schema"] != SCHEMA:
        raise UsageError(
            f"{file} is a bundle of schema {manifest['schema']}, this lab reads {SCHEMA}.",
            "Use the same version of the lab on both machines.",
        )
    return manifest


def _manifest(archive: tarfile.TarFile) -> dict[str, Any]:
    """Return the first member as a manifest. Raises ValueError if it is none."""
    first = archive.next()
    named = first is not None and first.name == MANIFEST and first.size <= MOST_LIST_BYTES
    content = archive.extractfile(first) if first is not None and named else None
    manifest = json.load(content) if content is not None else None
    if not isinstance(manifest, dict) or not manifest.keys() >= MANIFEST_KEYS:
        raise ValueError(f"its {MANIFEST} is missing or incomplete")
    # All is read before the engine gets the images.
    if any(not isinstance(manifest.get(name, {}), dict) for name in ("images", "stamps")):
        raise ValueError(f"its {MANIFEST} lists no images or stamps")
    if any(not isinstance(name, str) for name in manifest.get("profiles", [])):
        raise ValueError(f"its {MANIFEST} lists no profiles")
    # These words are printed on a terminal and written into a file of variables.
    if any(not text.isprintable() for text in _texts(manifest)):
        raise ValueError(f"its {MANIFEST} has control characters")
    return manifest


def _texts(value: object) -> Iterator[str]:
    """Yield each text of a JSON document, keys too."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


def _check(member: tarfile.TarInfo, archive: tarfile.TarFile, images: Mapping[str, str]) -> None:
    """Raise ValueError if an engine could find another image in `member` than the manifest names."""
    name = member.name
    link = member.issym() and _LAYER.fullmatch(name) and _SHARED.fullmatch(member.linkname)
    if not (member.isreg() or member.isdir() or link) or name == MANIFEST or {"", ".", ".."} & set(name.split("/")):
        raise ValueError(f"its member {name!r} is none that an engine writes")
    if name not in LISTS:
        return
    content = archive.extractfile(member) if member.isreg() and member.size <= MOST_LIST_BYTES else None
    named = _named(name, json.load(content)) if content is not None else set()
    if named - images.keys() or (name == LISTS[0] and named != set(images)):
        raise ValueError(f"its {name} names other images than its {MANIFEST}")


def _named(name: str, document: Any) -> set[str]:
    """Return the images that a list of an archive names."""
    if name == "manifest.json":
        return {tag for image in document for tag in image["RepoTags"] or ()}
    if name == "repositories":
        return {f"{repository}:{tag}" for repository, tags in document.items() for tag in tags}
    annotations = [entry.get("annotations", {}) for entry in document["manifests"]]
    return {
        _HUB.sub("", one["io.containerd.image.name"], 1) for one in annotations if "io.containerd.image.name" in one
    }


def _member(manifest: Mapping[str, Any]) -> bytes:
    """Return the manifest as the first member of a tar that goes on."""
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    member = tarfile.TarInfo(MANIFEST)
    member.size = len(text)
    return member.tobuf(tarfile.GNU_FORMAT) + text + bytes(-len(text) % tarfile.BLOCKSIZE)


def _saved(references: Sequence[str]) -> Iterator[bytes]:
    """Yield what `docker save` writes; LabError (exit code 3) if it fails."""
    with subprocess.Popen(["docker", "save", *references], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield from iter(partial(process.stdout.read, PIECE_BYTES), b"")
        except BaseException:
            process.kill()
            raise
        reason = process.stderr.read().decode(errors="replace").strip()
    _require(process.returncode == 0, reason, "save")


def _require(good: bool, reason: str, command: str) -> None:
    if not good:
        remedy = "Free disk space: docker system df." if "no space" in reason else "Run ./lab doctor."
        raise MachineError(f"docker {command} failed: {reason}", remedy)
