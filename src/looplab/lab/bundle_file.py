"""A bundle's file: one gzip stream, written entirely or not at all, checked before it is used.

It is what `docker save` writes, and `docker load` takes it; in front of the images is the manifest, bundle.json.
"""

import gzip
import json
import subprocess
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from looplab.errors import LabError, MachineError, UsageError
from looplab.lab.docker.images import local_images
from looplab.lab.programs import call
from looplab.system.terminal import Step

SCHEMA = 2
MANIFEST = "bundle.json"
MANIFEST_KEYS = {"schema", "architecture", "images", "lab"}
PIECE_BYTES = 1 << 20
# Beyond this level gzip takes three times as long for a few per cent.
LEVEL = 5
LOAD_TIMEOUT_S = 3600.0


def platform_name() -> str:
    """Return the engine's platform, e.g. linux/arm64. Raises LabError if it does not answer."""
    asked = call(["docker", "version", "--format", "{{.Server.Os}}/{{.Server.Arch}}"])
    _require(asked.good, asked.reason, "version")
    return asked.stdout.strip()


def write_bundle(file: Path, references: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Save `references` to `file`, entirely or not at all; return its manifest."""
    known = local_images(references)
    if absent := [reference for reference in references if reference not in known]:
        raise MachineError(f"This machine lacks images: {', '.join(absent)}.", "Run ./lab setup first.")
    manifest = {
        "schema": SCHEMA,
        "made": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "architecture": platform_name(),
        "images": {reference: known[reference] for reference in references},
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


def load_bundle(file: Path) -> dict[str, Any]:
    """Check the file to its end, give the images to the engine; return the manifest."""
    manifest = read_bundle(file)
    here = platform_name()
    if manifest["architecture"] != here:
        raise MachineError(
            f"{file} holds images for {manifest['architecture']}; this machine is {here}.",
            "Make the bundle on a machine of this kind.",
        )
    images: Mapping[str, str] = manifest["images"]
    with Step(f"Loading {len(images)} images", expected_s=file.stat().st_size / 20e6):
        loaded = call(["docker", "load", "--quiet", "--input", str(file)], timeout_s=LOAD_TIMEOUT_S)
        _require(loaded.good, loaded.reason, "load")
    ids = local_images(images)
    for reference, wanted in images.items():
        if ids.get(reference) != wanted:
            message = f"{reference} is not the image of the bundle after loading."
            raise MachineError(message, "See `docker images`.")
    return manifest


def read_bundle(file: Path) -> dict[str, Any]:
    """Return the manifest; LabError unless the file is an undamaged bundle of this schema."""
    try:
        with file.open("rb") as packed, gzip.GzipFile(fileobj=packed) as unpacked:
            with tarfile.open(fileobj=unpacked, mode="r|") as archive:
                manifest = _manifest(archive)
            size = file.stat().st_size
            # gzip compares its checksum at the end of the stream.
            with Step(f"Checking {file.name}", expected_s=size / 100e6) as step:
                while unpacked.read(PIECE_BYTES):
                    done = packed.tell()
                    step.advance(done, size, f"{done / 1e6:.0f} of {size / 1e6:.0f} MB")
    except FileNotFoundError:
        raise UsageError(f"There is no file {file}.", "./lab bundle FILE makes one.") from None
    except (tarfile.TarError, ValueError, OSError, EOFError, zlib.error) as error:
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
    content = archive.extractfile(first) if first is not None and first.name == MANIFEST else None
    manifest = json.load(content) if content is not None else None
    if not isinstance(manifest, dict) or not manifest.keys() >= MANIFEST_KEYS:
        raise ValueError(f"its {MANIFEST} is missing or incomplete")
    return manifest


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
