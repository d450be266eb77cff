"""What /proc says of real child processes: names, threads, policies, limits, CPU time, sockets."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.parts import HOST
from support.places import ROOT
from support.wire import call

from looplab.system import processes

# Tells by a line that it is ready, then waits for its end.
MODULES = "from looplab.system import own_process, processes"
PREFIX = f"import sys, os, time, threading, socket; sys.path.insert(0, sys.argv[1]); {MODULES};"
SUFFIX = "print('ready', flush=True); time.sleep(600)"
Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def spawn(at_end: contextlib.ExitStack) -> Spawn:
    def start(program: str = "", *before: str, **options: object) -> subprocess.Popen[str]:
        command = [*before, sys.executable, "-c", f"{PREFIX}\n{program}\n{SUFFIX}", str(ROOT / "src")]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        at_end.callback(child.wait)
        at_end.callback(child.kill)
        assert child.stdout.readline() == "ready\n"
        return child

    return start


def schedulings(child: subprocess.Popen[str]) -> list[str]:
    """Return the policy of each thread."""
    return [thread["scheduling"] for thread in processes.facts(child.pid)["threads"]]


def fifo_permitted() -> bool:
    done = subprocess.run(["chrt", "-f", "90", "true"], capture_output=True, check=False)
    return done.returncode == 0


needs_fifo = pytest.mark.skipif(not fifo_permitted(), reason="this machine grants no real-time priority")


def test_processes_are_found_by_the_name_they_gave_themselves(spawn: Spawn) -> None:
    name = f"lt-{os.getpid()}"
    ours = sorted(spawn(f"own_process.set_name({name!r})").pid for _ in range(3))
    spawn(f"own_process.set_name({name + 'x'!r})")
    assert processes.named(name) == ours
    assert processes.named(name[:-1]) == []
    # The kernel cuts a name that is too long.
    assert spawn("own_process.set_name('lab-controller-of-old')").pid in processes.named("lab-controller-")


@needs_fifo
@pytest.mark.parametrize(("option", "scheduling"), [("-f", "SCHED_FIFO 7"), ("-r", "SCHED_RR 7")])
def test_a_real_time_policy_is_read_and_set_of_every_thread(spawn: Spawn, option: str, scheduling: str) -> None:
    threads = "[threading.Thread(target=time.sleep, args=(600,), daemon=True).start() for _ in range(3)]"
    child = spawn(threads, "chrt", option, "7")
    assert schedulings(child) == [scheduling] * 4
    assert processes.set_fifo(child.pid, 9) == ""
    assert schedulings(child) == ["SCHED_FIFO 9"] * 4


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to drop capabilities")
def test_capabilities_are_told_apart(spawn: Spawn) -> None:
    plain = processes.facts(spawn().pid)
    dropped = processes.facts(spawn("", "setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice").pid)
    user = ("setpriv", "--reuid=10099", "--regid=10099", "--clear-groups")
    held = ("--inh-caps=-all,+sys_nice", "--ambient-caps=-all,+sys_nice")
    assert (plain["sys_nice"], dropped["sys_nice"]) == ("effective", "not given")
    # As `cap_add` alone gives it to a user, and as the prioritised controller holds it.
    assert processes.facts(spawn("", *user).pid)["sys_nice"] == "without effect"
    assert processes.facts(spawn("", *user, *held).pid)["sys_nice"] == "effective"
    # All capabilities, of its own user namespace: the kernel asks for the machine's.
    assert processes.facts(spawn("", "unshare", "--user", "--map-root-user").pid)["sys_nice"] == "without effect"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a user who may do nothing")
def test_an_attempt_is_refused_without_limit_and_capability() -> None:
    code = "from looplab.system.own_process import try_fifo; print(try_fifo(90))"
    user = ("setpriv", "--reuid=10099", "--regid=10099", "--clear-groups")
    limit = ("prlimit", "--rtprio=0")
    assert call(*limit, *user, sys.executable, "-c", code) == "refused"
    assert call(sys.executable, "-c", code) == ("granted" if fifo_permitted() else "refused")


def test_a_process_is_told_from_its_successor_whatever_its_name(spawn: Spawn) -> None:
    """Brackets and spaces in a name shift no field."""
    plain, one = spawn(), spawn("own_process.set_name('a) S 1 (b')")
    found, facts = processes.identity(one.pid), processes.facts(one.pid)
    assert {key: facts[key] for key in found} == found
    assert found["started_ticks"] >= processes.facts(plain.pid)["started_ticks"] > 0
    assert facts["cpu_ns"] < 100 * 10**9
    one.kill()
    one.wait()
    assert processes.identity(one.pid) is None


@pytest.mark.parametrize("nodelay", [0, 1])
def test_sockets_of_another_process_are_read_and_left_alone(spawn: Spawn, nodelay: int, tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        child = spawn(
            f"s = socket.create_connection(({HOST!r}, {port}));"
            f"s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, {nodelay});"
            f"listening = socket.create_server(({HOST!r}, 0)); datagram = socket.socket(type=socket.SOCK_DGRAM);"
            f"file = open({str(tmp_path / 'file')!r}, 'w'); pipe = os.pipe(); pair = socket.socketpair();"
            "threading.Thread(target=lambda: s.sendall(s.recv(10)), daemon=True).start()"
        )
        found = processes.tcp_sockets(child.pid)
        if isinstance(found, str) and os.geteuid() != 0:
            pytest.skip(f"sockets of others are {found}")
        # The connection alone: neither what listens, nor datagrams, nor files.
        (entry,) = found
        assert (entry["peer"], entry["peer_port"], entry["tcp_nodelay"]) == (HOST, port, bool(nodelay))
        connection, address = server.accept()
        with connection:
            assert entry["local_port"] == address[1]
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                processes.facts(child.pid)
            assert len(os.listdir("/proc/self/fd")) == before
            # Looking has left the connection alone.
            connection.settimeout(30)
            connection.sendall(b"still here")
            assert connection.recv(10) == b"still here"
