"""scripts/pin-images against a real registry: what is pinned stays the same, whatever its tag becomes."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import docker
from support.local_registry import LocalRegistry, serve_registry, tiny_image
from support.places import ROOT

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    yield from serve_registry(tmp_path_factory.mktemp("registry"))


def put(registry: LocalRegistry, name: str, content: str) -> str:
    image = tiny_image(f"{registry.address}/made", content)
    try:
        return registry.put(image, name)
    finally:
        docker("rmi", f"{registry.address}/made")


def run_pin_images(path: Path, buildx: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "scripts/pin-images"), str(path)]
    return subprocess.run(command, env=buildx, capture_output=True, text=True, timeout=120, check=False)


def test_only_references_get_the_digest_of_now(registry: LocalRegistry, buildx: dict[str, str], tmp_path: Path) -> None:
    broker, own = put(registry, "broker:1", "published"), "OWN_IMAGE=\n# A_IMAGE=no\nLAB_TAG=0.1.0\n"
    path = tmp_path / "env"
    path.write_text(f"{own}MOSQUITTO_IMAGE={broker}\n")
    for content in ("published", "another one"):
        put(registry, "broker:1", content)
        done = run_pin_images(path, buildx)
        assert done.returncode == 0, done.stderr
        assert path.read_text() == f"{own}MOSQUITTO_IMAGE={broker}@{registry.digest(broker)}\n"


def test_where_one_cannot_be_had_none_is_pinned(
    registry: LocalRegistry, buildx: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "env"
    text = f"ONE_IMAGE={put(registry, 'somebody:1', 'one')}\nOTHER_IMAGE={registry.address}/nobody:1\n"
    path.write_text(text)
    done = run_pin_images(path, buildx)
    assert done.returncode != 0
    assert f"{registry.address}/nobody:1" in done.stderr
    assert path.read_text() == text
