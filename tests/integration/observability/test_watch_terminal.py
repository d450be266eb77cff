"""`watch` in a real terminal (tmux) over a real run."""

import contextlib
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

# Words for a tmux server of the test's own, which answers.
Tmux = Callable[..., str]
PROGRAM = "import pathlib, sys; from looplab.lab.commands.watch import watch; sys.exit(watch(pathlib.Path('.')))"


@pytest.fixture
def tmux(at_end: contextlib.ExitStack) -> Tmux:
    server = f"looplab-test-{uuid.uuid4().hex}"
    at_end.callback(subprocess.run, ["tmux", "-L", server, "kill-server"], capture_output=True, check=False)
    return lambda *words: (
        subprocess.run(["tmux", "-L", server, *words], capture_output=True, text=True, check=True).stdout
    )


def test_view_of_a_run(measured: Lab, tmux: Tmux) -> None:
    """It fits a large terminal and a small one, outlives its exporter, and ends by Ctrl-C."""
    run = measured.run("scenario5", MESSAGES=450, INTERVALS_MS="20")
    variables = f"LAB_EXPORTER_PORT={measured.ports['exporter']} LANG=C.UTF-8 TERM=xterm-256color PYTHONPATH=src"
    view = f"cd {ROOT} && {variables} {sys.executable} -c {shlex.quote(PROGRAM)}; echo ended $?; cat"
    tmux("new-session", "-d", "-s", "w", "-x", "200", "-y", "50", view)

    def shown() -> list[str]:
        return tmux("capture-pane", "-p", "-t", "w").rstrip("\n").split("\n")

    def says(words: str) -> bool:
        return any(words in line for line in shown())

    until(lambda: says("scenario5, fidelity thesis: running"), "the run is shown")
    first = shown()[0]
    until(lambda: shown()[0] != first, "the progress moves")
    assert any(line.startswith("> 20 ms, QoS 0") for line in shown())
    assert re.search(r"^parts: .*controller \d", shown()[-1])
    tmux("resize-window", "-t", "w", "-x", "80", "-y", "24")
    until(lambda: max(map(len, shown())) <= 80 and len(shown()) <= 24 and says("scenario5"), "it fits again")
    measured.kill("exporter")
    until(lambda: says("No exporter at"), "the view says that the exporter is gone")
    measured.start("exporter")
    until(lambda: says("scenario5"), "the view recovers")
    assert run.wait(60) in (0, 1)
    until(lambda: says("scenario5, fidelity thesis: ended"), "the end is shown")
    assert says("WRONG"), "this lab has no treatments service"
    assert any(re.search(r"^answered within +T +R +O *$", line) for line in shown())
    tmux("send-keys", "-t", "w", "C-c")
    until(lambda: says("ended 0"), "Ctrl-C ends the view")
