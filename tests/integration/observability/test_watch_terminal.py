"""`watch` in a real terminal (tmux) over a real run."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Callable

import pytest
from support.observed_lab import Lab
from support.places import ROOT
from support.waiting import until

Terminal = Callable[..., str]
SIZES = [(80, 24), (200, 50)]
PROGRAM = "import pathlib, sys; from looplab.lab.commands.watch import watch; sys.exit(watch(pathlib.Path('.')))"


@pytest.fixture
def open_terminal(measured: Lab, at_end: contextlib.ExitStack) -> Callable[[], Terminal]:
    """Gives terminals of their own: ("new", columns, rows) opens the view; other words go to tmux, which answers."""

    def make() -> Terminal:
        server = f"looplab-test-{uuid.uuid4().hex}"
        at_end.callback(subprocess.run, ["tmux", "-L", server, "kill-server"], capture_output=True, check=False)
        return _terminal(measured, server)

    return make


@pytest.fixture
def terminal(open_terminal: Callable[[], Terminal]) -> Terminal:
    return open_terminal()


def _terminal(measured: Lab, server: str) -> Terminal:
    def tmux(*words: str) -> str:
        done = subprocess.run(["tmux", "-L", server, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def call(what: str, *sizes: int) -> str:
        if what != "new":
            return tmux(*shlex.split(what))
        columns, rows = sizes
        variables = f"LAB_EXPORTER_PORT={measured.ports['exporter']} LANG=C.UTF-8 TERM=xterm-256color"
        command = (
            f"cd {ROOT} && {variables} PYTHONPATH=src {sys.executable} -c {shlex.quote(PROGRAM)}; echo ended $?; cat"
        )
        return tmux("new-session", "-d", "-s", "w", "-x", str(columns), "-y", str(rows), command)

    return call


def test_view_of_a_run(measured: Lab, open_terminal: Callable[[], Terminal]) -> None:
    """The same run in two terminals of different sizes."""
    run = measured.run("scenario5", MESSAGES=600, INTERVALS_MS="20")
    terminals = [open_terminal() for _ in SIZES]
    for terminal, (columns, rows) in zip(terminals, SIZES, strict=True):
        terminal("new", columns, rows)
    for terminal, (columns, rows) in zip(terminals, SIZES, strict=True):
        check_measuring(terminal, columns, rows)
    assert run.wait(60) in (0, 1)
    for terminal in terminals:
        check_ended(terminal)


def check_measuring(terminal: Terminal, columns: int, rows: int) -> None:
    def shown() -> str:
        return terminal("capture-pane -p -t w")

    until(lambda: "scenario5, fidelity thesis: running" in shown(), "the run is shown")
    first = shown()
    until(lambda: shown().split("\n")[0] != first.split("\n")[0], "the progress moves")
    lines = shown().rstrip("\n").split("\n")
    assert len(lines) <= rows
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("> 20 ms, QoS 0") for line in lines)
    assert re.search(r"^parts: .*controller \d", lines[-1])


def check_ended(terminal: Terminal) -> None:
    def shown() -> str:
        return terminal("capture-pane -p -t w")

    until(lambda: "scenario5, fidelity thesis: ended" in shown(), "the end is shown")
    assert "WRONG" in shown(), "this lab has no treatments service"
    assert re.search(r"^answered within +T +R +O *$", shown(), re.MULTILINE)
    terminal("send-keys -t w C-c")
    until(lambda: "ended 0" in shown(), "Ctrl-C ends the view")


def test_resize_and_a_dead_exporter(measured: Lab, terminal: Terminal) -> None:
    terminal("new", 200, 50)

    def shown() -> str:
        return terminal("capture-pane -p -t w")

    until(lambda: "scenario" in shown(), "a run is shown")
    terminal("resize-window -t w -x 80 -y 24")
    until(lambda: max(map(len, shown().rstrip().split("\n"))) <= 80 and "scenario" in shown(), "it fits again")
    measured.stop("exporter")
    until(lambda: "No exporter at" in shown(), "the view says that the exporter is gone")
    measured.start("exporter")
    until(lambda: "scenario" in shown(), "the view recovers")


def test_piped_it_prints_one_picture(measured: Lab) -> None:
    variables = {**os.environ, "LAB_EXPORTER_PORT": str(measured.ports["exporter"]), "PYTHONPATH": "src"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "O p50" in done.stdout
    assert "\x1b" not in done.stdout
