"""./lab list and ./lab inspect: what they say, in 80 columns. With real parts: tests/e2e/test_e2e_look_inside.py."""

import json
from contextlib import nullcontext
from typing import Any

import pytest
from support.places import ROOT

from looplab.errors import EXIT_GOOD
from looplab.exercises.exercise import exercises, read_exercise
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.commands import inspect_parts
from looplab.lab.commands.list_all import list_all

CONTAINERS: dict[str, str] = {"broker-prioritised": "b" * 64, "link": "c" * 64, "scenario5": "d" * 64}
HOST: dict[str, Any] = {
    "NetworkMode": "lab_default", "Ulimits": None, "CapAdd": None, "CpuRealtimeRuntime": 0, "NanoCpus": 0,
    "CpusetCpus": "", "CpuShares": 0, "Memory": 0, "PidsLimit": 256,
}  # fmt: skip


def container(service: str, addresses: list[str], port: str = "", **host: Any) -> dict[str, Any]:
    return {
        "Id": CONTAINERS[service],
        "Config": {"Image": f"looplab/{service}:0.1.0"},
        "HostConfig": {**HOST, **host},
        "NetworkSettings": {
            "Ports": {"1883/tcp": [{"HostIp": "127.0.0.1", "HostPort": port}] if port else None},
            "Networks": {str(number): {"IPAddress": address} for number, address in enumerate(addresses)},
        },
    }


PAGE = "".join(
    f'lab_treatment_verified{{scenario="scenario5",what="{what}",wanted="{wanted}",found="{found}"}} {value}\n'
    for what, wanted, found, value in (
        ("broker scheduling policy", "SCHED_FIFO 90", "SCHED_OTHER", 0),
        ("controller TCP_NODELAY", "off", "off", 1),
        ("stress load", "running", "running", 1),
    )
)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three containers, as Docker 20.10.24 describes them."""
    described = [
        container(
            "broker-prioritised", ["172.18.0.2", "172.19.0.2"], "1883", CapAdd=["CAP_SYS_NICE"],
            Ulimits=[{"Name": "rtprio", "Hard": 90, "Soft": 90}], Memory=256 << 20, NanoCpus=500_000_000,
        ),
        container("link", [], NetworkMode=f"container:{CONTAINERS['broker-prioritised']}"),
        container("scenario5", ["172.18.0.3"], CpuRealtimeRuntime=130_000),
    ]  # fmt: skip
    listed = "".join(f"{service} {one}\n" for service, one in CONTAINERS.items())
    answers = {"ps": listed, "inspect": json.dumps(described), "top": "PID CLS RTPRIO\n7 TS -\n8 FF 98\n9 FF 98\n"}

    def call(words: list[str], **_more: Any) -> Any:
        return type("Outcome", (), {"stdout": answers.get(words[1], ""), "stderr": "", "good": False, "code": 1})

    monkeypatch.setattr(inspect_parts, "call", call)
    monkeypatch.setattr("looplab.lab.docker.engine.call", call)
    # A run of this checkout may go on.
    monkeypatch.setattr(inspect_parts, "noted", lambda *_: nullcontext())
    monkeypatch.setattr(inspect_parts, "fetch", lambda _address: PAGE)


def test_the_list_has_everything_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_all(ROOT) == EXIT_GOOD
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    # A name is what a person types: it is never broken.
    for name in exercises(ROOT):
        card = read_exercise(ROOT, name, EXPERIMENTS).card
        assert any(f" {card.minutes} " in line for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scenario0", ["-", "24", "-"]),
        ("scenario4", ["stress", "37", "scenario2"]),
        ("scenario8", ["flood", "20", "scenario7"]),
        ("twin-limit", ["-", "30", "twin"]),
    ],
)
def test_the_list_has_load_time_and_order(capsys: pytest.CaptureFixture[str], name: str, words: list[str]) -> None:
    list_all(ROOT)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{name} "))
    assert line.split()[-3:] == words


@pytest.mark.usefixtures("engine")
def test_scheduling_that_the_engine_cannot_read_is_no_empty_field(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A minimal Debian has no ps, which the engine runs for `docker top`."""
    known = vars(inspect_parts)["call"]

    def call(words: list[str], **more: Any) -> Any:
        refused = 'Error response from daemon: ps: exec: "ps": executable file not found in $PATH'
        fields = {"stdout": "", "stderr": refused, "good": False, "code": 1}
        return type("Outcome", (), fields) if words[1] == "top" else known(words, **more)

    monkeypatch.setattr(inspect_parts, "call", call)
    inspect_parts.inspect(ROOT, None, as_json=False)
    assert "broker-prioritised unknown (no ps) 172.18.0.2" in capsys.readouterr().out


@pytest.mark.usefixtures("engine")
def test_the_table_shows_each_part_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect_parts.inspect(ROOT, None, as_json=False) == EXIT_GOOD
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "scenario5 runs"
    assert lines[3] == "broker-prioritised FF 98, TS  172.18.0.2, 172.19.0.2, 127.0.0.1:1883"
    assert lines[4] == "  looplab/broker-prioritised:0.1.0"
    assert lines[5] == "  rtprio 90, cpus 0.5, memory 256 MiB, 256 processes, SYS_NICE"
    assert lines[6] == "  broker scheduling policy: SCHED_OTHER, but SCHED_FIFO 90 was wanted"
    assert lines[7] == "link               FF 98, TS  of broker-prioritised"
    assert "  real time 130 ms/s, 256 processes" in lines
    assert "  controller TCP_NODELAY: off, as wanted" in lines
    assert lines[-2:] == ["treatments of the whole run", "  stress load: running, as wanted"]


@pytest.mark.parametrize(
    ("name", "image", "roles"),
    [
        ("middleware-nats", "nats:2.10", {"nats"}),
        ("twin-brokers-2", "eclipse-mosquitto:2.0.22", {"broker"}),
        ("scenario5", "localhost/looplab/controller:0.1.0", {"controller"}),
    ],
)
def test_a_treatment_is_shown_with_the_part_it_is_about(name: str, image: str, roles: set[str]) -> None:
    part = inspect_parts.LabPart(name, image)
    asked = ("nats", "redis", "broker", "controller", "bridge")
    assert {role for role in asked if inspect_parts._has_role(part, role, {"scenario5"})} == roles
