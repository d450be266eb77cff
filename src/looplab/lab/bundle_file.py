"""A bundle's file: images in one archive, written whole or not at all, checked before it is used.

It is a tar, which can be unpacked by hand: images.tar.gz is the output of `docker save`, bundle.json, the manifest,
describes it and holds its checksum.
"""

import contextlib
import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from looplab.errors import LabError, MachineError, UsageError
from looplab.lab.docker.images import local_images
from looplab.system.terminal import Step

SCHEMA = 1
IMAGES, MANIFEST = "images.tar.gz", "bundle.json"
MANIFEST_KEYS = {"schema", "architecture", "images", "archive", "lab"}
PIECE_BYTES = 1 << 20
# Beyond this level gzip takes three times as long for a few per cent.
LEVEL = 5


# From the kernel's name of a processor to Docker's.
PLATFORMS = {"x86_64": "linux/amd64", "amd64": "linux/amd64", "aarch64": "linux/arm64", "arm64": "linux/arm64"}


def platform_name(machine: str = "") -> str:
    """Return Docker's name of a platform, e.g. linux/arm64 for aarch64; without `machine`, that of this machine.

    Another name stays what it is: a bundle of an earlier lab is compared as well.
    """
    machine = machine or platform.machine()
    return PLATFORMS.get(machine.lower(), machine)


def write_bundle(file: Path, references: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Save `references` to `file`, whole or not at all; return its manifest."""
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
    partial = file.with_name(f".{file.name}.partial")
    try:
        with partial.open("w+b") as out:
            manifest["archive"] = _save(out, references)
            # Behind the first member, which is written by hand: its size is known only at its end.
            with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
                text = (json.dumps(manifest, indent=1) + "\n").encode()
                archive.addfile(_member(MANIFEST, len(text)), io.BytesIO(text))
        partial.replace(file)
    except OSError as error:
        raise MachineError(
            f"The bundle cannot be written to {file}: {error.strerror}.", "Name a place with more room."
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return manifest


def load_bundle(file: Path) -> dict[str, Any]:
    """Check the checksum, give the images to the engine; return the manifest."""
    manifest = read_bundle(file)
    held = platform_name(manifest["architecture"])
    if held != platform_name():
        raise MachineError(
            f"{file} holds images for {held}; this machine is {platform_name()}.",
            "Make the bundle on a machine of this kind.",
        )
    with tarfile.open(file, "r:") as archive:
        _verify(archive, file.name, manifest["archive"])
        _give_to_engine(archive, manifest)
    return manifest


def read_bundle(file: Path) -> dict[str, Any]:
    """Return the manifest; LabError unless the file is a whole bundle of this schema."""
    try:
        with tarfile.open(file, "r:") as archive:
            names = set(archive.getnames())
            manifest = json.load(_open(archive, MANIFEST))
        if not isinstance(manifest, dict) or not manifest.keys() >= MANIFEST_KEYS:
            raise ValueError("its manifest is incomplete")
        if IMAGES not in names:
            raise ValueError(f"it has no {IMAGES}")
    except FileNotFoundError:
        raise UsageError(f"There is no file {file}.", "./lab bundle FILE makes one.") from None
    except (tarfile.TarError, KeyError, ValueError, OSError, EOFError) as error:
        raise LabError(
            f"{file} is not a whole bundle of this lab ({error}).", "Copy it again, or make a new one."
        ) from error
    if manifest["schema"] != SCHEMA:
        raise UsageError(
            f"{file} is a bundle of schema {manifest['schema']}, this lab reads {SCHEMA}.",
            "Use the same version of the lab on both machines.",
        )
    return manifest


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


@contextlib.contextmanager
def _docker(*words: str, feed: bool = False) -> Iterator[IO[bytes]]:
    """Yield what a command of the engine reads (`feed`) or writes; LabError (exit code 3) if it fails."""
    given, taken = (subprocess.PIPE, subprocess.DEVNULL) if feed else (None, subprocess.PIPE)
    with subprocess.Popen(["docker", *words], stdin=given, stdout=taken, stderr=subprocess.PIPE) as process:
        stream = process.stdin if feed else process.stdout
        assert stream is not None
        assert process.stderr is not None
        try:
            # If the engine gives up, its reason follows.
            with contextlib.suppress(BrokenPipeError), stream:
                yield stream
        except BaseException:
            process.kill()
            raise
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        remedy = "Free disk space: docker system df." if "no space" in said else "Run ./lab doctor."
        raise MachineError(f"docker {words[0]} failed: {said}", remedy)


def _save(out: io.BufferedRandom, references: Sequence[str]) -> dict[str, Any]:
    """Write `docker save` through gzip as the first member; return its size and checksum."""
    out.write(bytes(tarfile.BLOCKSIZE))
    with (
        Step(f"Saving {len(references)} images", expected_s=60) as step,
        _docker("save", *references) as images,
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=LEVEL, mtime=0) as packed,
    ):
        while piece := images.read(PIECE_BYTES):
            packed.write(piece)
            step.note(f"{out.tell() / 1e6:.0f} MB written")
    size = out.tell() - tarfile.BLOCKSIZE
    out.seek(tarfile.BLOCKSIZE)
    digest = hashlib.file_digest(out, "sha256").hexdigest()
    out.write(bytes(-size % tarfile.BLOCKSIZE))
    out.seek(0)
    out.write(_member(IMAGES, size).tobuf(tarfile.GNU_FORMAT))
    out.seek(0, io.SEEK_END)
    return {"name": IMAGES, "bytes": size, "sha256": digest}


def _open(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    content = archive.extractfile(name)
    if content is None:
        raise ValueError(f"its {name} is not a file")
    return content


def _pieces(archive: tarfile.TarFile, name: str) -> Iterator[bytes]:
    with _open(archive, name) as content:
        while piece := content.read(PIECE_BYTES):
            yield piece


def _verify(archive: tarfile.TarFile, file: str, wanted: Mapping[str, Any]) -> None:
    """Raise LabError if the images are not what they were when the bundle was made."""
    size = archive.getmember(IMAGES).size
    digest, done = hashlib.sha256(), 0
    with Step(f"Checking {file}", expected_s=size / 300e6) as step:
        for piece in _pieces(archive, IMAGES):
            digest.update(piece)
            done += len(piece)
            step.advance(done, size, _megabytes(done, size))
        if (size, digest.hexdigest()) != (wanted["bytes"], wanted["sha256"]):
            raise LabError(
                f"{file} is damaged: its {IMAGES} does not have the checksum it was made with. Nothing was loaded.",
                "Copy it again.",
            )


def _give_to_engine(archive: tarfile.TarFile, manifest: Mapping[str, Any]) -> None:
    """Load the images; LabError (exit code 3) unless the engine then has the ones of the manifest."""
    images: Mapping[str, str] = manifest["images"]
    done, size = 0, archive.getmember(IMAGES).size
    with (
        Step(f"Loading {len(images)} images", expected_s=size / 20e6) as step,
        _docker("load", "--quiet", feed=True) as engine,
    ):
        for piece in _pieces(archive, IMAGES):
            engine.write(piece)
            done += len(piece)
            step.advance(done, size, _megabytes(done, size))
    here = local_images(images)
    for reference, wanted in images.items():
        if reference not in here or here[reference] != wanted:
            message = f"{reference} is not the image of the bundle after loading."
            raise MachineError(message, "See `docker images`.")


def _megabytes(done: int, size: int) -> str:
    return f"{done / 1e6:.0f} of {size / 1e6:.0f} MB"
