"""The agent's programs: real processes on chosen processors, found and stopped."""

import os
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import AddressValueError
from pathlib import Path

import pytest
from support.ports import free_port
from support.waiting import until

from looplab.errors import LabError
from looplab.experiments.middleware.agent.__main__ import order_token, routes
from looplab.experiments.middleware.agent.balancer import upstreams
from looplab.experiments.middleware.agent.programs import (
    RunningPrograms,
    family,
    killed_for_memory,
    live_processes,
)
from looplab.experiments.middleware.host import as_user
from looplab.experiments.middleware.parts import AgentClient
from looplab.experiments.middleware.systems import ServiceProgram, load
from looplab.system.json_service import serve


@pytest.fixture
def programs() -> Iterator[RunningPrograms]:
    found = RunningPrograms()
    yield found
    found.stop()


def program(then: str, marked: str = "") -> ServiceProgram:
    port = free_port()
    listening = f"import os, socket, time; s = socket.create_server(('127.0.0.1', {port})); {then}"
    return ServiceProgram("one", (sys.executable, "-c", listening), port=port, marked=marked)


def test_a_program_and_its_children_run_on_its_processors_alone(programs: RunningPrograms) -> None:
    processor = min(os.sched_getaffinity(0))
    programs.start([program("\nif os.fork() == 0:\n    while True: sum(range(1000))\ntime.sleep(60)")], [processor])
    until(lambda: programs.facts()["services"]["one"]["cpu_s"] > 0.05, "the child's CPU time")
    facts = programs.facts()["services"]["one"]
    _pid, child = family(facts["pid"], live_processes())
    os.kill(child, 9)
    assert (facts["processors"], facts["ended"]) == ([processor], None)
    assert facts["memory_bytes"] > 1_000_000
    # The kernel ends it before the agent.
    assert int(Path(f"/proc/{facts['pid']}/oom_score_adj").read_text()) >= 500
    # Its time still counts once it was stopped.
    programs.stop()
    after = programs.facts()
    assert after["services"] == {}
    assert after["cpu_s"] >= facts["cpu_s"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        # Java leaves a blank line below what it says.
        ((sys.executable, "-c", "print('no such table\\n\\n'); raise SystemExit(1)"), "no such table"),
        (("sh", "-ec", "echo schema is newer; false; exec sleep 60"), "schema is newer"),
        (("sleep", "60"), "it printed nothing"),
        (("/no/such/program",), "not found"),
    ],
)
def test_one_that_never_gets_ready_is_named_with_what_it_printed(
    programs: RunningPrograms, command: tuple[str, ...], why: str
) -> None:
    with pytest.raises(LabError, match=f"broken is not ready: .*{why}"):
        programs.start([ServiceProgram("broken", command, port=free_port())], [], 1.0)
    assert programs.facts()["services"] == {}


@pytest.mark.parametrize(
    ("name", "text", "killed"),
    [
        ("memory.events", "oom 4\noom_kill 2\n", 2),
        ("memory/memory.oom_control", "oom_kill_disable 0\noom_kill 3\n", 3),
        ("none", "", 0),
    ],
)
def test_programs_that_were_killed_for_memory_are_counted(tmp_path: Path, name: str, text: str, killed: int) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert killed_for_memory(tmp_path) == killed


def test_durations_are_counted_until_the_next_start(programs: RunningPrograms) -> None:
    lines = "".join(f'{{"msg":"Publish completed","duration":"{text}"}}\n' for text in ("1.5ms", "850.25µs", "2.5s"))
    printing = program(f"print({lines!r}, flush=True); time.sleep(60)", marked="Publish")
    for _ in range(2):
        programs.start([printing], [])
        until(lambda: programs.facts()["durations_us"].total() == 3, "the durations")
        assert programs.facts()["durations_us"] == {1500: 1, 850: 1, 2_500_000: 1}


@pytest.mark.parametrize("upstream", ["10.0.0.1; }", "10.0.0.1:80", "node-1", "", "unix:/tmp/x", "10.0.0.1\n"])
def test_the_balancer_takes_addresses_alone(upstream: str) -> None:
    with pytest.raises(AddressValueError):
        upstreams(load("magistrala"), ["10.0.0.1", upstream])


def test_an_order_carries_the_token_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", str(tmp_path))
    there = ("127.0.0.1", free_port())
    server = serve(*there, routes(RunningPrograms(), "/nowhere", [0]), "", order_token)
    for now in ("", "one", "two"):
        (tmp_path / "nodes").write_text(now)
        with pytest.raises(LabError, match="token"):
            AgentClient(*there, "other").ask("facts")
    assert AgentClient(*there, "two").ask("facts")["services"] == {}
    server.shutdown()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_bare_metal_is_an_ordinary_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show = ("/bin/sh", "-c", "id -u; id -G; grep -E 'Cap(Prm|Eff|Amb)|NoNewPrivs' /proc/self/status")
    os.chown(tmp_path, 12345, 12346)
    for sudo, uid, gid in ((None, 12345, 12346), (4321, 4321, 4322)):
        for name, value in (("SUDO_UID", uid), ("SUDO_GID", gid)):
            monkeypatch.setenv(name, str(value)) if sudo else monkeypatch.delenv(name, raising=False)
        said = subprocess.run([*as_user(tmp_path), *show], capture_output=True, text=True, check=True).stdout
        assert said.split() == [
            str(uid), str(gid), "CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapAmb:", "0" * 16, "NoNewPrivs:", "1",
        ]  # fmt: skip
    os.chown(tmp_path, 0, 0)
    monkeypatch.delenv("SUDO_UID")
    assert "--reuid=65534" in as_user(tmp_path)
