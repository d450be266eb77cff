"""./lab bundle and ./lab load: all images and Python packages in one archive, for a room without a network."""

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from looplab import __version__
from looplab.errors import EXIT_GOOD, MachineError, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.bundle_file import load_bundle, platform_name, write_bundle
from looplab.lab.checkout import UPSTREAM, Lab
from looplab.lab.class_archives import write_archives
from looplab.lab.docker.engine import find_engine, require_compose
from looplab.lab.docker.images import local_images
from looplab.lab.docker.own_images import OwnImages
from looplab.lab.image_names import is_pinned, without_digest
from looplab.lab.programs import call, follow
from looplab.lab.scenarios import chosen
from looplab.lab.settings import read_machine_file, write_machine_file
from looplab.lab.virtual_environment import (
    OLDEST_PYTHON,
    PIP_OPTIONS,
    REPORT,
    WHEELS,
    ensure_environment,
    python_with_pip,
    requirements,
)
from looplab.system.terminal import Step, say

FETCH_TIMEOUT_S = 900.0
# What a machine without a registry decided, and the machine that loads must decide alike.
DECISIONS = (*UPSTREAM, "GRAFANA")
# From a system to the form of pip's platform tags and the oldest and newest versions that wheels are made for.
SYSTEMS = {
    "linux": ("manylinux{tag}_{arch}", ("_2_28", "_2_27", "_2_24", "_2_17", "2014")),
    "macos": ("macosx_{tag}_{arch}", ("14_0",)),
}
ARCHITECTURES = {
    "linux": {"linux/amd64": "x86_64", "linux/arm64": "aarch64"},
    "macos": {"linux/amd64": "x86_64", "linux/arm64": "arm64"},
}
THIS_SYSTEM = "macos" if sys.platform == "darwin" else "linux"
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_PIP_PROGRESS = re.compile(r"^(?:Collecting|Downloading|Saved) (\S+)")


def bundle(
    root: Path,
    file: Path,
    scenarios: Sequence[str],
    pythons: str | None = None,
    systems: str | None = None,
    *,
    students: bool = False,
) -> int:
    """Write the images of `scenarios` (none: of all) and the packages for `pythons` on `systems` to `file`.

    For a class (`students`), write two archives of this checkout beside it: one without answers and marking.
    """
    versions, names = read_pythons(pythons), read_systems(systems)
    named = chosen(root, scenarios)
    lab = Lab(root, wanted=[scenario.experiment for scenario in named] or EXPERIMENTS.values())
    profiles = [scenario.name for scenario in named]
    if file.is_dir() or not file.parent.is_dir():
        raise UsageError(f"{file} cannot be written.", "Name a file in a folder that exists.")
    lab.make_ready()
    facts = {
        "lab": __version__,
        "revision": lab.revision(),
        "profiles": profiles or ["all"],
        "variables": decisions(lab.settings()),
        "sources": OwnImages(root, {}).fingerprint(),
    }
    references = tag_pinned(_references(lab, profiles or lab.profiles()))
    with tempfile.TemporaryDirectory(prefix="looplab-wheels-") as place:
        missed = fetch_wheels(Path(place), requirements(REPORT), versions, names)
        for target, why in missed.items():
            say(f"The packages for {target} are not available ({why}): they are not in the bundle.")
            say("  ./lab run works without; ./lab report and ./lab check need them, or a machine with a network.")
        held = [target for target in targets(versions, names) if target not in missed]
        facts["wheels"] = {"targets": held, "requirements": requirements(REPORT)}
        manifest = write_bundle(file, references, facts, Path(place))
    packages = f"packages for {', '.join(held)}" if held else "no packages"
    say(f"{file}: {len(manifest['images'])} images, {packages}, {file.stat().st_size / 1e6:.0f} MB.")
    say(f"Images for {manifest['architecture']}. On the other machine: ./lab load {file.name}")
    if students:
        for_students, for_teachers = write_archives(root, file)
        say(f"{for_students}: this checkout without answers and marking. {for_teachers}: only those.")
    return EXIT_GOOD


def load(root: Path, file: Path) -> int:
    """Load a bundle that is whole and of this kind of machine; return the exit code."""
    require_compose(find_engine())
    manifest = load_bundle(file, WHEELS)
    decided = {name: str(value) for name, value in manifest.get("variables", {}).items() if name in DECISIONS}
    write_machine_file(root, {**read_machine_file(root), **decided})
    every = Lab(root, wanted=EXPERIMENTS.values()).own_images()
    here = local_images(every.values())
    own = OwnImages(root, {name: reference for name, reference in every.items() if reference in here})
    if manifest.get("sources") == own.fingerprint():
        # Images of these very sources are not built again.
        own.write_stamp()
    wanted = Lab(root).own_images()
    if missing := [name for name in wanted.values() if name not in here]:
        say(f"This checkout also needs {', '.join(missing)}: the bundle is of lab {manifest['lab']}.")
    example = next((name for name in manifest.get("profiles", []) if name != "all"), "scenario5")
    say(f"{len(manifest['images'])} images are here. No network is needed from now on: ./lab run {example}")
    _install_wheels(manifest.get("wheels", {}))
    return EXIT_GOOD


def tag_pinned(references: Sequence[str]) -> list[str]:
    """Return the names to save images under; a pinned one gets a tag, for an engine would save it without a name."""
    for pinned in filter(is_pinned, references):
        tagged = call(["docker", "tag", pinned, without_digest(pinned)])
        if not tagged.good:
            raise MachineError(f"{pinned} cannot be saved: {tagged.said}", "Run ./lab setup first.")
    return sorted({without_digest(reference) for reference in references})


def decisions(settings: Mapping[str, str]) -> dict[str, str]:
    """Return variables for the other machine: images that were replaced here, and what is pinned, by tag."""
    replaced = {name: settings[name] for name in ("GRAFANA", "FLOOD_IMAGE") if name in settings}
    pinned = {name: settings[name] for name in UPSTREAM if is_pinned(settings.get(name, ""))}
    return {name: without_digest(value) for name, value in {**replaced, **pinned}.items() if value}


def read_pythons(text: str | None) -> list[str]:
    """Return "3.11,3.12" as a list, without text this Python's version; LabError (exit code 2) for anything else."""
    if text is None:
        return [THIS_PYTHON]
    versions = [word.strip() for word in text.split(",")]
    for version in versions:
        found = re.fullmatch(r"(\d+)\.(\d+)", version)
        if found is None or (int(found[1]), int(found[2])) < OLDEST_PYTHON:
            message = f"{version!r} is not a Python version that the lab runs on."
            raise UsageError(message, "Write e.g. --pythons 3.11,3.13")
    return list(dict.fromkeys(versions))


def read_systems(text: str | None) -> list[str]:
    """Return "linux,macos" as a list, without text this system; LabError (exit code 2) for one the lab lacks."""
    names = [word.strip() for word in text.split(",")] if text is not None else [THIS_SYSTEM]
    if unknown := [name for name in names if name not in SYSTEMS]:
        message = f"{unknown[0]!r} is not a system that ./lab runs on."
        raise UsageError(message, f"Write e.g. --systems {','.join(SYSTEMS)}; Windows runs it in WSL: linux.")
    return list(dict.fromkeys(names))


def targets(pythons: Sequence[str], systems: Sequence[str]) -> list[str]:
    """Return what wheels are made for, e.g. "Python 3.11 on macos"."""
    return [f"Python {version} on {system}" for version in pythons for system in systems]


def fetch_wheels(
    place: Path, wanted: Sequence[str], pythons: Sequence[str], systems: Sequence[str] = ()
) -> dict[str, str]:
    """Put the wheels of `wanted` and all they need into `place`; return why, for each target that has none."""
    options = [option for option in PIP_OPTIONS if option != "--quiet"]
    options += ["--progress-bar=off", "--only-binary=:all:", f"--dest={place}"]
    missed = {}
    for version, system in product(pythons, systems or [THIS_SYSTEM]):
        [target] = targets([version], [system])
        tags = [f"--platform={tag}" for tag in platform_tags(system, platform_name())]
        command = [python_with_pip(), "-m", "pip", "download", *options, f"--python-version={version}", *tags, *wanted]
        with Step(f"Getting the Python packages of report and check for {target}", expected_s=30) as step:

            def show(line: str, step: Step = step) -> None:
                if found := _PIP_PROGRESS.match(line.strip()):
                    step.note(found[1])

            done = follow(command, show, timeout_s=FETCH_TIMEOUT_S)
            if not done.good:
                missed[target] = done.said
                step.finish_as(f"not available: {done.said}")
    return missed


def platform_tags(system: str, docker_platform: str) -> list[str]:
    """Return pip's platform tags of wheels that run on that system, the newest first."""
    form, tags = SYSTEMS[system]
    return [form.format(tag=tag, arch=ARCHITECTURES[system].get(docker_platform, "any")) for tag in tags]


def _references(lab: Lab, profiles: Sequence[str]) -> list[str]:
    """Return what those profiles run, and all own images: a lab without one of them would want to build."""
    found = set(lab.own_images().values())
    compose = lab.compose()
    for profile in profiles:
        services = compose.config(profile)["services"].values()
        found |= {str(service["image"]) for service in services if "image" in service}
    return sorted(found)


def _install_wheels(held: Mapping[str, Any]) -> None:
    """Make the environment of report and check at once: what is missing shows now, not in the lesson."""
    # Bundles of an earlier lab name versions alone, of the system that made them.
    earlier = targets(held.get("pythons", []), [THIS_SYSTEM])
    fitting = [str(target) for target in held.get("targets", earlier)]
    if held.get("requirements", []) != requirements(REPORT) and fitting:
        say("This checkout needs other versions of the packages than the bundle holds: use the same state of the lab.")
    trouble = ensure_environment(REPORT)
    if not trouble:
        say("./lab report and ./lab check are ready, too.")
        return
    say(f"./lab run will work; ./lab report and ./lab check will not: {trouble}.")
    [here] = targets([THIS_PYTHON], [THIS_SYSTEM])
    if here not in fitting:
        packages = f"only has packages for {', '.join(fitting)}" if fitting else "has no Python packages"
        say(f"  The bundle {packages}; here is {here}.")
        say(f"  Make it with ./lab bundle FILE --pythons {THIS_PYTHON} --systems {THIS_SYSTEM}.")
