"""The lab under test: copied and made ready once, cleared before and after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from looplab.lab.checkout import Lab as RootLab
from looplab.lab.docker.engine import find_engine
from looplab.lab.docker.images import images_of
from looplab.lab.docker.own_images import add_stamps, read_stamps
from looplab.lab.image_names import TAG
from support.containers import docker
from support.e2e_lab import (
    PROJECT,
    Lab,
    copy_of_checkout,
    environment_of,
    remove_images,
    remove_what_dead_sessions_left,
)
from support.places import ROOT


@pytest.fixture(scope="session")
def session_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One copy for all tests, made ready once."""
    if not find_engine().serves:
        pytest.fail("no Docker engine answers here: run ./lab setup first")
    root = copy_of_checkout(tmp_path_factory.mktemp("e2e") / "lab")
    lab = Lab(root, environment_of(root))
    remove_what_dead_sessions_left()
    try:
        set_up(lab)
        yield lab
    finally:
        lab.down()
        remove_images(PROJECT)


def set_up(lab: Lab) -> None:
    """Have the images of a lab under its own tag: what another lab builds again replaces none of them."""
    tag = RootLab(ROOT).settings()[TAG]
    stamps = {name: stamp for name, stamp in read_stamps(ROOT).items() if name.endswith(f":{tag}")}
    here = images_of(stamps)
    own = {f"{name.removesuffix(tag)}{PROJECT}": stamps[name] for name in here}
    for name, reference in zip(here, own, strict=True):
        docker("tag", name, reference)
    add_stamps(lab.root, own)
    lab.run("setup", timeout_s=900, code=0)


@pytest.fixture
def lab(session_lab: Lab) -> Iterator[Lab]:
    """The copy with nothing running before and after."""
    yield session_lab
    session_lab.down()


@pytest.fixture
def own_lab(session_lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """A copy that the test may change, with nothing running before and after."""
    yield session_lab.another(tmp_path / "lab")
    session_lab.down()
