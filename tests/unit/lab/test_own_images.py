"""The lab's own images: names as Compose reads them; pulled if a registry is named and answers, else built."""

from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab import __version__
from looplab.lab.checkout import Lab
from looplab.lab.docker.engine import OLDEST_COMPOSE, show_version
from looplab.lab.docker.images import Images
from looplab.lab.docker.own_images import STAMP, OwnImages
from looplab.lab.image_names import STAND_INS, is_own, is_published, own_reference, registry_of, repository_of

BASE = "debian:trixie-slim"
DIGEST = "sha256:" + "1" * 64
REGISTRY = "house.test:5000/lab/"
PUBLISHED = {"LAB_REGISTRY": REGISTRY, "LAB_TAG": "0.2.0"}


COMPOSE = show_version(OLDEST_COMPOSE)
BROKER_WITH_CHRT = STAND_INS["eclipse-mosquitto"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("docker-bake.hcl", f'variable "LAB_TAG" {{\n  default = "{__version__}"'),
        ("rpi/install.sh", f"tag:-{__version__}}}"),
        ("docs/exercises/give-the-broker-priority/README.md", f"MOSQUITTO_IMAGE={BROKER_WITH_CHRT}\n"),
        ("scripts/install-compose", f"\noldest={COMPOSE}\n"),
        ("rpi/install.sh", f"\noldest_compose={COMPOSE}\n"),
        ("docs/platforms.md", f"Compose {COMPOSE} or later"),
        (".github/workflows/ci.yaml", f"LAB_COMPOSE_VERSIONS: v{COMPOSE} "),
    ],
)
def test_the_versions_stand_in_every_place_alike(place: str, words: str) -> None:
    assert words in (ROOT / place).read_text(encoding="utf-8")


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


def test_without_a_registry_none_is_asked(docker: fakes.Docker, tmp_path: Path) -> None:
    """Even if all images are here, by another checkout, and the base under the name of its stand-in."""
    docker.has("localhost/looplab/debian:0.1.0", *references())
    assert own(tmp_path).must_build()
    docker.has(BASE)
    ours, images = own(tmp_path), Images(tmp_path)
    assert ours.must_build()
    docker.compose_builds(*references())
    ours.have(images, {})
    assert docker.calls("pull") == []
    assert docker.calls("compose") == ["compose --profile scenario7 build bridge robot flood"]
    assert (ours.must_build(), images.notes) == (False, [])


def test_what_is_published_is_pulled_and_not_built(docker: fakes.Docker, tmp_path: Path) -> None:
    ours, every = own(tmp_path, **PUBLISHED), references(**PUBLISHED)
    docker.has(BASE, *references("robot", **PUBLISHED))
    missing = every.keys() - references("robot", **PUBLISHED)
    docker.gives(*missing)
    ours.have(Images(tmp_path), {})
    assert {call.split()[1] for call in docker.calls("pull") if "sha256:0000" not in call} == missing
    assert docker.calls("compose") == []
    # Sources that change are built under the same names.
    (tmp_path / STAMP).write_text('{"looplab/robot:0.1.0": "other sources"}')
    assert ours.must_build()


def test_what_is_published_and_not_available_is_built(docker: fakes.Docker, tmp_path: Path) -> None:
    ours, images = own(tmp_path, **PUBLISHED), Images(tmp_path)
    docker.has(BASE)
    ours.have(images, {})
    assert "no such host" in "".join(images.notes)
    assert docker.calls("compose") == ["compose --profile scenario7 build bridge robot flood"]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lines = "".join(f"{name}={value}\n" for name, value in PUBLISHED.items())
    (tmp_path / ".env").write_text(f"{lines}FLOOD_IMAGE=a/b:1@{DIGEST}\nSTRESS_IMAGE=\n")
    return Lab(tmp_path)


def test_what_a_set_up_decided_holds_until_it_is_asked_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the shell sets is for this once: it decides nothing for later runs."""
    (lab.root / ".env.machine").write_text("FLOOD_IMAGE=a/b:1\nGRAFANA=off\nLAB_UID=7\nBASE_IMAGE=d:1\n")
    now, again = lab.settings(), Lab(lab.root, ask_again=True).settings()
    assert (now["FLOOD_IMAGE"], now["GRAFANA"], now["LAB_UID"]) == ("a/b:1", "off", "7")
    assert (again["FLOOD_IMAGE"], again.get("GRAFANA"), again["LAB_UID"]) == (f"a/b:1@{DIGEST}", None, "7")
    found = {"FLOOD_IMAGE": "c:1", "MOSQUITTO_IMAGE": "m:1"}
    # Nobody asked for the base: with all images up to date none is needed.
    assert lab.kept(found, found) == {**found, "BASE_IMAGE": "d:1"}
    assert lab.kept(found, [*found, "BASE_IMAGE"]) == found
    monkeypatch.setenv("FLOOD_IMAGE", "c:1")
    assert lab.kept(found, [*found, "BASE_IMAGE"]) == {"FLOOD_IMAGE": "a/b:1", "MOSQUITTO_IMAGE": "m:1"}


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


def test_what_was_built_for_another_run_stays_built(docker: fakes.Docker, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/source").write_text("1")
    few, every = (OwnImages(tmp_path, references(*names), ["x"]) for names in (("robot",), ("robot", "capture")))
    docker.has(BASE, *references("robot", "capture"))
    every.have(Images(tmp_path), {})
    assert not few.must_build()
    (tmp_path / "images/source").write_text("2")
    few.have(Images(tmp_path), {})
    assert docker.calls("compose")[-1] == "compose --profile x build robot"
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
    ours.have(Images(tmp_path), {})
    assert not ours.must_build()
    # The project's own without a name, and of those what no container uses.
    prune = "image prune --force --filter label=com.docker.compose.project=looplab"
    assert docker.calls("image prune") == [prune]
