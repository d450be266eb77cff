"""References of images, and what the lab's own are called, here or in a registry (LAB_REGISTRY)."""

from collections.abc import Mapping

from looplab import __version__

# No run waits for the image of the report to be built.
REPORT = "report"
# The image of the flood runs the program of the upstream image that this variable names.
REPEATED = "FLOOD_IMAGE"
FOLDER = "looplab"
REGISTRY, TAG, PULL = "LAB_REGISTRY", "LAB_TAG", "LAB_PULL"
BASE, BASE_IMAGE = "BASE_IMAGE", "debian:trixie-slim"
# Where no registry answers, these images are built from Debian's packages in place of upstream's. They never get
# upstream's name, which other projects here would take. No public registry can answer for a name of this host.
LOCAL = "localhost"
STAND_INS = {
    repository: f"{LOCAL}/{FOLDER}/{name}:{__version__}"
    for repository, name in {
        "debian": "debian",
        "eclipse-mosquitto": "mosquitto",
        "prom/prometheus": "prometheus",
        "postgres": "postgres",
    }.items()
}


def registry_of(reference: str) -> str:
    """Return the host part of an image reference, "" for the default registry."""
    first, slash, _ = reference.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else ""


def repository_of(reference: str) -> str:
    """Return the reference without tag and digest."""
    head, slash, last = without_digest(reference).rpartition("/")
    return head + slash + last.partition(":")[0]


def name_of(reference: str) -> str:
    """Return the last word of the repository: the folder in images/ of an own one."""
    return repository_of(reference).rpartition("/")[2]


def without_digest(reference: str) -> str:
    """Return name and tag: what an image is called if it was built here or loaded from a file."""
    return reference.partition("@")[0]


def is_pinned(reference: str) -> bool:
    """Return whether it names a digest."""
    return "@" in reference


def is_decided(variable: str) -> bool:
    """Return whether a set-up decides the variable for this machine, where an image is not available."""
    return variable == "GRAFANA" or variable.endswith("_IMAGE")


def own_reference(name: str, settings: Mapping[str, str]) -> str:
    """Return the reference as the Compose files build it."""
    return f"{settings.get(REGISTRY) or f'{LOCAL}/'}{FOLDER}/{name}:{settings.get(TAG) or __version__}"


def is_own(reference: str) -> bool:
    """Return whether it is one of the lab's own images, of any registry."""
    return f"/{repository_of(reference)}".rpartition("/")[0].endswith(f"/{FOLDER}")


def is_on_docker_hub(reference: str) -> bool:
    """Return whether it has an own image's name without a registry: on Docker Hub a stranger may own that name."""
    return is_own(reference) and not registry_of(reference)


def is_published(reference: str) -> bool:
    """Return whether it is one of the lab's own images in a named registry."""
    return is_own(reference) and registry_of(reference) not in ("", LOCAL)
