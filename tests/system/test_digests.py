"""A scenario from images that are pinned by digest, out of a registry: scripts/pin-images, then ./lab run.

Minutes of packing and unpacking layers, so only with LAB_FROM_REGISTRY set.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.containers import docker
from support.e2e_lab import PROJECT, PROJECT_LABEL, Lab, finished, free_port
from support.local_registry import LocalRegistry, serve_registry
from support.run_checks import check_run

from looplab.lab.image_names import NAMES, own_reference, without_digest
from looplab.lab.programs import call
from looplab.lab.release import images_to_pin
from looplab.system.env_files import read_env

# Those that scenario 0 runs; Grafana has no stand-in where no registry can be reached.
UPSTREAM = ("MOSQUITTO_IMAGE", "PROMETHEUS_IMAGE")
# Of the lab's own, in this registry; no image of that tag is here.
RELEASE = "9.9.9-published"
# What is here already, whatever tag the tests run under.
LOCAL = {name: own_reference(name, {"LAB_TAG": os.environ.get("LAB_TAG", "")}) for name in NAMES}
pytestmark = pytest.mark.flag("LAB_FROM_REGISTRY")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    yield from serve_registry(tmp_path_factory.mktemp("registry"))


@pytest.fixture
def published_lab(own_lab: Lab) -> Lab:
    """A lab whose shell names no tag: it would stand above what .env pins."""
    own_lab.environment.pop("LAB_TAG", None)
    return own_lab


@pytest.fixture(scope="module")
def published(session_lab: Lab, registry: LocalRegistry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An .env that names the registry, pinned by scripts/pin-images: all of our own, and upstream what it has."""
    text = (session_lab.root / ".env").read_text()
    for variable, reference in images_to_pin(text).items():
        there = registry.put(reference, reference) if variable in UPSTREAM else ""
        text = text.replace(f"{variable}={reference}\n", f"{variable}={there}\n")
    for name, reference in LOCAL.items():
        registry.put(reference, f"looplab/{name}:{RELEASE}")
    text = text.replace("\nLAB_REGISTRY=\n", f"\nLAB_REGISTRY={registry.address}/\n")
    path = tmp_path_factory.mktemp("published") / "env"
    path.write_text(re.sub(r"^LAB_TAG=.*$", f"LAB_TAG={RELEASE}", text, flags=re.MULTILINE))
    pinned = call([str(session_lab.root / "scripts/pin-images"), str(path)], timeout_s=300)
    assert pinned.good, pinned.stderr
    # Not from here: a run has to pull them.
    docker("rmi", *map(without_digest, references(read_env(path)).values()))
    return path


def references(settings: dict[str, str]) -> dict[str, str]:
    return {**{name: settings[name] for name in UPSTREAM}, **{name: own_reference(name, settings) for name in NAMES}}


def test_every_image_is_pinned_to_what_the_registry_calls_it(registry: LocalRegistry, published: Path) -> None:
    settings = read_env(published)
    assert settings["LAB_TAG"] == ""
    for reference in references(settings).values():
        assert reference == f"{without_digest(reference)}@{registry.digest(without_digest(reference))}"


def test_a_scenario_runs_from_digests(published_lab: Lab, published: Path) -> None:
    wanted = references(read_env(published))
    # Grafana and the flood are none of this registry's; what an earlier set-up found in their place stays.
    others = images_to_pin((published_lab.root / ".env").read_text())
    text = published.read_text()
    for variable in ("GRAFANA_IMAGE", "FLOOD_IMAGE"):
        text = text.replace(f"\n{variable}=\n", f"\n{variable}={others[variable]}\n")
    (published_lab.root / ".env").write_text(text)

    ran = published_lab.run("run", "scenario0", "--quick", "--messages", "25", code=0)
    assert "Building" not in ran.stderr
    folder, run = published_lab.newest()
    check_run(folder, run)
    images = run["environment"]["images"]
    for name, reference in wanted.items():
        here = docker("image", "inspect", "--format", "{{.Id}}", {**others, **LOCAL}[name])
        assert (images[name]["reference"], images[name]["id"]) == (reference, here), name
    # A stand-in's label says that it was built, wherever it lies.
    assert {images[name]["origin"] for name in NAMES} == {"registry"}
    # What runs is what is pinned, by plain Compose's reading as well.
    configured = published_lab.compose("--profile", "scenario0", "config", "--images")
    assert set(configured.stdout.split()) <= {*wanted.values(), *others.values()}, configured.stderr


def test_what_is_pinned_and_cannot_be_had_is_built_and_named_without_its_digest(
    published_lab: Lab, published: Path, registry: LocalRegistry
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    text = published.read_text().replace(f"LAB_REGISTRY={registry.address}/", f"LAB_REGISTRY={nobody}/")
    others = images_to_pin((published_lab.root / ".env").read_text())
    for variable, reference in others.items():
        text = re.sub(rf"^{variable}=.*$", f"{variable}={reference}", text, flags=re.MULTILINE)
    (published_lab.root / ".env").write_text(text)
    built = [f"{nobody}/looplab/{name}:{RELEASE}" for name in NAMES]
    try:
        ready = published_lab.run("setup", timeout_s=900, code=0)
        assert "not the published ones" in ready.stdout + ready.stderr
        assert published_lab.machine_file()["LAB_TAG"] == RELEASE
        assert docker("image", "inspect", "--format", "{{.Id}}", *built).count("sha256:") == len(NAMES)
        # Plain Compose finds them by .env.machine.
        configured = published_lab.compose("--profile", "scenario2", "config", "--images")
        assert {name for name in configured.stdout.split() if nobody in name} < set(built), configured.stderr
    finally:
        for reference in built:
            call(["docker", "rmi", reference])


@pytest.fixture
def pi(
    published_lab: Lab, published: Path, tmp_path: Path
) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """rpi/install.sh as for a Pi that is paired with a lab of this release; this machine's engine is the Pi's."""
    (published_lab.root / ".env").write_text(published.read_text())
    rpi, pairing = published_lab.root / "rpi", tmp_path / "pi.env"
    published_lab.run("pair", str(pairing), "--address", "127.0.0.1", code=0)
    # LAB_TAG would stand above what the pairing pins.
    (rpi / ".env").write_text(f"LAB_TAG=0.0.1\nPI_BIND=127.0.0.1\nPI_METRICS_PORT={free_port()}\n")
    cleared = {name: value for name, value in os.environ.items() if name not in ("LAB_TAG", "LAB_REGISTRY")}
    project = {"COMPOSE_PROJECT_NAME": f"{PROJECT}-pi", "LOOPLAB_RULES_DIR": str(tmp_path)}

    def install(*words: str) -> subprocess.CompletedProcess[str]:
        return finished(["sh", str(rpi / "install.sh"), *words], published_lab.root, {**cleared, **project}, 120)

    try:
        yield install
    finally:
        install("--uninstall")


@pytest.mark.skipif(os.geteuid() != 0, reason="rpi/install.sh needs root")
def test_a_pi_gets_the_very_image_that_the_lab_pins(
    published_lab: Lab, published: Path, registry: LocalRegistry, pi: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    reference = references(read_env(published))["bridge"]
    done = pi("--pairing", str(published_lab.root.parent / "pi.env"), "--wait", "1")
    # Neither robot nor broker is there: exit code 1, the bridge runs.
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{reference} from the registry" in done.stdout or f"the image {reference} is here" in done.stdout
    containers = docker("ps", "--quiet", "--filter", f"label={PROJECT_LABEL}={PROJECT}-pi").split()
    assert docker("inspect", "--format", "{{.Config.Image}}", *containers).split() == [reference, reference]

    # The registry is gone, and the image is here by its tag, as one that was loaded from a file.
    settings = published_lab.root / "rpi/.env"
    nobody = f"127.0.0.1:{free_port()}"
    settings.write_text(settings.read_text().replace(registry.address, nobody))
    loaded = f"{nobody}/looplab/bridge:{RELEASE}"
    docker("tag", LOCAL["bridge"], loaded)
    done = pi("--wait", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"the image {loaded} is here" in done.stdout
    assert read_env(settings)["LAB_TAG"] == RELEASE
