"""The image of the report on a real engine: the commands that run in it, plain Compose's way in, the lab's pages."""

import contextlib
import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from support.containers import docker
from support.hardening import judge_container
from support.places import ROOT
from support.ports import free_port
from support.reports import write
from support.simulated_runs import simulated_cell, write_run
from support.waiting import until
from support.wire import call

from looplab.lab.checkout import Lab

pytestmark = pytest.mark.engine

# Of the lab's own user, and of nobody's.
USER = 12345


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the commands read, with a run of two scenarios."""
    Lab(ROOT).ready_report()
    root = tmp_path_factory.mktemp("report") / "a lab"
    for name in ("compose", "docs"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("compose.yaml", ".env"):
        shutil.copy(ROOT / name, root / name)
    for name in ("images", "src", "grafana", "firmware"):
        (root / name).symlink_to(ROOT / name)
    (root / ".cache").mkdir()
    shutil.copy(ROOT / ".cache/images.sha256", root / ".cache/images.sha256")
    rng = np.random.default_rng(1)
    for scenario, robot_us in (("scenario0", 70), ("scenario1", 4290)):
        cells = {(ms, 0): simulated_cell(rng, 3, 20, 9000, robot_us, 0.2) for ms in (100.0, 20.0)}
        write_run(root / "results", scenario, cells=cells)
    return root


def lab(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LAB_ROOT": str(checkout)}
    command = [str(ROOT / "lab"), *words]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=120)


def test_report_in_the_image_is_that_of_the_developers(checkout: Path, tmp_path: Path) -> None:
    done = lab(checkout, "report", "--out", str(tmp_path / "there"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(tmp_path / "there/index.html")
    write(checkout / "results", tmp_path / "here")
    tables = sorted(path.name for path in (tmp_path / "here").glob("*.csv"))
    assert len(tables) > 3
    for name in tables:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
    assert (tmp_path / "there/figures/loop_claims.svg").is_file()


def test_plain_compose_writes_the_report_and_shows_pages_to_this_machine(
    checkout: Path, at_end: contextlib.ExitStack
) -> None:
    port = free_port()
    variables = {"LAB_PAGES_PORT": str(port), "LAB_UID": str(USER), "LAB_GID": str(USER), "GRAFANA": "off"}
    project = ("docker", "compose", "--project-name", f"looplab-pages-{os.getpid()}", "--profile", "scenario0")

    def compose(*words: str) -> str:
        return call(*project, *words, cwd=checkout, env={**os.environ, **variables}, timeout_s=180)

    def answered(path: str, text: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                return text in answer.read().decode()
        except OSError:
            return False

    at_end.callback(compose, "down", "--volumes")
    compose("run", "--rm", "report")
    assert (checkout / "report/index.html").stat().st_uid == USER
    compose("up", "--detach", "--no-deps", "--no-build", "pages")
    until(lambda: answered("/", "Newest run: scenario"), "the first pages", 120)
    assert answered("/reports/index.html", "Claims")
    assert answered("/handouts/scenario5.html", "scenario5")
    # Neither lists of folders nor anything outside.
    for path in ("/reports/figures/", "/handouts/", "/../etc/passwd", "/%2e%2e/etc/passwd"):
        assert not answered(path, "")
    container = compose("ps", "--quiet", "pages")
    assert judge_container("pages", container) > 0
    host = json.loads(docker("inspect", container))[0]["HostConfig"]
    assert host["CpuShares"] == 128
    assert {binding["HostIp"] for bound in host["PortBindings"].values() for binding in bound} == {"127.0.0.1"}
