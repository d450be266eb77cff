"""Where images come from: here, a registry, or Debian packages; the lab's own: pulled if published, else built."""

from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab import __version__
from looplab.errors import MachineError
from looplab.lab.checkout import Lab
from looplab.lab.docker.builds import build_all, build_command
from looplab.lab.docker.engine import OLDEST_COMPOSE, show_version
from looplab.lab.docker.images import Images, image_facts, in_place
from looplab.lab.docker.model import check_images
from looplab.lab.docker.own_images import STAMP, OwnImages
from looplab.lab.image_names import STAND_INS, is_own, is_published, own_reference, registry_of
from looplab.system.remedies import PULL_LIMIT

BASE = "debian:trixie-slim"
BROKER = "eclipse-mosquitto:2.0.22"
BROKER_STAND_IN, BASE_STAND_IN = "localhost/looplab/mosquitto:0.1.0", "localhost/looplab/debian:0.1.0"
PROMETHEUS_STAND_IN = "localhost/looplab/prometheus:0.1.0"
DIGEST = "sha256:" + "1" * 64
REGISTRY = "house.test:5000/lab/"
OWN = f"{REGISTRY}looplab/robot"


def ensured(root: Path, references: dict[str, str], settled: dict[str, str] | None = None) -> Images:
    images = Images(root, settled=settled)
    images.ensure_upstream(references)
    build_all(root, images.builds)
    return images


def test_what_is_here_asks_no_registry(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has(BROKER)
    assert ensured(tmp_path, {"MOSQUITTO_IMAGE": BROKER}).variables == {}
    assert docker.calls("pull") == []
    docker.gives("prom/prometheus:v3.7.3")
    ensured(tmp_path, {"PROMETHEUS_IMAGE": "prom/prometheus:v3.7.3"})
    assert "pull prom/prometheus:v3.7.3" in docker.calls()
    assert docker.built() == []


def test_a_silent_registry_is_asked_once_and_stand_ins_are_built(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has(BASE)
    references = {
        "MOSQUITTO_IMAGE": BROKER,
        "PROMETHEUS_IMAGE": "prom/prometheus:v3.7.3",
        "GRAFANA_IMAGE": "grafana/grafana:12.4.0",
        "FLOOD_IMAGE": "inovex/mqtt-stresser:latest",
    }
    images = ensured(tmp_path, references)
    assert len(docker.calls("pull")) == 1
    # Side by side.
    assert sorted(docker.built()) == [BROKER_STAND_IN, PROMETHEUS_STAND_IN]
    assert sorted(docker.calls("build"))[0].endswith(str(tmp_path / "images/mosquitto"))
    stand_ins = {"MOSQUITTO_IMAGE": BROKER_STAND_IN, "PROMETHEUS_IMAGE": PROMETHEUS_STAND_IN}
    assert images.variables == {**stand_ins, "GRAFANA": "off", "FLOOD_IMAGE": ""}
    assert sum("grafana" in note for note in images.notes) == 1


def test_what_stands_in_is_built_again_once_it_is_gone(docker: fakes.Docker, tmp_path: Path) -> None:
    docker.has(BASE)
    first = ensured(tmp_path, {"MOSQUITTO_IMAGE": f"{BROKER}@{DIGEST}"})
    assert docker.built() == [BROKER_STAND_IN]
    assert first.variables == {"MOSQUITTO_IMAGE": BROKER_STAND_IN}
    assert ensured(tmp_path, first.variables, first.variables).variables == first.variables
    assert docker.built() == [BROKER_STAND_IN]
    docker.lost(BROKER_STAND_IN)
    assert ensured(tmp_path, first.variables, first.variables).variables == first.variables
    assert docker.built() == [BROKER_STAND_IN] * 2


def test_what_a_bundle_brought_stands_in(docker: fakes.Docker) -> None:
    """Plain Compose would ask a registry for mosquitto; what nothing stands in for is left open."""
    own = {"FLOOD_IMAGE": "inovex/mqtt-stresser:1", "MOSQUITTO_IMAGE": BROKER, "POSTGRES_IMAGE": f"postgres:1@{DIGEST}"}
    others = {"PROMETHEUS_IMAGE": "prom/prometheus:v3", "GRAFANA_IMAGE": "grafana/grafana:1"}
    docker.has(BROKER_STAND_IN, "postgres:1")
    decided = {"FLOOD_IMAGE": "", "MOSQUITTO_IMAGE": BROKER_STAND_IN, "POSTGRES_IMAGE": "postgres:1"}
    assert in_place({**own, **others}) == {**decided, "GRAFANA": "off"}
    docker.has(*others.values(), "inovex/mqtt-stresser:1")
    assert in_place({**own, **others}).keys() == {"MOSQUITTO_IMAGE", "POSTGRES_IMAGE"}


def test_images_are_built_upon_the_base_that_stands_in(
    docker: fakes.Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("looplab.lab.docker.images.run_script", lambda _name, image, **_: docker.has(image))
    images = ensured(tmp_path, {"MOSQUITTO_IMAGE": BROKER})
    assert images.variables == {"BASE_IMAGE": BASE_STAND_IN, "MOSQUITTO_IMAGE": BROKER_STAND_IN}
    assert f"--build-arg BASE_IMAGE={BASE_STAND_IN}" in docker.calls("build")[0]
    # The next set-up takes what this one has chosen, and asks nobody.
    asked = docker.calls("pull")
    again = Images(tmp_path, BASE_STAND_IN, images.variables)
    again.ensure_base()
    assert again.variables == images.variables
    assert docker.calls("pull") == asked


def test_a_failing_build_shows_its_last_lines(
    docker: fakes.Docker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for said, remedy in (("no space left on device", "docker system df"), ("--- FAIL", "docker build --tag an/x:1")):
        docker.fails("build", f"Step 2/3 : RUN x\n{said}\n")
        with pytest.raises(MachineError) as caught:
            build_all(tmp_path, {"an/x:1": build_command(tmp_path, "an/x:1")})
        assert remedy in caught.value.remedy
        assert said in capsys.readouterr().err


def test_a_part_of_another_image_is_found(programs: fakes.Programs) -> None:
    programs.add("docker", {"inspect*": ("id1 sha256:1\nid2 sha256:2\nid3 sha256:3\n", "", 0)})
    containers = {"broker-prioritised": "id1", "scenario5": "id2", "stranger": "id3"}
    known = {name: {"reference": f"{name}:1", "id": f"sha256:{at}"} for at, name in ((1, "broker"), (2, "controller"))}
    check_images(containers, "scenario5", known)
    known["broker"]["id"] = "sha256:4"
    with pytest.raises(MachineError, match="broker-prioritised was started from another image than broker:1") as caught:
        check_images(containers, "scenario5", known)
    assert "another checkout" in caught.value.remedy


def test_each_registry_has_its_own_answer(docker: fakes.Docker, tmp_path: Path) -> None:
    images = Images(tmp_path)
    docker.gives("house.test:5000/e:2")
    # One that lacks an image is asked for the next, one that is silent is not.
    docker.registry(answers=True)
    assert not images.pull("house.test:5000/d:1")
    assert images.pull("house.test:5000/e:2")
    docker.registry(answers=False)
    assert not images.pull("a:1")
    assert not images.pull("b/c:2")
    assert [call.split()[1] for call in docker.calls("pull")] == ["house.test:5000/d:1", "house.test:5000/e:2", "a:1"]
    assert images.why_not("house.test:5000/d:1") == "house.test:5000 does not have it"
    assert images.why_not("b/c:2") == "no such host"


LINK = "https://www.docker.com/increase-rate-limit"


@pytest.mark.parametrize(
    ("said", "reason", "remedy"),
    [
        ("dial tcp: lookup registry.test: no such host", "no such host", "./lab load"),
        # Docker Hub counts pulls, and at its door requests of any kind.
        (f"toomanyrequests: You have reached your pull rate limit. {LINK}", "your pull rate limit", PULL_LIMIT.do),
        ('error parsing HTTP 429 response body: "Too Many Requests (HAP429)."', "Too Many Requests", PULL_LIMIT.do),
    ],
)
def test_an_image_that_no_registry_gives_has_reason_and_remedy(
    docker: fakes.Docker, tmp_path: Path, said: str, reason: str, remedy: str
) -> None:
    (docker.place / "registry").write_text(f"Error response from daemon: {said}\n")
    with pytest.raises(MachineError, match=reason) as refused:
        ensured(tmp_path, {"MOSQUITTO_IMAGE": "somebody/broker:1"})
    assert remedy in refused.value.remedy


def test_the_facts_of_images_tell_where_they_are_from(docker: fakes.Docker) -> None:
    pinned = f"{OWN}:0.2.0@sha256:{'2' * 64}"
    docker.has("prom/prometheus:1", f"{OWN}:1", digest=DIGEST)
    docker.has("looplab/flood:1", "looplab/robot:1", f"{REGISTRY}looplab/bridge:1", pinned)
    docker.has("local/broker:latest", "local/broker:2")
    docker.has("prom/prometheus:0", origin="built", digest=DIGEST)
    expected = {
        "prom/prometheus:1": "registry",
        # Built here under upstream's name, as its label says.
        "prom/prometheus:0": "built",
        "looplab/flood:1": "built",
        "looplab/robot:1": "built",
        # Never pulled: it has no digest of that registry.
        f"{REGISTRY}looplab/bridge:1": "built",
        f"{OWN}:1": "registry",
        pinned: "registry",
        "local/broker:2": "local",
        "local/broker": "local",
    }
    built = ("looplab/robot:1", f"{REGISTRY}looplab/bridge:1", f"{OWN}:1")
    services = {name: {"image": name, **({"build": {}} if name in built else {})} for name in (*expected, "gone:1")}
    # Of an image that holds another program, too, no revision names the whole.
    services["looplab/flood:1"]["build"] = {"args": {"BASE_IMAGE": "a:1", "FLOOD_IMAGE": "b:1"}}
    found = image_facts(services, services)
    assert {name: fact["origin"] for name, fact in found.items()} == expected
    ids = {name: f"sha256:{name}" for name in expected} | {"local/broker": "sha256:local/broker:latest"}
    assert {name: fact["id"] for name, fact in found.items()} == ids
    digests = {name: fact["digest"] for name, fact in found.items() if "digest" in fact}
    pulled = dict.fromkeys(("prom/prometheus:1", "prom/prometheus:0", f"{OWN}:1"), DIGEST)
    assert digests == {**pulled, pinned: f"sha256:{'2' * 64}"}
    # A pulled one has sources of its own, whatever this checkout is.
    assert {name for name, fact in found.items() if fact["own"]} == {*built[:2]}


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


def test_an_own_image_is_published_in_a_named_registry_alone() -> None:
    """This host is none, and another's repository may end like ours."""
    names = ["looplab/bridge:1", "localhost/looplab/debian:1", f"{OWN}:1@{DIGEST}", "house.test/notlooplab/bridge:1"]
    assert [is_own(name) for name in names] == [True, True, True, False]
    assert [is_published(name) for name in names] == [False, False, True, False]
    assert [registry_of(name) for name in names] == ["", "localhost", "house.test:5000", "house.test"]


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


def test_what_a_set_up_decided_holds_until_it_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the shell sets is for this once: it decides nothing for later runs."""
    (tmp_path / ".env").write_text(f"FLOOD_IMAGE=a/b:1@{DIGEST}\nSTRESS_IMAGE=\n")
    lab = Lab(tmp_path)
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
