"""The lab's own images: names as Compose reads them; pulled if a registry is named and answers, else built."""

import re
import shutil
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab import __version__
from looplab.lab import checkout
from looplab.lab.checkout import Lab
from looplab.lab.docker.builds import build_all
from looplab.lab.docker.engine import Engine
from looplab.lab.docker.images import Images
from looplab.lab.docker.own_images import IN_IMAGES, STAMP, OwnImages
from looplab.lab.image_names import is_own, is_published, own_reference, registry_of, repository_of
from looplab.lab.machine.limits import Limits

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
        for written in re.findall(r"image: \"?(\S*looplab/[^\s\",]*)", path.read_text()):
            name = re.findall(r"looplab/(\w+)", written)[0]
            found.setdefault(name, set()).add(as_compose_reads(written, settings))
    assert found == {name: {own_reference(name, settings)} for name in found}
    assert own_reference("bridge", settings) == f"{settings.get('LAB_REGISTRY') or 'localhost/'}looplab/bridge:{tag}"


def test_the_version_stands_in_every_place_alike() -> None:
    assert f'variable "LAB_TAG" {{\n  default = "{__version__}"' in (ROOT / "docker-bake.hcl").read_text()
    assert re.findall(r"tag:-([\w.]+)\}", (ROOT / "rpi/install.sh").read_text()) == [__version__]


def test_every_builder_finds_the_rooms_and_an_image_imports_them() -> None:
    """The classic builder enters a folder only if an exception begins with its path."""
    exceptions = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert "!src/looplab" in exceptions
    assert not any("*" in line for line in exceptions)
    imported = re.search(r"from looplab import ([\w, ]+)", (ROOT / "images/base/Dockerfile").read_text())
    assert imported
    assert tuple(imported[1].split(", ")) == IN_IMAGES


@pytest.mark.parametrize(
    ("reference", "registry", "repository", "own", "published"),
    [
        ("looplab/bridge:0.1.0", "", "looplab/bridge", True, False),
        (f"{REGISTRY}looplab/bridge:1@{DIGEST}", "house.test:5000", f"{REGISTRY}looplab/bridge", True, True),
        ("localhost:5000/looplab/bridge", "localhost:5000", "localhost:5000/looplab/bridge", True, True),
        ("localhost/looplab/debian:1", "localhost", "localhost/looplab/debian", True, False),
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


def references(*names: str, **settings: str) -> dict[str, str]:
    """Own images, each with its service."""
    return {own_reference(name, settings): name for name in names or ("bridge", "robot", "flood")}


def own(root: Path, **settings: str) -> OwnImages:
    return OwnImages(root, references(**settings), ["scenario7"])


def build(images: OwnImages) -> None:
    build_all(images._root, [images.build({})])
    images.built()


def test_without_a_registry_none_is_asked(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has(BASE)
    ours, images = own(tmp_path), Images(tmp_path)
    ours.fetch(images)
    assert docker.calls("pull") == []
    assert ours.must_build()
    docker.compose_builds(*references())
    build(ours)
    assert docker.calls("compose") == ["compose --profile scenario7 build bridge robot flood"]
    assert (ours.must_build(), images.notes) == (False, [])


def test_a_new_checkout_without_a_registry_builds_its_own(docker: fakes.Docker, tmp_path: Path) -> None:
    """All images are here, by another checkout, and the base under the name of its stand-in."""
    docker.has("localhost/looplab/debian:0.1.0", *references())
    assert own(tmp_path).must_build()


def test_what_is_published_is_pulled_and_not_built(docker: fakes.Docker, tmp_path: Path) -> None:
    ours, every = own(tmp_path, **PUBLISHED), references(**PUBLISHED)
    docker.has(BASE, *references("robot", **PUBLISHED))
    missing = every.keys() - references("robot", **PUBLISHED)
    docker.gives(*missing)
    ours.fetch(Images(tmp_path))
    assert {call.split()[1] for call in docker.calls("pull") if "sha256:0000" not in call} == missing
    assert not ours.must_build()
    # Sources that change are built under the same names.
    (tmp_path / STAMP).write_text('{"looplab/robot:0.1.0": "other sources"}')
    assert ours.must_build()


def test_what_is_published_and_not_available_is_built(docker: fakes.Docker, tmp_path: Path) -> None:
    ours, images = own(tmp_path, **PUBLISHED), Images(tmp_path)
    docker.has(BASE)
    ours.fetch(images)
    assert "no such host" in "".join(images.notes)
    assert ours.must_build()
    build(ours)
    assert docker.calls("compose") == ["compose --profile scenario7 build bridge robot flood"]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    for name in ("LAB_TAG", "LAB_REGISTRY", "STRESS_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    lines = "".join(f"{name}={value}\n" for name, value in PUBLISHED.items())
    (tmp_path / ".env").write_text(f"{lines}FLOOD_IMAGE=a/b:1@{DIGEST}\nSTRESS_IMAGE=\n")
    return Lab(tmp_path)


def test_a_stand_in_holds_until_set_up_asks_again(lab: Lab) -> None:
    (lab.root / ".env.machine").write_text("FLOOD_IMAGE=a/b:1\nGRAFANA=off\nLAB_UID=7\n")
    now, again = lab.settings(), Lab(lab.root, ask_again=True).settings()
    assert (now["FLOOD_IMAGE"], now["GRAFANA"], now["LAB_UID"]) == ("a/b:1", "off", "7")
    assert (again["FLOOD_IMAGE"], again.get("GRAFANA"), again["LAB_UID"]) == (f"a/b:1@{DIGEST}", None, "7")


def test_images_are_those_that_compose_reads(docker: fakes.Docker, lab: Lab) -> None:
    (lab.root / "results").mkdir()
    here = {name: own_reference(name, PUBLISHED) for name in ("bridge", "prepare", "report", "link", "flood")}
    built = {name: {"image": here[name], "build": {}} for name in ("bridge", "prepare", "report")}
    never = {"link": {"image": here["link"], "build": {}, "scale": 0}, "grafana": {"image": "c/d:1", "scale": 0}}
    docker.compose_reads({**built, **never, "broker": {"image": "e/of-mine:1"}})
    others = {here["bridge"]: "bridge", here["link"]: "link", here["prepare"]: "prepare"}
    assert lab.images() == (others, {"of_mine": "e/of-mine:1"})
    # The flood's own image holds the program of another one, or none.
    for flood, upstream in ((f"a/b:1@{DIGEST}", {"FLOOD_IMAGE": f"a/b:1@{DIGEST}"}), ("", {})):
        arguments = {"BASE_IMAGE": BASE, "FLOOD_IMAGE": flood}
        docker.compose_reads({**built, "flood": {"image": here["flood"], "build": {"args": arguments}}})
        ours = {here["bridge"]: "bridge", here["prepare"]: "prepare", here["flood"]: "flood"}
        assert Lab(lab.root).images() == (ours, upstream)


@pytest.mark.parametrize("missing", [True, False])
def test_the_first_start_takes_minutes_only_if_an_image_is_missing(
    docker: fakes.Docker, lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: bool
) -> None:
    """As on a fresh checkout beside an older one: it has no record of what was built."""
    shutil.copy(ROOT / ".env", lab.root)
    bridge = own_reference("bridge", {})
    docker.compose_reads({"bridge": {"image": bridge, "build": {}}})
    docker.has(*([BASE] if missing else [bridge]))
    docker.compose_builds(*([bridge] if missing else []))
    monkeypatch.setattr(checkout, "ensure_engine", Engine)
    monkeypatch.setattr(checkout, "ensure_compose", lambda engine, _base: engine)
    monkeypatch.setattr(checkout, "probe_limits", lambda *_given: Limits())
    lab.make_ready()
    assert ("First start" in capsys.readouterr().err) is missing


def test_a_flood_of_another_program_is_built_again(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has(BASE, "a/b:1", *references())
    flood = own_reference("flood", {})

    def wrapping(upstream: str) -> OwnImages:
        return OwnImages(tmp_path, references(), ["scenario7"], wraps={flood: upstream})

    wrapping("a/b:1").write_stamp()
    assert not wrapping("a/b:1").must_build()
    assert wrapping("").must_build()
    docker.has("a/b:1", content="-newer")
    assert wrapping("a/b:1").must_build()


def test_a_second_set_up_keeps_the_base_that_the_first_one_needed(lab: Lab) -> None:
    """With all images up to date nobody asks for it; a set-up that does decides again."""
    (lab.root / ".env.machine").write_text("BASE_IMAGE=localhost/looplab/debian:0.1.0\n")
    assert lab.kept({}, ["MOSQUITTO_IMAGE"]) == {"BASE_IMAGE": "localhost/looplab/debian:0.1.0"}
    assert lab.kept({}, ["BASE_IMAGE"]) == {}
    images = Images(lab.root, "debian:trixie-slim")
    assert not images.base_asked


def test_what_the_shell_sets_once_decides_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As FLOOD_IMAGE=looplab/flood:0.1.0 ./lab run did: each later run had that flood."""
    now = {"FLOOD_IMAGE": "looplab/flood:0.1.0", "MOSQUITTO_IMAGE": "looplab/mosquitto:0.1.0"}
    assert lab.kept(now, now) == now
    monkeypatch.setenv("FLOOD_IMAGE", "looplab/flood:0.1.0")
    assert lab.kept(now, now) == {"MOSQUITTO_IMAGE": "looplab/mosquitto:0.1.0"}
    (lab.root / ".env.machine").write_text("FLOOD_IMAGE=a/b:1\nGRAFANA=off\n")
    assert lab.kept(now, now) == {"FLOOD_IMAGE": "a/b:1", "MOSQUITTO_IMAGE": "looplab/mosquitto:0.1.0"}
    assert lab.settings()["FLOOD_IMAGE"] == "looplab/flood:0.1.0"


def test_what_was_built_for_another_run_stays_built(docker: fakes.Docker, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/source").write_text("1")
    few, every = (OwnImages(tmp_path, references(*names), ["x"]) for names in (("robot",), ("robot", "capture")))
    docker.has(BASE, *references("robot", "capture"))
    build(every)
    build(few)
    assert docker.calls("compose")[-1] == "compose --profile x build robot"
    assert not every.must_build()
    (tmp_path / "images/source").write_text("2")
    few.write_stamp()
    assert not few.must_build()
    assert every.must_build()


def test_what_another_checkout_built_under_the_name_is_replaced(docker: fakes.Docker, tmp_path: Path) -> None:
    ours = own(tmp_path)
    docker.has(BASE, *references())
    ours.write_stamp()
    assert not ours.must_build()
    bridge = own_reference("bridge", {})
    docker.has(bridge, content="-theirs")
    assert ours.must_build()
    docker.compose_builds(bridge)
    build(ours)
    assert not ours.must_build()
    # The project's own without a name, and of those what no container uses.
    prune = "image prune --force --filter label=com.docker.compose.project=looplab"
    assert docker.calls("image prune") == [prune]
