"""The loop on several hosts: the commands of the plan, what opens, and what is refused before anything starts."""

import json
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import LabError, MachineError, UsageError
from looplab.lab.docker.images import Image
from looplab.lab.hosts.contexts import HOME, Host, add_host, find_host, known_hosts, reach
from looplab.lab.hosts.plan import PlacementPlan, make_plan
from looplab.lab.hosts.run import check_alone, check_images, down_all

A, B, C = (Host(name, f"10.0.0.{number}", f"ssh://lab@{name}") for number, name in enumerate("ABC", 1))
X = Image("", "amd64", "x", [])
HERE = Host(HOME, "10.0.0.9")
SERVICES = ("prepare", "treatments", "broker-prioritised", "bridge", "robot", "stress", "scenario5")


def plan(controller: Host, broker: Host, bridge: Host, tls: str = "off", **limits: dict[str, str]) -> PlacementPlan:
    placed = {"broker": broker, "bridge": bridge, "controller": controller}
    return make_plan(placed, "scenario5", SERVICES, {"BROKER_TLS": tls, "QOS": "0 1"}, limits)


def started(made: PlacementPlan) -> list[str]:
    """Each service with the host that starts it, in order."""
    found = []
    for step in made.start:
        if "up" in step.words:
            words = step.words[step.words.index("never") + 1 :]
            found += [f"{step.host} {service}" for service in words if not service.startswith("--")]
    return found


def test_each_part_starts_on_its_host_the_controller_last() -> None:
    made = plan(controller=A, broker=B, bridge=B, B={"LAB_RTPRIO": "0"})
    assert started(made) == [
        *("B prepare", "B treatments", "B broker-prioritised", "B bridge", "B robot", "B stress"),
        *("A prepare", "A treatments", "A stress", "A scenario5"),
    ]
    assert made.settings["A"] == {
        "BROKER_TLS": "off", "QOS": "0 1", "LAB_LISTENER": "1883", "LAB_ACCESS": "plain/", "BROKER_PATH": "port",
        "LAB_BROKER_AT": "broker:10.0.0.2",
        "LAB_HOSTS": "A=controller,clients,stress= B=broker,bridge,robot,stress=10.0.0.2:9110",
    }  # fmt: skip
    assert made.settings["B"] == {
        "BROKER_TLS": "off", "QOS": "0 1", "LAB_LISTENER": "1883", "LAB_ACCESS": "plain/", "LAB_BIND": "10.0.0.2",
        "LAB_TREATMENTS_AT": "10.0.0.2:9110", "LAB_RTPRIO": "0",
    }  # fmt: skip


def copied(made: PlacementPlan) -> set[tuple[str, str, str]]:
    """Each file of the volume `identities` that travels: from which host, to which, its path there."""
    found = set()
    for step in made.start:
        if step.into:
            (source, path), folder = step.words[4].split(":/identities/"), step.into[5].partition(":/identities/")[2]
            assert path == f"{folder}{Path(path).name}", "it keeps its place"
            assert source == "looplab-hosts-prepare-1"
            found.add((step.host, step.into[2], path))
    return found


def test_three_hosts_speak_tls() -> None:
    made = plan(controller=A, broker=B, bridge=C, tls="on")
    assert {(own["LAB_LISTENER"], own["LAB_ACCESS"]) for own in made.settings.values()} == {("8883", "")}
    assert "stress" not in " ".join(one for one in started(made) if one[0] == "C")
    served = {name: own.get("TREATMENTS_CERTIFICATE") for name, own in made.settings.items()}
    assert served == {"A": None, "B": "10.0.0.2.pem", "C": "10.0.0.3.pem"}
    made_for = {name: own.get("TREATMENTS_ADDRESSES") for name, own in made.settings.items()}
    assert made_for == {"A": None, "B": "10.0.0.2 10.0.0.3", "C": None}


@pytest.mark.parametrize(("tls", "access", "more"), [("on", "", ["10.0.0.3.pem"]), ("off", "plain/", [])])
def test_a_host_gets_the_secrets_of_its_own_parts_alone(tls: str, access: str, more: list[str]) -> None:
    assert copied(plan(controller=A, broker=B, bridge=C, tls=tls)) == {
        *(("B", "A", "treatments"), ("B", "A", f"{access}controller")),
        *(("B", "C", "treatments"), ("B", "C", f"{access}bridge"), *(("B", "C", name) for name in more)),
    }
    together = {("B", "A", name) for name in ("treatments", f"{access}controller", f"{access}bridge")}
    assert copied(plan(controller=A, broker=B, bridge=A, tls=tls)) == together
    assert copied(plan(controller=B, broker=B, bridge=B, tls=tls)) == set()


def test_what_one_host_has_alone_opens_no_port() -> None:
    for made in (plan(B, B, B), plan(HERE, HERE, HERE), plan(B, B, B, tls="on")):
        (own,) = made.settings.values()
        assert own.keys() == {"BROKER_TLS", "QOS", "LAB_LISTENER", "LAB_ACCESS", "BROKER_PATH", "LAB_HOSTS"}
        assert own["BROKER_PATH"] == "direct"
    bridge_alone = plan(controller=A, broker=A, bridge=C).settings
    assert "LAB_TREATMENTS_AT" not in bridge_alone["A"]
    assert "LAB_BIND" not in bridge_alone["C"]


def test_a_host_that_cannot_serve_is_refused_with_a_remedy(programs: fakes.Programs) -> None:
    """Each engine that cannot serve: test_doctor.py."""
    programs.add("docker", {"*B?info*": fakes.broken_info(fakes.NO_ANSWER_TEXT)})
    with pytest.raises(MachineError, match=r"B \(ssh://lab@B\)") as refused:
        reach(B)
    assert "docker --context B version" in refused.value.remedy


def test_images_that_are_missing_or_older_are_named() -> None:
    here = {"lab/a:1": X, "lab/b:1": X._replace(content="y")}
    check_images(B, here, dict(here))
    check_images(B, here, {**here, "lab/b:1": X._replace(architecture="arm64", content="z")})
    for there in ({"lab/a:1": here["lab/a:1"]}, {**here, "lab/b:1": X._replace(content="old")}):
        with pytest.raises(MachineError, match="lab/b:1") as lacks:
            check_images(B, here, there)
        assert lacks.value.remedy.endswith("copy them: docker save lab/b:1 | docker --context B load")


def test_another_lab_on_a_host_is_named(programs: fakes.Programs) -> None:
    programs.add("docker", {"*context?B?ps*": ("looplab-hosts\tmine:/lab\n", "", 0)})
    check_alone(B, "looplab-hosts", "mine:/lab")
    with pytest.raises(MachineError, match=r"project looplab-hosts of mine:/lab") as refused:
        check_alone(B, "looplab-hosts", "yours:/lab")
    assert "docker --context B compose --project-name looplab-hosts" in refused.value.remedy


CONTEXT_B = {"Name": "B", "Description": "Looplab host at 10.0.0.2", "DockerEndpoint": "ssh://lab@B"}


def test_hosts_are_the_contexts_that_the_lab_made(programs: fakes.Programs) -> None:
    contexts = [{"Name": "default", "Description": "Current DOCKER_HOST", "DockerEndpoint": "unix:///x"}, CONTEXT_B]
    programs.add("docker", {"context?ls*": ("\n".join(map(json.dumps, contexts)), "", 0)})
    assert known_hosts() == {"B": B}
    assert find_host("B") == B
    with pytest.raises(UsageError, match="known: B"):
        find_host("D")


@pytest.mark.parametrize("endpoint", ["tcp://10.0.0.2:2375", "ssh://lab@127.0.0.1", "unix:///run/docker.sock"])
def test_a_wrong_host_makes_no_context(endpoint: str, programs: fakes.Programs) -> None:
    with pytest.raises(LabError, match=r"expected ssh|no IPv4 address"):
        add_host("lab-b", endpoint)
    assert programs.calls("docker") == []


def test_a_host_that_is_off_is_named_after_one_try(
    programs: fakes.Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"*default?version*": ("", "", 0), "*default?compose*": ("", "", 0)}
    programs.add("docker", {"context?ls*": (json.dumps(CONTEXT_B), "", 0), **good, "*B?version*": ("", "no route", 1)})
    down_all()
    assert "What runs on B stays." in capsys.readouterr().err
    there, here = ([call for call in programs.calls("docker") if f"--context {name} " in call] for name in ("B", HOME))
    assert there == ["--context B version"]
    assert here[1].endswith("down --volumes --remove-orphans")
