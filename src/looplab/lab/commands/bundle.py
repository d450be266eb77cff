"""./lab bundle and ./lab load: all images and Python packages in one archive, for a room without a network.

A bundle is a tar: images.tar.gz is what `docker save` gives, wheels/ holds the packages that report and check need,
bundle.json says what is in it and holds the checksums of the others. All can be unpacked by hand.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from looplab import __version__
from looplab.errors import EXIT_GOOD, EXIT_MACHINE, EXIT_USAGE, LabError
from looplab.lab.checkout import UPSTREAM, Lab
from looplab.lab.docker.engine import find_engine, require_compose
from looplab.lab.docker.image_names import TAG, is_pinned, release_tag, without_digest
from looplab.lab.docker.images import image_fact
from looplab.lab.docker.own_images import STAMP
from looplab.lab.programs import call
from looplab.lab.scenarios import chosen
from looplab.lab.settings import read_machine_file, write_machine_file
from looplab.lab.virtual_environment import REPORT, ensure_environment, requirements, wheels_place
from looplab.lab.wheels import fetch_wheels, this_python
from looplab.system.terminal import Step, say

SCHEMA = 1
IMAGES, MANIFEST, WHEELS = "images.tar.gz", "bundle.json", "wheels/"
BLOCK_BYTES = 512
PIECE_BYTES = 1 << 20
# Beyond this level gzip takes three times as long for a few per cent.
LEVEL = 5
# What a machine without a registry decided, and the machine that loads must decide alike.
DECISIONS = (*UPSTREAM, "GRAFANA", TAG)


def bundle(root: Path, file: Path, profiles: Sequence[str], pythons: Sequence[str]) -> int:
    """Write the images of `profiles` (none: of all scenarios) and the packages for `pythons` to `file`."""
    lab = Lab(root)
    scenarios = chosen(root, profiles)
    if file.is_dir() or not file.parent.is_dir():
        raise LabError(f"{file} cannot be written.", "Name a file in a folder that is there.", EXIT_USAGE)
    lab.make_ready()
    references = _tagged(_references(lab, [scenario.name for scenario in scenarios] or ["*"]))
    facts = {
        "lab": __version__,
        "revision": lab.revision(),
        "profiles": [scenario.name for scenario in scenarios] or ["all"],
        "variables": _decided(lab.settings()),
        "sources": lab.sources(),
    }
    with tempfile.TemporaryDirectory(prefix="looplab-wheels-") as place:
        facts["wheels"] = _wheels(Path(place), pythons)
        manifest = write_bundle(file, references, facts, Path(place))
    size_mb = file.stat().st_size / 1e6
    packages = (
        f"packages for Python {', '.join(fitting)}" if (fitting := manifest["wheels"]["pythons"]) else "no packages"
    )
    say(f"{file}: {len(manifest['images'])} images, {packages}, {size_mb:.0f} MB.")
    say(f"On the other machine: ./lab load {file.name}")
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
    example = next((name for name in manifest.get("profiles", []) if name != "all"), "scenario5")
    say(f"{len(manifest['images'])} images are here. No network is needed from now on: ./lab run {example}")
    _install_wheels(manifest)
    return EXIT_GOOD


def write_bundle(file: Path, references: Sequence[str], facts: Mapping[str, Any], wheels: Path) -> dict[str, Any]:
    """Save `references` and the files of `wheels` to `file`, whole or not at all; returns its manifest."""
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
            manifest["files"] = {WHEELS + path.name: _add_file(out, path) for path in sorted(wheels.glob("*.whl"))}
            text = (json.dumps(manifest, indent=1) + "\n").encode()
            _add(out, MANIFEST, len(text), io.BytesIO(text))
            out.write(bytes(2 * BLOCK_BYTES))
        partial.replace(file)
    except OSError as error:
        raise LabError(
            f"The bundle cannot be written to {file}: {error.strerror}.", "Name a place with more room.", EXIT_MACHINE
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return manifest


def load_bundle(file: Path) -> dict[str, Any]:
    """Hand a bundle's images to the engine and its packages to .cache, once all checksums were found right.

    Returns its manifest.
    """
    manifest, members = read_bundle(file)
    offset, size = members[IMAGES]
    if manifest["architecture"] != platform.machine():
        raise LabError(
            f"{file} holds images for {manifest['architecture']}; this machine is {platform.machine()}.",
            "Make the bundle on a machine of this kind.",
            EXIT_MACHINE,
        )
    _verify(file, {IMAGES: manifest["archive"], **manifest.get("files", {})}, members)
    with Step(f"Loading {len(manifest['images'])} images", expected_s=size / 20e6) as step:
        _hand_to_engine(file, offset, size, lambda done: step.advance(done, size, _megabytes(done, size)))
    for reference, wanted in manifest["images"].items():
        fact = image_fact(reference)
        if fact is None or fact.id != wanted:
            raise LabError(
                f"{reference} is not what the bundle says after loading.", "Look at `docker images`.", EXIT_MACHINE
            )
    _unpack_wheels(file, manifest.get("files", {}), members)
    return manifest


def read_bundle(file: Path) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """Its manifest, and where each member begins and how many bytes it has; LabError where it is no whole bundle."""
    try:
        with tarfile.open(file, "r:") as archive:
            found = {member.name: member for member in archive.getmembers()}
            described = archive.extractfile(found[MANIFEST])
            assert described is not None
            manifest = json.load(described)
            members = {name: (member.offset_data, member.size) for name, member in found.items()}
            absent = {IMAGES, *manifest.get("files", {})} - members.keys()
            if absent:
                raise ValueError(f"it lacks {', '.join(sorted(absent))}")
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
    return manifest, members


def _references(lab: Lab, profiles: Sequence[str]) -> list[str]:
    """What those profiles run; all of our own in any case, for a lab without one of them would want to build."""
    found = set(lab.own_images().values())
    compose = lab.compose()
    for profile in profiles:
        # A service that is only built has no reference to save it under: own_images knows those.
        found |= {
            str(service["image"]) for service in compose.config(profile)["services"].values() if "image" in service
        }
    return sorted(found)


def _tagged(references: Sequence[str]) -> list[str]:
    """The names to save them under: an engine saves what is pinned by digest without any name."""
    for pinned in filter(is_pinned, references):
        tagged = call(["docker", "tag", pinned, without_digest(pinned)])
        if not tagged.good:
            raise LabError(f"{pinned} cannot be saved: {tagged.said}", "Run ./lab setup first.", EXIT_MACHINE)
    return sorted({without_digest(reference) for reference in references})


def _decided(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables for the other machine: images that were replaced here, and what is pinned, by tag."""
    chosen_here = {name: settings[name] for name in ("GRAFANA", "FLOOD_IMAGE") if name in settings}
    pinned = {name: settings[name] for name in UPSTREAM if is_pinned(settings.get(name, ""))}
    release = {} if settings.get(TAG) else {TAG: release_tag(settings)}
    found = {**chosen_here, **pinned, **release}
    return {name: without_digest(value) for name, value in found.items() if value}


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


def _add_file(out: IO[bytes], path: Path) -> dict[str, Any]:
    """One file as a member; returns how many bytes it has and their checksum."""
    with path.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256")
        source.seek(0)
        _add(out, WHEELS + path.name, path.stat().st_size, source)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _add(out: IO[bytes], name: str, size: int, source: IO[bytes]) -> None:
    out.write(_header(name, size))
    shutil.copyfileobj(source, out, PIECE_BYTES)
    out.write(bytes(-size % BLOCK_BYTES))


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


def _verify(file: Path, checksums: Mapping[str, Mapping[str, Any]], members: Mapping[str, tuple[int, int]]) -> None:
    """LabError where one member is not what it was when the bundle was made."""
    whole = sum(members[name][1] for name in checksums)
    before, damaged = 0, ""
    with Step(f"Checking {file.name}", expected_s=whole / 300e6) as step:
        for name, checksum in checksums.items():
            digest = hashlib.sha256()
            for done, piece in _pieces(file, *members[name]):
                digest.update(piece)
                step.advance(before + done, whole, _megabytes(before + done, whole))
            before += members[name][1]
            if (members[name][1], digest.hexdigest()) != (checksum["bytes"], checksum["sha256"]):
                damaged = name
                step.finish_as("damaged")
                break
    if damaged:
        raise LabError(
            f"{file} is damaged: the checksum of its {damaged} is not the one it was made with. Nothing was loaded.",
            "Copy it again.",
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


def _unpack_wheels(file: Path, names: Iterable[str], members: Mapping[str, tuple[int, int]]) -> None:
    """Into .cache, where the launcher looks before it asks a package index; those of an earlier bundle go."""
    place = wheels_place()
    shutil.rmtree(place, ignore_errors=True)
    for name in names:
        place.mkdir(parents=True, exist_ok=True)
        # The base name alone: nothing in a bundle may name a place outside.
        with (place / Path(name).name).open("wb") as out:
            out.writelines(piece for _, piece in _pieces(file, *members[name]))


def _wheels(place: Path, pythons: Sequence[str]) -> dict[str, Any]:
    """Fetch what a room needs for report and check; says so where it cannot be had, the images go without."""
    wanted = requirements(REPORT)
    missed = fetch_wheels(place, wanted, pythons)
    for version, why in missed.items():
        say(f"The packages for Python {version} cannot be had ({why}): they are not in the bundle.")
        say("  ./lab run works without; ./lab report and ./lab check need them, or a machine with a network.")
    return {"pythons": [version for version in pythons if version not in missed], "requirements": wanted}


def _install_wheels(manifest: Mapping[str, Any]) -> None:
    """At once, so that what is missing shows now and not in the lesson."""
    told: Mapping[str, Any] = manifest.get("wheels", {})
    fitting = [str(version) for version in told.get("pythons", [])]
    if told.get("requirements", []) != requirements(REPORT) and fitting:
        say("This checkout wants other versions of the packages than the bundle holds: use the same state of the lab.")
    trouble = ensure_environment(REPORT)
    if not trouble:
        say("./lab report and ./lab check are ready, too.")
        return
    say(f"./lab run will work; ./lab report and ./lab check will not: {trouble}.")
    if this_python() not in fitting:
        held = f"only has packages for Python {', '.join(fitting)}" if fitting else "has no Python packages"
        say(f"  The bundle {held}; here is {this_python()}. Make it with ./lab bundle FILE --pythons {this_python()}.")


def _settle(root: Path, lab: Lab, manifest: Mapping[str, Any]) -> None:
    """What the other machine decided holds here, too; images of these very sources are not built again."""
    decided = {name: str(value) for name, value in manifest.get("variables", {}).items() if name in DECISIONS}
    write_machine_file(root, {**read_machine_file(root), **decided})
    if manifest.get("sources") == lab.sources():
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
