"""Have every image that a run needs: the local one, else the registry's, else one built from Debian's packages."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
from looplab.lab.docker.base_image import make_base_image
from looplab.lab.docker.builds import BUNDLE_REMEDY, build_image
from looplab.lab.image_names import (
    BASE,
    BASE_IMAGE,
    ORIGIN_LABEL,
    STAND_INS,
    is_own,
    is_published,
    registry_of,
    repository_of,
    without_digest,
)
from looplab.lab.programs import TIMED_OUT, Outcome, call, follow
from looplab.system.terminal import Step

GRAFANA_REPOSITORY = "grafana/grafana"
FLOOD_REPOSITORY = "inovex/mqtt-stresser"

PULL_TIMEOUT_S = 1800.0
REGISTRY_PATIENCE_S = 15.0
# No image has this digest: a registry that answers refuses it without sending anything.
NO_SUCH_DIGEST = "sha256:" + "0" * 64
_ANSWERS = ("manifest unknown", "not found", "toomanyrequests", "denied", "unauthorized", "no such manifest")
_UNREACHABLE = ("no such host", "connection refused", "timeout", "unreachable", "tls", "x509", "certificate")


@dataclass(frozen=True)
class ImageFact:
    """What run.json records of an image."""

    reference: str
    id: str
    origin: str


def image_fact(reference: str) -> ImageFact | None:
    """Return the local image of that name, None if there is none."""
    answer = call(["docker", "image", "inspect", "--format", "{{json .}}", reference])
    return read_image_fact(reference, answer.stdout) if answer.good else None


def read_image_fact(reference: str, document: str) -> ImageFact:
    """Return the facts in one document of `docker image inspect`."""
    image = json.loads(document)
    digests = image.get("RepoDigests") or ()
    if is_own(reference):
        # Labels are its base's, too; a pulled image has a digest in the registry of its name.
        repository = repository_of(reference)
        built = not (is_published(reference) and any(str(digest).startswith(f"{repository}@") for digest in digests))
    else:
        labels = (image.get("Config") or {}).get("Labels") or {}
        # An image loaded from a bundle has no digest either, but no such comment.
        imported = not digests and str(image.get("Comment", "")).startswith("Imported from")
        built = labels.get(ORIGIN_LABEL) == "built" or imported
    return ImageFact(reference, str(image["Id"]), "built" if built else "registry")


def local_images(references: Iterable[str]) -> dict[str, ImageFact]:
    """Return the local ones of `references`; one question to the engine covers all that it lists by name."""
    names = list(dict.fromkeys(references))
    # It prints the images it has and complains about the others.
    answer = call(["docker", "image", "inspect", "--format", "{{json .}}", *names])
    lines = filter(None, answer.stdout.splitlines())
    known = {name: line for line in lines for name in _names_of(json.loads(line))}
    documents = {name: known.get(_listed_name(name)) for name in names}
    found = {name: read_image_fact(name, line) if line else image_fact(name) for name, line in documents.items()}
    return {name: fact for name, fact in found.items() if fact is not None}


def _names_of(image: Mapping[str, Any]) -> list[str]:
    return [*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ())]


def _listed_name(reference: str) -> str:
    """Return the name by which the engine lists an image: its tag or its digest, never both."""
    name, at, digest = reference.partition("@")
    return f"{repository_of(name)}@{digest}" if at else name


def image_facts(references: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return {name: {reference, id, origin}} of the local images, for run.json."""
    here = local_images(references.values())
    return {name: asdict(here[reference]) for name, reference in references.items() if reference in here}


@dataclass(frozen=True)
class Registry:
    """Whether a registry answers and, if not, why; `name` is "" for the engine's default one."""

    name: str
    answers: bool
    detail: str = ""


def ask_registry(reference: str) -> Registry:
    """Ask the registry of `reference`, through the engine, which has its own proxies and mirrors."""
    question = ["docker", "pull", f"{repository_of(reference)}@{NO_SUCH_DIGEST}"]
    return read_registry(registry_of(reference), call(question, timeout_s=REGISTRY_PATIENCE_S))


def read_registry(name: str, outcome: Outcome) -> Registry:
    """Return what the engine's refusal shows: a registry that refuses is there, one that is silent is not."""
    if outcome.code == TIMED_OUT:
        return Registry(name, False, f"no answer within {REGISTRY_PATIENCE_S:g} s")
    said = outcome.said.lower()
    if any(sign in said for sign in _UNREACHABLE):
        return Registry(name, False, outcome.said.rpartition(": ")[2])
    answers = outcome.good or any(sign in said for sign in _ANSWERS)
    return Registry(name, answers, "" if answers else outcome.said)


class Images:
    """What one set-up does about images: `variables` for Compose, `notes` for the user.

    `base` is what own images are built from, as an earlier set-up chose it. Each registry is asked once: a silent one
    must not cost its patience for every image.
    """

    def __init__(self, root: Path, ask: Callable[[str], Registry] = ask_registry, base: str = BASE_IMAGE) -> None:
        self.variables: dict[str, str] = {} if base == BASE_IMAGE else {BASE: base}
        self.base = base
        self.notes: list[str] = []
        self._root = root
        self._ask = ask
        self._registries: dict[str, Registry] = {}

    def registry(self, reference: str) -> Registry:
        name = registry_of(reference)
        if name not in self._registries:
            self._registries[name] = self._ask(reference)
        return self._registries[name]

    def pull(self, reference: str) -> bool:
        """Return whether the registry gave the image; a registry that does not answer is not tried."""
        if not self.registry(reference).answers:
            return False
        layers: dict[str, bool] = {}
        with Step(f"Getting {without_digest(reference)}", expected_s=30) as step:

            def count(line: str) -> None:
                note_layer(layers, line)
                step.advance(sum(layers.values()), len(layers), f"{sum(layers.values())} of {len(layers)} layers")

            done = follow(["docker", "pull", reference], count, timeout_s=PULL_TIMEOUT_S)
            if not done.good:
                step.finish_as(f"not available: {done.said}")
        return done.good

    def ensure_base(self) -> str:
        """Have and return the image that all own ones are built from, and that Compose may have to come out of."""
        if image_fact(self.base) is not None or (not is_own(self.base) and self.pull(self.base)):
            return self.base
        self.base = self.variables[BASE] = STAND_INS[repository_of(BASE_IMAGE)]
        if image_fact(self.base) is None:
            make_base_image(self.base)
            self.notes.append(f"{self.base} was built from Debian's packages: no registry gave {BASE_IMAGE}.")
        return self.base

    def ensure_upstream(
        self, references: Mapping[str, str], flood_stand_in: str = "", settled: Mapping[str, str] | None = None
    ) -> None:
        """Make each of `references` ({variable: upstream image}) usable, or do without it.

        `flood_stand_in` is the lab's own flood. `settled` holds the variables of an earlier set-up: an image that was
        replaced then stays replaced.
        """
        settled = settled or {}
        for variable, reference in references.items():
            repository = repository_of(reference)
            if repository == GRAFANA_REPOSITORY and settled.get("GRAFANA") == "off" and image_fact(reference) is None:
                self.variables["GRAFANA"] = "off"
            elif flood_stand_in and repository == repository_of(flood_stand_in):
                self.variables[variable] = flood_stand_in
            else:
                self._ensure(variable, reference, flood_stand_in)
                if settled.get(variable) == reference:
                    self.variables.setdefault(variable, reference)

    def _ensure(self, variable: str, reference: str, flood_stand_in: str) -> None:
        # An image that was built or loaded has no digest of the registry: its name goes without the pinned one.
        name = without_digest(reference)
        own = is_own(reference)
        if image_fact(reference) is not None or (not own and self.pull(reference)):
            return
        if reference in STAND_INS.values():
            self._build(variable, reference, "it was removed")
            return
        if name != reference and image_fact(name) is not None:
            self.variables[variable] = name
        # The lab's own images come later, all at once (own_images.py).
        elif not own:
            self._replace(variable, reference, flood_stand_in)

    def _replace(self, variable: str, reference: str, flood_stand_in: str) -> None:
        """Build a stand-in or do without; LabError (exit code 3) if the lab needs the image."""
        name, repository = without_digest(reference), repository_of(reference)
        if repository in STAND_INS:
            self._build(variable, STAND_INS[repository], f"no registry gave {name}")
        elif repository == FLOOD_REPOSITORY and flood_stand_in:
            self.variables[variable] = flood_stand_in
            stand_in = without_digest(flood_stand_in)
            self.notes.append(f"{reference} is not available here: {stand_in}, with the same flags, floods.")
        elif repository == GRAFANA_REPOSITORY:
            self.variables["GRAFANA"] = "off"
            self.notes.append(f"{reference} is not available here and has no stand-in: no Grafana.")
        else:
            because = self.registry(reference).detail or "the registry does not have it"
            raise MachineError(f"The image {reference} is not available: {because}.", BUNDLE_REMEDY)

    def _build(self, variable: str, stand_in: str, because: str) -> None:
        self.variables[variable] = stand_in
        if image_fact(stand_in) is None:
            self.ensure_base()
            folder = self._root / "images" / repository_of(stand_in).rpartition("/")[2]
            build_image(folder, stand_in, self.base)
            self.notes.append(f"{stand_in} was built from Debian's package: {because}.")


def note_layer(layers: dict[str, bool], line: str) -> None:
    """Keep count of the layers that `docker pull` prints without a terminal: {layer: whether it is complete}."""
    layer, _, state = line.partition(": ")
    if state.startswith(("Pulling fs layer", "Waiting")):
        layers.setdefault(layer, False)
    elif state.startswith(("Pull complete", "Already exists")):
        layers[layer] = True
