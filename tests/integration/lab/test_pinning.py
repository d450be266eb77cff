"""scripts/pin-images against a real registry: what is pinned stays the same, whatever its tag becomes."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import docker
from support.local_registry import LocalRegistry, serve_registry, tiny_image
from support.places import ROOT

from looplab import __version__
from looplab.lab.image_names import NAMES, RELEASES, own_reference
from looplab.lab.release import images_to_pin, own_images_to_pin, pin, pin_own
from looplab.system.env_files import read_env

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    yield from serve_registry(tmp_path_factory.mktemp("registry"))


@pytest.fixture
def settings(registry: LocalRegistry, tmp_path: Path) -> Path:
    """A copy of .env whose images, the lab's own, too, are in the registry: of one file each, for quickness."""
    ours = tuple(f"{name}=" for name in ("LAB_REGISTRY", "LAB_TAG", *RELEASES))
    lines = (ROOT / ".env").read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(ours))
    text += f"LAB_REGISTRY={registry.address}/lab/\nLAB_TAG={__version__}\n"
    published = put(registry, "published:1", "as published")
    for name in NAMES:
        registry.copy(published, f"lab/looplab/{name}:{__version__}")
    for variable, reference in images_to_pin(text).items():
        text = text.replace(f"{variable}={reference}", f"{variable}={put(registry, reference, variable)}")
    path = tmp_path / "env"
    path.write_text(text)
    return path


def put(registry: LocalRegistry, name: str, content: str) -> str:
    image = tiny_image(f"{registry.address}/made", content)
    try:
        return registry.put(image, name)
    finally:
        docker("rmi", f"{registry.address}/made")


def run_pin_images(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "scripts/pin-images"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def content(reference: str, folder: Path) -> str:
    """Of the image that the engine takes for `reference`."""
    container = docker("create", reference, "none")
    try:
        docker("cp", f"{container}:/content", str(folder))
    finally:
        docker("rm", container)
    return (folder / "content").read_text()


def test_a_pinned_image_stays_what_it_was_when_its_tag_moves(
    registry: LocalRegistry, settings: Path, tmp_path: Path
) -> None:
    before = settings.read_text()
    references, ours = images_to_pin(before), own_images_to_pin(read_env(settings))
    digests = {variable: registry.digest(reference) for variable, reference in {**references, **ours}.items()}
    releases = {variable: f"{__version__}@{digests[variable]}" for variable in ours}
    done = run_pin_images(settings)
    assert done.returncode == 0, done.stderr
    assert settings.read_text() == pin_own(pin(before, digests), releases)
    assert all(f"@{digest}\n" in settings.read_text() for digest in digests.values())

    # What Compose makes of it is what was published.
    assert read_env(settings)["LAB_TAG"] == ""
    link = own_reference("link", read_env(settings))
    docker("rmi", link.partition("@")[0])
    docker("pull", link)
    assert content(link, tmp_path) == "as published"

    broker = references["MOSQUITTO_IMAGE"]
    put(registry, broker.removeprefix(f"{registry.address}/"), "another one")
    assert registry.digest(broker) != digests["MOSQUITTO_IMAGE"]
    pinned = f"{broker}@{digests['MOSQUITTO_IMAGE']}"
    # Not what is here already: the registry has to give it.
    docker("rmi", pinned)
    docker("pull", pinned)
    assert content(pinned, tmp_path) == "MOSQUITTO_IMAGE"

    again = run_pin_images(settings)
    assert again.returncode == 0, again.stderr
    moved = pin(before, {**digests, "MOSQUITTO_IMAGE": registry.digest(broker)})
    assert settings.read_text() == pin_own(moved, releases)


def test_where_one_cannot_be_had_none_is_pinned(registry: LocalRegistry, tmp_path: Path) -> None:
    path = tmp_path / "env"
    text = f"ONE_IMAGE={put(registry, 'somebody:1', 'one')}\nOTHER_IMAGE={registry.address}/nobody:1\n"
    path.write_text(text)
    done = run_pin_images(path)
    assert done.returncode == 3
    assert f"{registry.address}/nobody:1 cannot be pulled" in done.stderr
    assert path.read_text() == text
