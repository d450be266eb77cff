"""The lab's own images: names as Compose reads them; pulled if a registry is named and answers, else built."""

import re
import shutil
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab import __version__
from looplab.errors import MachineError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab import checkout
from looplab.lab.checkout import Lab
from looplab.lab.docker.engine import Engine
from looplab.lab.docker.images import Images
from looplab.lab.docker.own_images import STAMP, OwnImages, remove_replaced
from looplab.lab.image_names import (
    BROKER_IMAGES,
    NAMES,
    PRINTED,
    is_own,
    is_published,
    own_reference,
    registry_of,
    repository_of,
)
from looplab.spec.experiment import Experiment

BASE = "debian:trixie-slim"
DIGEST = "sha256:" + "1" * 64
REGISTRY = "house.test:5000/lab/"
PUBLISHED = {"LAB_REGISTRY": REGISTRY, "LAB_TAG": "0.2.0"}
# What Compose does with ${A:-b}, b of the same kind.
_DEFAULT = re.compile(r"\$\{(\w+):-([^${}]*)\}")


def as_compose_reads(text: str, settings: dict[str, str]) -> str:
    while found := _DEFAULT.search(text):
        text = text.replace(found[0], settings.get(found[1]) or found[2])
    return text


@pytest.mark.parametrize(("settings", "tag"), [({}, __version__), ({"LAB_TAG": "mine"}, "mine"), (PUBLISHED, "0.2.0")])
def test_compose_and_the_host_call_every_image_the_same(settings: dict[str, str], tag: str) -> None:
    found: dict[str, set[str]] = {}
    for path in [*ROOT.glob("compose/**/*.yaml"), ROOT / "rpi/compose.yaml"]:
        for written in re.findall(r"image: (\S*looplab/\S*)", path.read_text()):
            name = re.findall(r"looplab/(\w+)", written)[0]
            found.setdefault(name, set()).add(as_compose_reads(written, settings))
    assert found == {name: {own_reference(name, settings)} for name in NAMES if name != "flood"}
    assert own_reference("bridge", settings) == f"{settings.get('LAB_REGISTRY', '')}looplab/bridge:{tag}"


def test_the_version_stands_in_every_place_alike() -> None:
    assert f'variable "LAB_TAG" {{\n  default = "{__version__}"' in (ROOT / "docker-bake.hcl").read_text()
    assert re.findall(r"tag:-([\w.]+)\}", (ROOT / "rpi/install.sh").read_text()) == [__version__]


@pytest.mark.parametrize(
    ("reference", "registry", "repository", "own", "published"),
    [
        ("looplab/bridge:0.1.0", "", "looplab/bridge", True, False),
        (f"{REGISTRY}looplab/bridge:1@{DIGEST}", "house.test:5000", f"{REGISTRY}looplab/bridge", True, True),
        ("localhost:5000/looplab/bridge", "localhost:5000", "localhost:5000/looplab/bridge", True, True),
        ("localhost/robot", "localhost", "localhost/robot", False, False),
        ("prom/prometheus:v3.7.3", "", "prom/prometheus", False, False),
        ("house.test/notlooplab/bridge:1", "house.test", "house.test/notlooplab/bridge", False, False),
        ("looplab:1", "", "looplab", False, False),
        (f"debian@{DIGEST}", "", "debian", False, False),
    ],
)
def test_parts_of_a_reference(reference: str, registry: str, repository: str, own: bool, published: bool) -> None:
    assert (registry_of(reference), repository_of(reference)) == (registry, repository)
    assert (is_own(reference), is_published(reference)) == (own, published)


def own(root: Path, settings: dict[str, str]) -> OwnImages:
    return OwnImages(root, {name: own_reference(name, settings) for name in NAMES})


def test_without_a_registry_none_is_asked(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has(BASE)
    ours, images = own(tmp_path, {}), Images(tmp_path)
    ours.fetch(images)
    assert docker.calls("pull") == []
    assert ours.must_build()
    docker.compose_builds(*(reference for name, reference in ours.references.items() if name != "flood"))
    ours.build({})
    assert docker.built() == [f"looplab/flood:{__version__}"]
    assert len(docker.calls("compose --profile * build")) == 1
    assert docker.calls("rmi") == []
    assert (ours.must_build(), images.notes) == (False, [])


def test_a_new_checkout_without_a_registry_builds_its_own(docker: fakes.Docker, tmp_path: Path) -> None:
    """All images are here, by another checkout, and the base under the name of its stand-in."""
    ours = own(tmp_path, {})
    docker.has("looplab/debian:0.1.0", *ours.references.values())
    assert ours.must_build()


def test_what_is_published_is_pulled_and_not_built(docker: fakes.Docker, tmp_path: Path) -> None:
    ours = own(tmp_path, PUBLISHED)
    docker.has(BASE, ours.references["robot"])
    missing = set(ours.references.values()) - {ours.references["robot"]}
    docker.gives(*missing)
    ours.fetch(Images(tmp_path))
    assert {call.split()[1] for call in docker.calls("pull") if "sha256:0000" not in call} == missing
    assert not ours.must_build()
    # Sources that change are built under the same names.
    (tmp_path / STAMP).write_text('{"looplab/robot:0.1.0": "other sources"}')
    assert ours.must_build()


def test_what_is_published_and_not_available_is_built(docker: fakes.Docker, tmp_path: Path) -> None:
    ours, images = own(tmp_path, PUBLISHED), Images(tmp_path)
    docker.has(BASE)
    ours.fetch(images)
    assert "no such host" in "".join(images.notes)
    assert ours.must_build()
    ours.build({})
    assert docker.built() == [f"{REGISTRY}looplab/flood:0.2.0"]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    for name in ("LAB_TAG", "LAB_REGISTRY", "STRESS_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    lines = "".join(f"{name}={value}\n" for name, value in PUBLISHED.items())
    (tmp_path / ".env").write_text(f"{lines}FLOOD_IMAGE=a/b:1@{DIGEST}\nSTRESS_IMAGE=\n")
    return Lab(tmp_path)


def test_a_stand_in_holds_until_set_up_asks_again(lab: Lab) -> None:
    with (lab.root / ".env").open("a") as file:
        file.write("GRAFANA_IMAGE=c/d:1\n")
    (lab.root / ".env.machine").write_text("FLOOD_IMAGE=a/b:1\nGRAFANA=off\n")
    assert lab.upstream_images() == {"FLOOD_IMAGE": "a/b:1"}
    assert lab.upstream_images(original=True) == {"FLOOD_IMAGE": f"a/b:1@{DIGEST}", "GRAFANA_IMAGE": "c/d:1"}


@pytest.mark.parametrize("stamps", ["{}", '{"looplab/robot:0.1.0": "sources image"}'])
def test_a_first_start_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, stamps: str
) -> None:
    shutil.copy(ROOT / ".env", tmp_path)
    (tmp_path / STAMP).parent.mkdir()
    (tmp_path / STAMP).write_text(stamps)

    def no_engine() -> Engine:
        raise MachineError("No engine.", "Install one.")

    monkeypatch.setattr(checkout, "ensure_engine", no_engine)
    with pytest.raises(MachineError):
        Lab(tmp_path).make_ready()
    assert ("First start: the images take up to two minutes" in capsys.readouterr().err) == (stamps == "{}")


def test_a_set_up_of_others_forgets_no_stand_in(lab: Lab) -> None:
    (lab.root / ".env.machine").write_text("LAB_RTPRIO=9\nFLOOD_IMAGE=a/b:1\nMOSQUITTO_IMAGE=c/d:1\n")
    assert lab.decided(["MOSQUITTO_IMAGE"]) == {"FLOOD_IMAGE": "a/b:1"}


@pytest.fixture
def heavy(lab: Lab) -> Experiment:
    """An experiment with an own and an upstream image; `lab` has a scenario of it, and one of an experiment without."""
    light = EXPERIMENTS[EXPERIMENTS.default]
    found = next(one for one in EXPERIMENTS.values() if one.images and one.upstream)
    for experiment, name in ((light, "light"), (found, Path(found.scenarios).name.replace("*", "-heavy"))):
        folder = (lab.root / experiment.scenarios).with_name(name)
        folder.mkdir(parents=True)
        (folder / "params.env").touch()
        (folder / "compose.yaml").write_text(f"services:\n  {name}-controller:\n")
    return found


def test_an_experiments_own_images_burden_no_other_run(lab: Lab, heavy: Experiment) -> None:
    with (lab.root / ".env").open("a") as file:
        file.write("".join(f"{name}=heavy:1\n" for name in heavy.upstream))
    every = {name for experiment in EXPERIMENTS.values() for name in experiment.images}
    assert set(NAMES) - lab.own_images().keys() == {*every, *BROKER_IMAGES, PRINTED}
    assert lab.profiles() == ["never", "light"]
    assert not {*heavy.upstream} & lab.upstream_images().keys()
    wanted = Lab(lab.root, wanted=[heavy])
    assert wanted.own_images().keys() - lab.own_images().keys() == {*heavy.images}
    assert len(wanted.profiles()) == 3
    assert {name: wanted.upstream_images()[name] for name in heavy.upstream} == dict.fromkeys(heavy.upstream, "heavy:1")
    assert Lab(lab.root, wanted=EXPERIMENTS.values()).own_images().keys() == {*NAMES} - {*BROKER_IMAGES, PRINTED}
    assert Lab(lab.root, wanted=EXPERIMENTS.values()).profiles() == ["*"]


def test_a_run_has_the_image_of_its_own_broker_alone(lab: Lab) -> None:
    assert Lab(lab.root, {"BROKER": "mochi"}).own_images().keys() - lab.own_images().keys() == {"mochi"}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"FIDELITY": "printed"}, {PRINTED}), ({"CLIENTS": "printed", "FIDELITY": "corrected"}, {PRINTED}),
        ({"CLIENTS": "lab", "FIDELITY": "printed"}, set()),
    ],
)  # fmt: skip
def test_printed_clients_have_an_image_that_others_need_not(lab: Lab, settings: dict[str, str], more: set[str]) -> None:
    assert Lab(lab.root, settings).own_images().keys() - lab.own_images().keys() == more


def test_what_was_built_for_another_run_stays_built(docker: fakes.Docker, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/source").write_text("1")
    every = {name: own_reference(name, {}) for name in NAMES}
    few = {name: reference for name, reference in every.items() if name != "capture"}
    docker.has(BASE, *every.values())
    OwnImages(tmp_path, every).build({})
    OwnImages(tmp_path, few, profiles=["never", "scenario0"]).build({})
    assert len(docker.calls("compose --profile never --profile scenario0 build")) == 1
    assert not OwnImages(tmp_path, every).must_build()
    (tmp_path / "images/source").write_text("2")
    OwnImages(tmp_path, few).write_stamp()
    assert not OwnImages(tmp_path, few).must_build()
    assert OwnImages(tmp_path, every).must_build()


def test_what_another_checkout_built_under_the_name_is_replaced(docker: fakes.Docker, tmp_path: Path) -> None:
    ours = own(tmp_path, {})
    docker.has(BASE, *ours.references.values())
    ours.write_stamp()
    assert not ours.must_build()
    bridge, theirs = ours.references["bridge"], f"sha256:{ours.references['bridge']}-theirs"
    docker.has(bridge, content="-theirs")
    assert ours.must_build()
    docker.compose_builds(bridge)
    # Of those that lost a name here, the robot's has another: the engine would take that one.
    mine = f"sha256:{bridge}"
    docker.without_a_name(theirs, mine, "sha256:of-somebody-else")
    ours.build({})
    assert not ours.must_build()
    assert docker.calls("rmi") == [f"rmi {mine} {theirs}"]
    # A container has them.
    remove_replaced(tmp_path)
    docker.without_a_name("sha256:of-somebody-else")
    remove_replaced(tmp_path)
    assert docker.calls("rmi") == [f"rmi {mine} {theirs}"] * 2
