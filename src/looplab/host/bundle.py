"""./lab bundle and ./lab load: all images in one archive, for a room without a network.

A bundle is a tar of two members: images.tar.gz, what `docker save` gives, and bundle.json, which says what is in
it and holds the checksum of the other. Both can be unpacked by hand.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from looplab import __version__
from looplab.errors import EXIT_GOOD, EXIT_MACHINE, EXIT_USAGE, LabError
from looplab.host.engine import find_engine, require_compose
from looplab.host.images import image_fact
from looplab.host.lab import STAMP, Lab
from looplab.host.machine import read_machine_file, write_machine_file
from looplab.host.scenarios import chosen
from looplab.host.steps import Step, say

SCHEMA = 1
IMAGES, MANIFEST = "images.tar.gz", "bundle.json"
BLOCK_BYTES = 512
PIECE_BYTES = 1 << 20
# Beyond this level gzip takes three times as long for a few per cent.
LEVEL = 5
# What a machine without a registry decided, and the machine that loads must decide alike.
DECISIONS = ("FLOOD_IMAGE", "GRAFANA")


def bundle(root: Path, file: Path, profiles: Sequence[str]) -> int:
    """Write the images of `profiles` (none: of all scenarios) to `file`; returns the exit code."""
    lab = Lab(root)
    scenarios = chosen(root, profiles)
    if file.is_dir() or not file.parent.is_dir():
        raise LabError(f"{file} cannot be written.", "Name a file in a folder that is there.", EXIT_USAGE)
    lab.make_ready()
    references = _references(lab, [scenario.name for scenario in scenarios] or ["*"])
    facts = {
        "lab": __version__,
        "revision": lab.revision(),
        "profiles": [scenario.name for scenario in scenarios] or ["all"],
        "variables": {name: value for name, value in lab.settings().items() if name in DECISIONS},
        "sources": lab._fingerprint(),
    }
    manifest = write_bundle(file, references, facts)
    size_mb = file.stat().st_size / 1e6
    say(f"{file}: {len(manifest['images'])} images, {size_mb:.0f} MB. On the other machine: ./lab load {file.name}")
    return EXIT_GOOD


def load(root: Path, file: Path) -> int:
    """Load a bundle that is whole and of this kind of machine; returns the exit code."""
    require_compose(find_engine())
    manifest = load_bundle(file)
    lab = Lab(root)
    _settle(root, lab, manifest)
    missing = [name for name in lab.own_images().values() if image_fact(name) is None]
    if missing:
        say(f"This checkout also wants {', '.join(missing)}: the bundle is of lab {manifest['lab']}.")
    say(f"{len(manifest['images'])} images are here. No network is needed from now on: ./lab run scenario5")
    return EXIT_GOOD


def write_bundle(file: Path, references: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Save `references` to `file`, whole or not at all; returns its manifest."""
    known = {reference: image_fact(reference) for reference in references}
    absent = [reference for reference, fact in known.items() if fact is None]
    if absent:
        raise LabError(f"These images are not here: {', '.join(absent)}.", "Run ./lab setup first.", EXIT_MACHINE)
    manifest = {
        "schema": SCHEMA,
        "made": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "architecture": platform.machine(),
        "images": {reference: fact.id for reference, fact in known.items() if fact is not None},
        **facts,
    }
    partial = file.with_name(f".{file.name}.partial")
    try:
        with partial.open("wb") as out:
            manifest["archive"] = _save(out, references)
            _add_manifest(out, manifest)
        partial.replace(file)
    except OSError as error:
        raise LabError(
            f"The bundle cannot be written to {file}: {error.strerror}.", "Name a place with more room.", EXIT_MACHINE
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return manifest


def load_bundle(file: Path) -> dict[str, Any]:
    """Hand a bundle's images to the engine once its checksum was found right; returns its manifest."""
    manifest, offset, size = read_bundle(file)
    if manifest["architecture"] != platform.machine():
        raise LabError(
            f"{file} holds images for {manifest['architecture']}; this machine is {platform.machine()}.",
            "Make the bundle on a machine of this kind.",
            EXIT_MACHINE,
        )
    _verify(file, offset, manifest["archive"])
    with Step(f"Loading {len(manifest['images'])} images", expected_s=size / 20e6) as step:
        _hand_to_engine(file, offset, size, lambda done: step.advance(done, size, _megabytes(done, size)))
    for reference, wanted in manifest["images"].items():
        fact = image_fact(reference)
        if fact is None or fact.id != wanted:
            raise LabError(
                f"{reference} is not what the bundle says after loading.", "Look at `docker images`.", EXIT_MACHINE
            )
    return manifest


def read_bundle(file: Path) -> tuple[dict[str, Any], int, int]:
    """(manifest, where the images begin, how many bytes they are); LabError where it is no whole bundle."""
    try:
        with tarfile.open(file, "r:") as archive:
            members = {member.name: member for member in archive.getmembers()}
            images, described = members[IMAGES], archive.extractfile(members[MANIFEST])
            assert described is not None
            manifest = json.load(described)
            needed = {"schema", "architecture", "images", "archive", "lab"}
            if not isinstance(manifest, dict) or not needed <= manifest.keys():
                raise ValueError("its manifest is incomplete")
    except FileNotFoundError:
        raise LabError(f"There is no file {file}.", "./lab bundle FILE makes one.", EXIT_USAGE) from None
    except (tarfile.TarError, KeyError, ValueError, OSError, EOFError) as error:
        raise LabError(
            f"{file} is no whole bundle of this lab ({error}).", "Copy it again, or make it anew."
        ) from error
    if manifest["schema"] != SCHEMA:
        raise LabError(
            f"{file} is a bundle of schema {manifest['schema']}, this lab reads {SCHEMA}.",
            "Use the same version of the lab on both machines.",
            EXIT_USAGE,
        )
    return manifest, images.offset_data, images.size


def _references(lab: Lab, profiles: Sequence[str]) -> list[str]:
    """What those profiles run; all of our own in any case, for a lab without one of them would want to build."""
    found = set(lab.own_images().values())
    compose = lab.compose()
    for profile in profiles:
        found |= {str(service["image"]) for service in compose.config(profile)["services"].values()}
    return sorted(found)


def _save(out: IO[bytes], references: Sequence[str]) -> dict[str, Any]:
    """docker save through gzip as the first member; its header is written when its size is known."""
    out.write(bytes(BLOCK_BYTES))
    counted = _Counted(out)
    with (
        Step(f"Saving {len(references)} images", expected_s=60) as step,
        subprocess.Popen(["docker", "save", *references], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with gzip.GzipFile(fileobj=counted, mode="wb", compresslevel=LEVEL, mtime=0) as packed:
                for piece in iter(lambda: process.stdout.read(PIECE_BYTES), b""):  # type: ignore[union-attr]
                    packed.write(piece)
                    step.advance(0, 1, f"{counted.bytes / 1e6:.0f} MB written")
        except BaseException:
            process.kill()
            raise
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise LabError(f"docker save failed: {said}", "Run ./lab doctor.", EXIT_MACHINE)
    out.write(bytes(-counted.bytes % BLOCK_BYTES))
    end = out.tell()
    out.seek(0)
    out.write(_header(IMAGES, counted.bytes))
    out.seek(end)
    return {"name": IMAGES, "bytes": counted.bytes, "sha256": counted.digest.hexdigest()}


def _add_manifest(out: IO[bytes], manifest: Mapping[str, Any]) -> None:
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    out.write(_header(MANIFEST, len(text)) + text + bytes(-len(text) % BLOCK_BYTES) + bytes(2 * BLOCK_BYTES))


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


def _verify(file: Path, offset: int, archive: Mapping[str, Any]) -> None:
    digest = hashlib.sha256()
    size = int(archive["bytes"])
    with Step(f"Checking {file.name}", expected_s=size / 300e6) as step:
        for done, piece in _pieces(file, offset, size):
            digest.update(piece)
            step.advance(done, size, _megabytes(done, size))
        if digest.hexdigest() != archive["sha256"]:
            step.finish_as("damaged")
    if digest.hexdigest() != archive["sha256"]:
        raise LabError(
            f"{file} is damaged: its checksum is not the one it was made with. Nothing was loaded.", "Copy it again."
        )


def _hand_to_engine(file: Path, offset: int, size: int, on_bytes: Callable[[int], None]) -> None:
    with subprocess.Popen(
        ["docker", "load", "--quiet"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            for done, piece in _pieces(file, offset, size):
                process.stdin.write(piece)
                on_bytes(done)
            process.stdin.close()
        except BrokenPipeError:
            # The engine gave up; it says why below.
            pass
        except BaseException:
            process.kill()
            raise
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        remedy = "Free disk space: docker system df." if "no space" in said else "Run ./lab doctor."
        raise LabError(f"docker load failed: {said}", remedy, EXIT_MACHINE)


def _pieces(file: Path, offset: int, size: int) -> Iterator[tuple[int, bytes]]:
    """(bytes so far, piece) of a member."""
    done = 0
    with file.open("rb") as source:
        source.seek(offset)
        while done < size and (piece := source.read(min(PIECE_BYTES, size - done))):
            done += len(piece)
            yield done, piece


def _settle(root: Path, lab: Lab, manifest: Mapping[str, Any]) -> None:
    """What the other machine decided holds here, too; images of these very sources are not built again."""
    decided = {name: str(value) for name, value in manifest.get("variables", {}).items() if name in DECISIONS}
    write_machine_file(root, {**read_machine_file(root), **decided})
    if manifest.get("sources") == lab._fingerprint():
        stamp = root / STAMP
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(str(manifest["sources"]))


def _megabytes(done: int, size: int) -> str:
    return f"{done / 1e6:.0f} of {size / 1e6:.0f} MB"


class _Counted:
    """A file that counts and digests what is written to it."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self.bytes = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.bytes += len(data)
        self.digest.update(data)
        return self._out.write(data)

    def flush(self) -> None:
        self._out.flush()
