"""Have every image that a run needs: the local one, else the registry's, else one built from Debian's packages."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from looplab.errors import MachineError
from looplab.lab.docker.builds import BUNDLE_REMEDY, build_command
from looplab.lab.docker.engine import DOCKER, ask
from looplab.lab.image_names import (
    BASE,
    BASE_IMAGE,
    STAND_INS,
    is_own,
    is_pinned,
    is_published,
    name_of,
    registry_of,
    repository_of,
    without_digest,
)
from looplab.lab.programs import TIMED_OUT, Outcome, call, follow, run_script
from looplab.system.remedies import PULL_LIMIT, remedy_of
from looplab.system.terminal import Step, say

GRAFANA_REPOSITORY = "grafana/grafana"
STANDS_IN = "No registry gave them: images of upstream were built from Debian's packages (docs/platforms.md)."
FLOOD_REPOSITORY = "inovex/mqtt-stresser"
# Tests build images in this repository.
TESTS = "looplab-test"

PULL_TIMEOUT_S = 1800.0
# These words of the engine mean that a registry is silent; with others the registry refuses.
_SILENT = ("no such host", "connection refused", "timeout", "unreachable", "tls", "x509", "certificate")


def is_here(reference: str, docker: Sequence[str] = DOCKER) -> bool:
    return ask("image", "inspect", reference, docker=docker).good


class Image(NamedTuple):
    """An image of an engine; `content` is a digest of its layers and its program, the same on every engine.

    An id is not: engines from 29 on call an image by its manifest, those before by its configuration. `pulled` is what
    registries call it, by digest; `origin` is its label of that name, "built" of one that stands in for upstream's.
    """

    id: str
    architecture: str
    content: str
    pulled: list[str]
    origin: str = ""


def images_of(references: Collection[str], docker: Sequence[str] = DOCKER) -> dict[str, Image]:
    """Return the images of `references` that the engine of the command `docker` has."""
    program = " ".join(f"{{{{json .Config.{part}}}}}" for part in ("Entrypoint", "Cmd", "User", "Env"))
    # {{.Id}} would fail: engines from 29 on leave empty fields out, and clients then miss them.
    facts = "{{.ID}}\t{{.Architecture}}\t{{.RootFS.Layers}} " + program
    form = '{{json .RepoTags}}\t{{json .RepoDigests}}\t{{index .Config.Labels "looplab.origin"}}\t' + facts
    lines = ask("image", "inspect", "--format", form, *references, docker=docker).stdout.splitlines()
    asked = {_plain(reference): reference for reference in references}
    found: dict[str, Image] = {}
    # The engine prints an empty line for an image that is not there.
    for line in filter(None, lines):
        tags, digests, origin, number, architecture, text = line.split("\t", 5)
        pulled = json.loads(digests)
        image = Image(number, architecture, hashlib.sha256(text.encode()).hexdigest(), pulled, origin)
        found |= {asked[name]: image for name in asked.keys() & {*json.loads(tags), *pulled}}
    return found


def _plain(reference: str) -> str:
    """Return a reference as the engine lists it: with a tag or with a digest."""
    repository = repository_of(reference)
    if is_pinned(reference):
        return f"{repository}@{reference.partition('@')[2]}"
    return f"{reference}:latest" if reference == repository else reference


def tagged() -> dict[str, str]:
    """Return the id of each image that is here, by repository:tag."""
    listing = ask("image", "ls", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}").stdout
    named = (line.split() for line in listing.splitlines())
    return {name: number for name, number in named if not name.endswith(":<none>")}


def left_by_tests() -> set[str]:
    """Return the images named looplab-test/…, and the ids of those without a name, which a later build took, or stages.

    A container of a test that was killed may keep one.
    """
    listing = ["docker", "image", "ls", "--filter", f"reference={TESTS}/*", "--format", "{{.Repository}}:{{.Tag}}"]
    nameless = ["docker", "image", "ls", "--no-trunc", "--filter", "dangling=true", "--quiet"]
    return {*call(listing).stdout.split(), *call(nameless).stdout.split()}


def remove_replaced(project: str) -> None:
    """Remove a project's images whose names later builds took; the engine keeps those in use."""
    ours = f"label=com.docker.compose.project={project}"
    call(["docker", "image", "prune", "--force", "--filter", ours], timeout_s=PULL_TIMEOUT_S)


def wrapped(service: Mapping[str, Any]) -> dict[str, str]:
    """Return, by variable, the upstream images whose programs the image of a Compose service is built to hold."""
    arguments: Mapping[str, str] = service.get("build", {}).get("args", {})
    return {name: one for name, one in arguments.items() if one and name.endswith("_IMAGE") and name != BASE}


def image_facts(model: Mapping[str, Mapping[str, Any]], started: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return {service: {reference, id, origin, own, digest}} of those `started` whose image is here, for run.json.

    `model` has all services as Compose reads them: an image may be built by one and started by another. `origin` is
    `built` of one whose label says so or whose name is the lab's own, `registry` of one that has a digest of the
    registry of its name, else `local`. An `own` one was built from this checkout alone, whose revision names it.
    """
    references = {name: one["image"] for name, one in model.items() if name in started}
    sources = {one["image"] for one in model.values() if "build" in one and not wrapped(one)}
    here = images_of({*references.values()})
    facts: dict[str, dict[str, Any]] = {}
    for name, reference in references.items():
        if image := here.get(reference):
            digests = [it.partition("@")[2] for it in image.pulled if repository_of(it) == repository_of(reference)]
            built = image.origin == "built" or (is_own(reference) and not (is_published(reference) and digests))
            origin = "built" if built else "registry" if digests else "local"
            own = reference in sources and origin == "built"
            facts[name] = {"reference": reference, "id": image.id, "origin": origin, "own": own}
            facts[name] |= {"digest": digests[0]} if digests else {}
    return facts


class Images:
    """What one set-up does about images: `variables` for Compose, `notes` for the user.

    `base` is what own images are built from, `settled` the variables that an earlier set-up decided. `silent` holds the
    reason of each registry that does not answer, or has given enough images: it is asked once.
    """

    def __init__(self, root: Path, base: str = BASE_IMAGE, settled: Mapping[str, str] | None = None) -> None:
        self.variables = dict(settled or {})
        self.base = base
        # Whether this set-up needed the base image, and so decided about it.
        self.base_asked = False
        self.notes: list[str] = []
        self.silent: dict[str, str] = {}
        # Stand-ins that are still to be built, each with its command.
        self.builds: dict[str, Sequence[str]] = {}
        self._root = root

    def pull(self, reference: str) -> bool:
        """Return whether the registry gave the image; a registry that is silent is not asked again."""
        registry = registry_of(reference)
        if registry in self.silent:
            return False
        with Step(f"Getting {without_digest(reference)}", expected_s=30) as step:
            command = ["docker", "pull", reference]
            done = follow(command, lambda line: step.note(line[:40]), timeout_s=PULL_TIMEOUT_S)
            if not done.good:
                step.finish_as(f"not available: {self._refused(registry, done)}")
        return done.good

    def _refused(self, registry: str, done: Outcome) -> str:
        """Remember a registry that gives nothing at all now; return the cause of a failed pull."""
        said, cause = done.reason.lower(), done.reason.rpartition(": ")[2]
        if done.code == TIMED_OUT or any(sign in said for sign in (*_SILENT, *PULL_LIMIT.signs)):
            self.silent[registry] = cause
        return cause

    def why_not(self, reference: str) -> str:
        """Return why the registry did not give an image."""
        registry = registry_of(reference)
        return self.silent.get(registry) or f"{registry or 'the registry'} does not have it"

    def ensure_base(self) -> str:
        """Have and return the image that all own ones are built from, and that Compose may have to come out of."""
        self.base_asked = True
        if is_here(self.base) or (not is_own(self.base) and self.pull(self.base)):
            return self.base
        self.base = self.variables[BASE] = STAND_INS[repository_of(BASE_IMAGE)]
        if not is_here(self.base):
            title = "Building a base image from Debian's packages"
            if notes := run_script("make-base-image", self.base, title=title, expected_s=20):
                say(notes.strip())
            self.notes.append(STANDS_IN)
        return self.base

    def ensure_upstream(self, references: Mapping[str, str]) -> None:
        """Make each of `references` ({variable: upstream image}) usable, or do without it.

        Raises LabError (exit code 3) for one that the lab needs.
        """
        here = _places_here(references)
        missing = [reference for reference in references.values() if reference not in here]
        for reference in missing:
            name, repository = without_digest(reference), repository_of(reference)
            if (not is_own(reference) and self.pull(reference)) or name in here:
                continue
            if stand_in := reference if reference in STAND_INS.values() else STAND_INS.get(repository):
                if stand_in not in here:
                    folder = self._root / "images" / name_of(stand_in)
                    self.builds[stand_in] = build_command(folder, stand_in, self.ensure_base())
            elif repository == FLOOD_REPOSITORY:
                self.notes.append(f"{name} is not available: the lab's own program floods, with the same flags.")
            elif repository == GRAFANA_REPOSITORY:
                self.notes.append(f"No Grafana: {name} is not available ({self.why_not(reference)}).")
            # The lab's own images come later, all at once (own_images.py).
            elif not is_own(reference):
                why = self.why_not(reference)
                raise MachineError(f"The image {reference} is not available: {why}.", remedy_of(why, BUNDLE_REMEDY))
        self.variables |= in_place(references, {*(_places_here(references) if missing else here), *self.builds})
        if self.builds:
            self.notes = list(dict.fromkeys([*self.notes, STANDS_IN]))


def _places(reference: str) -> list[str]:
    """Return what may serve as an upstream image, the best first.

    An image that was built or loaded has no digest of the registry: its name goes without the pinned one.
    """
    return [reference, without_digest(reference), STAND_INS.get(repository_of(reference), reference)]


def _places_here(references: Mapping[str, str]) -> dict[str, Image]:
    return images_of({place for reference in references.values() for place in _places(reference)})


def in_place(references: Mapping[str, str], here: Collection[str] | None = None) -> dict[str, str]:
    """Return the variables of upstream images that are not `here`, for what is here in their place.

    The image of the flood has a program of its own, for which FLOOD_IMAGE is empty.
    """
    here = _places_here(references) if here is None else here
    decided = {}
    for variable, reference in references.items():
        found = [place for place in _places(reference) if place in here]
        if found and found[0] != reference:
            decided[variable] = found[0]
        elif not found and repository_of(reference) == GRAFANA_REPOSITORY:
            decided["GRAFANA"] = "off"
        elif not found and repository_of(reference) == FLOOD_REPOSITORY:
            decided[variable] = ""
    return decided
