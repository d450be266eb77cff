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
from looplab.experiments.middleware import parts
from looplab.experiments.middleware.agent import usage
from looplab.experiments.middleware.agent.__main__ import Agent, order_token
from looplab.experiments.middleware.agent.balancer import configuration
from looplab.experiments.middleware.agent.programs import Programs, answers, connects, microseconds
from looplab.experiments.middleware.host import as_user
from looplab.experiments.middleware.systems import Program, in_turn, load
from looplab.system.json_service import serve

LISTEN = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); print('up', flush=True); {then}"


@pytest.fixture
def programs() -> Iterator[Programs]:
    found = Programs()
    yield found
    found.stop()


def program(then: str, port: int, **more: object) -> Program:
    return Program("one", (sys.executable, "-c", LISTEN.format(port=port, then=then)), health=port, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"), [("1.5ms", 1500), ("850.25µs", 850.25), ("1m2.5s", 62.5e6), ("900ns", 0.9), ("0s", 0)]
)
def test_a_duration_of_go_is_read(text: str, expected: float) -> None:
    assert microseconds(text) == pytest.approx(expected)


def test_a_program_runs_on_its_processors_alone(programs: Programs) -> None:
    port, processor = free_port(), min(os.sched_getaffinity(0))
    programs.start([program("\nwhile True: sum(range(1000))", port)], [processor])
    until(lambda: programs.facts()["services"]["one"]["cpu_s"] > 0, "CPU time")
    facts = programs.facts()["services"]["one"]
    assert facts["processors"] == [processor]
    assert facts["cpu_s"] > 0
    assert facts["memory_bytes"] > 1_000_000
    assert facts["ended"] is None
    # The kernel ends it before the agent.
    assert int(Path(f"/proc/{facts['pid']}/oom_score_adj").read_text()) >= 500


def test_what_its_children_used_is_its_own(programs: Programs) -> None:
    port = free_port()
    then = "import os\nif os.fork() == 0:\n    while True: sum(range(1000))\ntime.sleep(60)"
    programs.start([program(then, port)], [])
    pid = programs.facts()["services"]["one"]["pid"]
    child = until(lambda: usage.family([pid])[pid][1:], "the child")[0]
    try:
        until(lambda: programs.facts()["services"]["one"]["cpu_s"] > 0.05, "the child's CPU time")
    finally:
        os.kill(child, 9)


def test_one_that_ends_is_seen_with_its_exit_code(programs: Programs, tmp_path: Path) -> None:
    end = tmp_path / "end"
    then = f"import os\nwhile not os.path.exists({str(end)!r}): time.sleep(0.01)\nraise SystemExit(7)"
    programs.start([program(then, free_port())], [])
    end.touch()
    until(lambda: programs.facts()["services"]["one"]["ended"] == 7, "its exit code")


def test_one_that_never_gets_ready_is_named_with_what_it_printed(programs: Programs) -> None:
    # Java leaves a blank line below what it says.
    script = "print('no such table\\n\\n'); raise SystemExit(1)"
    broken = Program("broken", (sys.executable, "-c", script), health=free_port())
    with pytest.raises(LabError, match=r"broken is not ready: (no such table|it printed nothing)"):
        programs.start([broken], [])
    assert programs.facts()["services"] == {}


def test_what_never_gets_ready_is_named() -> None:
    endless = (sys.executable, "-c", "import time; time.sleep(60)")
    with pytest.raises(LabError, match="one is not ready"):
        Programs().start([Program("one", endless, health=free_port())], [], 0.5)


@pytest.mark.parametrize(
    ("name", "text", "pages"),
    [
        ("memory.stat", "anon 4096\nworkingset_refault_anon 3\nworkingset_refault_file 7\n", 7),
        ("memory/memory.stat", "cache 9\nworkingset_refault_file 12\n", 12),
        ("memory/memory.stat", "cache 9\n", 0),
        ("none", "", 0),
    ],
)
def test_what_is_read_again_for_lack_of_memory_is_counted(tmp_path: Path, name: str, text: str, pages: int) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert usage.read_again_bytes(tmp_path) == pages * usage.PAGE_BYTES


def test_what_comes_first_must_end_well(programs: Programs) -> None:
    first, then = (sys.executable, "-c", "import sys; sys.exit('schema is newer')"), ("sleep", "60")
    with pytest.raises(LabError, match="schema is newer"):
        programs.start([Program("one", in_turn(first, then), health=free_port())], [])


def test_durations_are_handed_out_once(programs: Programs) -> None:
    line = '{"msg":"Publish completed","duration":"1.5ms"}'
    programs.start([program(f"print('{line}', flush=True); time.sleep(60)", free_port(), marked="Publish")], [])
    assert until(programs.durations, "a duration") == {"1500": 1}
    assert programs.durations() == {}


def test_all_are_stopped(programs: Programs) -> None:
    port = free_port()
    programs.start([program("time.sleep(60)", port)], [])
    assert connects("127.0.0.1", port)
    programs.stop()
    assert not answers(port)


@pytest.mark.parametrize("upstream", ["10.0.0.1; }", "10.0.0.1:80", "node-1", "", "unix:/tmp/x", "10.0.0.1\n"])
def test_the_balancer_takes_addresses_alone(upstream: str) -> None:
    with pytest.raises(AddressValueError):
        configuration(load("magistrala"), ["10.0.0.1", upstream])


def test_an_order_carries_the_token_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", str(tmp_path))
    there = ("127.0.0.1", free_port())
    server = serve(*there, Agent("/nowhere").routes(), "", order_token)
    for now in ("", "one", "two"):
        (tmp_path / "nodes").write_text(now)
        with pytest.raises(LabError, match="token"):
            parts.Agent(*there, token="other").check()
    assert parts.Agent(*there).ask("facts", {"light": True})["services"] == {}
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_bare_metal_ends_with_the_lab(tmp_path: Path) -> None:
    command = [*as_user(tmp_path), "sleep", "60"]
    start = f"import subprocess, sys; print(subprocess.Popen({command!r}, stdout=-3).pid, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", start], stdin=-1, stdout=-1, text=True) as parent:
        assert parent.stdout is not None
        pid = parent.stdout.readline().strip()
        until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "setpriv became the program")
        parent.kill()
    until(lambda: not Path(f"/proc/{pid}/exe").exists(), "its end")


def test_the_balancer_knows_each_paths_service_on_every_node() -> None:
    text = configuration(load("magistrala"), ["10.0.0.1", "10.0.0.2"])
    assert "worker_connections 9000" in text
    assert "listen 8443 ssl backlog=9000" in text
    assert "location /channels/ { proxy_pass http://port_8008; }" in text
    assert "location / { proxy_pass http://port_9000; }" in text
    assert all(f"server {node}:8008" in text for node in ("10.0.0.1", "10.0.0.2"))
