"""Have every image the lab runs: the local one, else the registry's, else one built from Debian packages."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.docker.base_image import BUNDLE_REMEDY, ORIGIN_LABEL, make_base_image
from looplab.lab.docker.broken_yaml import tell_broken_yaml
from looplab.lab.docker.own_names import is_own, is_published, without_digest
from looplab.lab.docker.registry import Registry, ask_registry, registry_of, repository_of
from looplab.lab.programs import Outcome, call, follow
from looplab.system.terminal import Step, say

BASE_IMAGE = "debian:trixie-slim"
BASE_VARIABLE = "BASE_IMAGE"
# Upstream repositories whose program Debian packages too: the folder that builds the stand-in.
STAND_INS = {"eclipse-mosquitto": "images/mosquitto", "prom/prometheus": "images/prometheus"}
GRAFANA_REPOSITORY = "grafana/grafana"
FLOOD_REPOSITORY = "inovex/mqtt-stresser"

PULL_TIMEOUT_S = 1800.0
BUILD_TIMEOUT_S = 1800.0
BUILD_EXPECTED_S = 60.0
# "Step 3/12 : RUN ..." of the classic builder, "#7 [robot build 2/5] RUN ..." of BuildKit.
_BUILD_STEP = re.compile(r"^(?:Step (\d+)/(\d+) :|#\d+ \[(?:[\w.-]+ )*(\d+)/(\d+)\])")
_BUILT_IMAGE = re.compile(r"(?:Successfully tagged|naming to) (\S+)")


@dataclass(frozen=True)
class ImageFact:
    """What `run.json` records of an image."""

    reference: str
    id: str
    origin: str

    def as_dict(self) -> dict[str, str]:
        return {"reference": self.reference, "id": self.id, "origin": self.origin}


@dataclass
class Images:
    """Outcome of ensure_images: variables for Compose, and what a person should know once."""

    variables: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, ImageFact] = field(default_factory=dict)


def image_fact(reference: str) -> ImageFact | None:
    """The local image of that name, None where there is none."""
    answer = call(["docker", "image", "inspect", "--format", "{{json .}}", reference])
    return read_image_fact(reference, answer.stdout) if answer.good else None


def read_image_fact(reference: str, document: str) -> ImageFact:
    image = json.loads(document)
    if is_own(reference):
        # Labels are its base's, too: they tell nothing here.
        built = not _was_pulled(reference, image)
    else:
        labels = (image.get("Config") or {}).get("Labels") or {}
        # Imported by hand: neither label nor digest (one loaded from a bundle has no digest either).
        imported = not image.get("RepoDigests") and str(image.get("Comment", "")).startswith("Imported from")
        built = labels.get(ORIGIN_LABEL) == "built" or imported
    return ImageFact(reference, str(image["Id"]), "built" if built else "registry")


def _was_pulled(reference: str, image: Mapping[str, Any]) -> bool:
    """Of one of the lab's own: the engine knows its digest in the registry that its name tells."""
    repository = repository_of(reference)
    digests = image.get("RepoDigests") or ()
    return is_published(reference) and any(str(digest).startswith(f"{repository}@") for digest in digests)


def local_images(references: Iterable[str]) -> dict[str, ImageFact]:
    """Those of `references` that are here, by reference: the engine is asked once for all that it knows by name."""
    names = list(dict.fromkeys(references))
    # It prints the ones it has, an empty line where that is none, and complains of the others.
    answer = call(["docker", "image", "inspect", "--format", "{{json .}}", *names])
    lines = filter(None, answer.stdout.splitlines())
    known = {name: line for line in lines for name in _names_of(json.loads(line))}
    documents = {name: known.get(_key(name)) for name in names}
    found = {name: read_image_fact(name, line) if line else image_fact(name) for name, line in documents.items()}
    return {name: fact for name, fact in found.items() if fact is not None}


def _names_of(image: Mapping[str, Any]) -> list[str]:
    return [*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ())]


def _key(reference: str) -> str:
    """The name by which the engine lists an image: its tag or its digest, never both."""
    name, at, digest = reference.partition("@")
    return f"{repository_of(name)}@{digest}" if at else name


def image_facts(references: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """For run.json: {name: {reference, id, origin}} of those images that are here."""
    here = local_images(references.values())
    return {name: here[reference].as_dict() for name, reference in references.items() if reference in here}


class Registries:
    """Asks each registry once: an unreachable one must not cost its patience for every image."""

    def __init__(self, ask: Callable[[str], Registry] = ask_registry) -> None:
        self._ask = ask
        self._known: dict[str, Registry] = {}

    def of(self, reference: str) -> Registry:
        name = registry_of(reference)
        if name not in self._known:
            self._known[name] = self._ask(reference)
        return self._known[name]


def ensure_images(
    root: Path,
    references: Mapping[str, str],
    *,
    flood_stand_in: str = "",
    registries: Registries | None = None,
    images: Images | None = None,
    settled: Mapping[str, str] | None = None,
) -> Images:
    """Make every reference of `references` (variable name -> upstream image) usable, or do without it.

    Variables for Compose come back: GRAFANA=off and FLOOD_IMAGE, where those had to change. The base is made only
    when a stand-in needs it: a room that loaded a bundle has all images and no base. `settled` holds the
    variables of an earlier call: what was done without then is not asked for again.
    """
    asked = registries or Registries()
    images = images or Images()
    for variable, reference in references.items():
        without = repository_of(reference) == GRAFANA_REPOSITORY and (settled or {}).get("GRAFANA") == "off"
        if without and image_fact(reference) is None:
            images.variables["GRAFANA"] = "off"
        elif flood_stand_in and is_own(reference) and repository_of(reference) == repository_of(flood_stand_in):
            images.variables[variable] = flood_stand_in
        else:
            _ensure_one(root, variable, reference, flood_stand_in, asked, images)
            if (settled or {}).get(variable) == reference:
                # What an earlier call put in place of .env's reference stays in place.
                images.variables.setdefault(variable, reference)
    return images


def ensure_base(asked: Registries, images: Images) -> None:
    """The image that all of our own are FROM, and that Compose may have to come out of."""
    if BASE_VARIABLE in images.facts:
        return
    if image_fact(BASE_IMAGE) is None and not pull_image(BASE_IMAGE, asked):
        make_base_image(BASE_IMAGE)
        images.notes.append(f"{BASE_IMAGE} was built from Debian's packages: no registry gave it.")
    _record(BASE_VARIABLE, BASE_IMAGE, images)


def _ensure_one(
    root: Path, variable: str, reference: str, flood_stand_in: str, asked: Registries, images: Images
) -> None:
    repository = repository_of(reference)
    ours = is_own(reference)
    # What is built or loaded has a digest of its own: its name goes without the pinned one.
    name = without_digest(reference)
    here = image_fact(reference)
    if here is not None:
        images.facts[variable] = here
    # Our own images are had later, all at once (own_images.py).
    elif not ours and pull_image(reference, asked):
        _record(variable, reference, images)
    elif name != reference and image_fact(name) is not None:
        # Built here before, or loaded from a bundle.
        images.variables[variable] = name
        _record(variable, name, images)
    elif repository in STAND_INS:
        ensure_base(asked, images)
        build_image(root / STAND_INS[repository], name)
        if name != reference:
            images.variables[variable] = name
        images.notes.append(f"{name} was built from Debian's package: no registry gave it.")
        _record(variable, name, images)
    elif repository == FLOOD_REPOSITORY and flood_stand_in:
        images.variables[variable] = flood_stand_in
        stand_in = without_digest(flood_stand_in)
        images.notes.append(f"{reference} cannot be had here: {stand_in}, with the same flags, floods.")
    elif repository == GRAFANA_REPOSITORY:
        images.variables["GRAFANA"] = "off"
        images.notes.append(f"{reference} cannot be had here and has no stand-in: no Grafana.")
    elif not ours:
        registry = asked.of(reference)
        because = registry.detail or "the registry does not have it"
        raise LabError(f"The image {reference} cannot be had: {because}.", BUNDLE_REMEDY, EXIT_MACHINE)


def _record(variable: str, reference: str, images: Images) -> None:
    fact = image_fact(reference)
    if fact is not None:
        images.facts[variable] = fact


def pull_image(reference: str, asked: Registries) -> bool:
    """Whether the registry gave it; a registry that does not answer was asked once and is not asked again."""
    if not asked.of(reference).answers:
        return False
    layers: dict[str, bool] = {}
    with Step(f"Getting {without_digest(reference)}", expected_s=30) as step:

        def count(line: str) -> None:
            note_layer(layers, line)
            step.advance(sum(layers.values()), len(layers), f"{sum(layers.values())} of {len(layers)} layers")

        done = follow(["docker", "pull", reference], count, timeout_s=PULL_TIMEOUT_S)
        if not done.good:
            step.finish_as(f"not to be had: {done.said}")
    return done.good


def note_layer(layers: dict[str, bool], line: str) -> None:
    """Keep count of the layers from what `docker pull` prints where it is no terminal."""
    layer, _, state = line.partition(": ")
    if state.startswith(("Pulling fs layer", "Waiting")):
        layers.setdefault(layer, False)
    elif state.startswith(("Pull complete", "Already exists")):
        layers[layer] = True


def read_build_step(line: str) -> tuple[int, int] | None:
    """(step, of how many) where the line opens a step of a build."""
    found = _BUILD_STEP.match(line)
    if found is None:
        return None
    number, total = (found[1], found[2]) if found[1] else (found[3], found[4])
    return int(number), int(total)


def build_command(
    folder: Path, reference: str, *, context: Path | None = None, options: Sequence[str] = ()
) -> list[str]:
    """docker build of the Dockerfile in `folder`."""
    command = ["docker", "build", "--tag", reference, "--file", str(folder / "Dockerfile"), *options]
    return [*command, str(context or folder)]


def build_image(folder: Path, reference: str, *, context: Path | None = None, options: Sequence[str] = ()) -> None:
    """docker build with progress; a failing build shows its last lines, since the reason stands there."""
    _build(f"Building {reference}", [build_command(folder, reference, context=context, options=options)], reference)


def build_with_compose(root: Path, count: int, beside: Sequence[Sequence[str]] = ()) -> None:
    """Build the lab's own images by Compose, and at the same time by the commands of `beside`.

    `count` says how many images that makes, for the time left.
    """
    commands = [["docker", "compose", "--profile", "*", "build"], *beside]
    _build("Building the lab's images", commands, "the lab's images", root, count)


def _build(
    title: str, commands: Sequence[Sequence[str]], what: str, directory: Path | None = None, images: int = 1
) -> None:
    built: set[str] = set()
    with Step(title, expected_s=BUILD_EXPECTED_S) as step, ThreadPoolExecutor(len(commands)) as pool:

        def watch(line: str) -> None:
            if (named := _BUILT_IMAGE.search(line)) is not None:
                built.add(named[1])
            at = read_build_step(line)
            if images == 1 and at is not None:
                step.advance(at[0] - 1, at[1], f"step {at[0]} of {at[1]}")
            elif images > 1:
                # Several are built at once and share layers: only whole images say how far it is.
                step.advance(min(len(built), images), images, f"{len(built)} of {images} images")

        def build(command: Sequence[str]) -> Outcome:
            return follow(command, watch, timeout_s=BUILD_TIMEOUT_S, directory=str(directory or "."))

        first, *others = commands
        beside = [pool.submit(build, command) for command in others]
        ended = [build(first), *(other.result() for other in beside)]
    for done in ended:
        if not done.good:
            raise _failure(what, done, directory)


def _failure(what: str, done: Outcome, directory: Path | None) -> LabError:
    """Shows the last lines of the build on the way."""
    if directory is not None:
        tell_broken_yaml(directory, done.stdout)
    tail = [line for line in done.stdout.splitlines() if line.strip()][-15:]
    print("\n".join(f"  | {line}" for line in tail), file=sys.stderr)
    return LabError(f"Building {what} failed: {done.said}", _build_remedy(done.stdout, done.command), EXIT_MACHINE)


def _build_remedy(output: str, command: Sequence[str]) -> str:
    network_signs = ("Temporary failure resolving", "Could not resolve", "Unable to fetch", "Failed to fetch")
    if any(sign in output for sign in network_signs):
        return f"Debian's package mirror cannot be reached from a build. {BUNDLE_REMEDY}"
    if "no space left on device" in output:
        return "Free disk space: docker system df shows what takes it, docker image prune removes old layers."
    return f"The lines above say why. To see everything: {' '.join(command)}"


def say_notes(images: Images) -> None:
    for note in images.notes:
        say(note)
