"""A lab of the tests' own: a copy of this checkout under another project name, on other ports.

What the tests change (params.env, compose.yaml) and store (results/) stays in the copy. The kernel shares one real-time
budget out among all running containers: one lab that asks for it runs at a time, and no test asks for one beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from looplab.lab.checkout import Lab as RootLab
from looplab.lab.docker.engine import find_engine
from looplab.lab.docker.images import images_of
from looplab.lab.docker.own_images import add_stamps, read_stamps
from looplab.lab.image_names import TAG
from looplab.system.env_files import read_env
from support.containers import docker
from support.parts import BUSY, CLEARED
from support.places import ROOT
from support.ports import free_port
from support.run_checks import check_run
from support.waiting import until
from support.wire import call

# Each test session is a project of its own, so that two may go on at once.
PROJECT_PREFIX = "looplab-e2e-"
PROJECT = f"{PROJECT_PREFIX}{os.getpid()}"
PROJECT_LABEL = "com.docker.compose.project"
PORTS = ("LAB_BROKER_PORT", "LAB_PROMETHEUS_PORT", "LAB_GRAFANA_PORT", "LAB_EXPORTER_PORT", "LAB_PAGES_PORT")
RATIONED = "LAB_RATIONED"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="killing a container's process from outside needs root")

# An image that Compose built has the label of its project, and so has any container of that image; Compose's own
# containers have this one, too.
OF_COMPOSE = ("--filter", "label=com.docker.compose.config-hash")

# How each kind of thing is listed and removed.
KINDS = (
    (("ps", "--all", *OF_COMPOSE), ("rm", "--force", "--volumes")),
    (("network", "ls"), ("network", "rm")),
    (("volume", "ls"), ("volume", "rm", "--force")),
)


def remove_project(project: str) -> None:
    for listing, remove in KINDS:
        found = docker(*listing, "--quiet", "--filter", f"label={PROJECT_LABEL}={project}").split()
        if found:
            docker(*remove, *found)


def remove_images(project: str) -> None:
    """Remove a session's names of images: the lab of the checkout has names of its own for the same images."""
    listing = ("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "--filter", f"reference=*/*/*:{project}")
    if tagged := docker(*listing).split():
        docker("image", "rm", *tagged)


def remove_what_dead_sessions_left() -> None:
    """A session that was killed could not clear up; its process id is in the name of its project."""
    names = set()
    for listing, _ in KINDS:
        names.update(docker(*listing, "--format", f'{{{{.Label "{PROJECT_LABEL}"}}}}').split())
    names.update(docker("image", "ls", "--format", "{{.Tag}}").split())
    for name in names:
        process = name.removeprefix(PROJECT_PREFIX)
        if name.startswith(PROJECT_PREFIX) and process.isdigit() and not Path(f"/proc/{process}").exists():
            # An engine may hold a network whose containers are gone: the next session tries again.
            with contextlib.suppress(AssertionError):
                remove_project(name)
                remove_images(name)


@dataclass
class Background:
    """A ./lab that goes on while the test does something to it."""

    process: subprocess.Popen[str]
    results: Path
    output: list[str] = field(default_factory=list)

    def wait_for(self, word: str, timeout_s: float = 180.0) -> str:
        """Read on until a line of standard error holds `word`."""
        assert self.process.stderr is not None
        end_s = time.monotonic() + timeout_s
        for line in self.process.stderr:
            self.output.append(line)
            if word in line:
                return line
            assert time.monotonic() < end_s, f"{word!r} did not come: {''.join(self.output)}"
        raise AssertionError(f"./lab ended before {word!r}: {''.join(self.output)}")

    def finish(self, timeout_s: float = 120.0) -> tuple[int, str, str]:
        """(exit code, standard output, standard error)"""
        out, rest = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, out, "".join(self.output) + rest

    def ended(self, code: int = 0, timeout_s: float = 120.0) -> dict[str, Any]:
        """Wait for its end with this exit code; return the only run that `--json` printed."""
        found, output, said = self.finish(timeout_s)
        assert found == code, said
        return only_run(output, self.results)


def only_run(output: str, results: Path) -> dict[str, Any]:
    """Return the only run that `--json` printed; one of the loop is checked against its folder."""
    (run,) = json.loads(output)["runs"]
    if run["experiment"] == "loop":
        check_run(results / run["run_id"], run)
    return dict(run)


def finished(
    command: list[str], folder: Path, environment: Mapping[str, str], timeout_s: float, code: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `command` to its end, both streams kept; its exit code must be `code` where that is given."""
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=timeout_s, check=False,
    )  # fmt: skip
    assert code in (None, done.returncode), f"{command} gave {done.returncode}: {done.stdout}{done.stderr}"
    return done


@dataclass
class Lab:
    """The copy at `root`; every call takes more variables by keyword."""

    root: Path
    environment: dict[str, str]
    started: list[Background] = field(default_factory=list)

    def run(
        self, *words: str, timeout_s: float = 240.0, code: int | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """./lab with these words."""
        return finished(self._lab(words), self.root, {**self.environment, **variables}, timeout_s, code)

    def stored(self, output: str) -> dict[str, Any]:
        return only_run(output, self.root / "results")

    def start(self, *words: str, **variables: str) -> Background:
        """./lab in the background, a process group of its own as a terminal gives it."""
        process = subprocess.Popen(
            # Tests under nohup, or in a shell's background, hand down that signals are ignored; a terminal does not.
            ["env", "--default-signal=HUP,INT", *self._lab(words)],
            cwd=self.root,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(Background(process, self.root / "results"))
        return self.started[-1]

    def measuring(
        self, scenario: str, repetitions: int, *words: str, interval_ms: int = 20, **variables: str
    ) -> Background:
        """./lab run in the background with so many repetitions of 100 messages, once it sends them."""
        sizes = ("--intervals", str(interval_ms), "--messages", "100", "--repetitions", str(repetitions))
        running = self.start("run", scenario, *sizes, "--json", *words, **variables)
        running.wait_for(f"{interval_ms} ms, QoS 0")
        return running

    def compose(
        self, *words: str, timeout_s: float = 240.0, code: int | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Plain `docker compose`, with what ./lab setup found about this machine."""
        environment = {**self.environment, "COMPOSE_ENV_FILES": ".env,.env.machine", **variables}
        return finished(["docker", "compose", "--ansi", "never", *words], self.root, environment, timeout_s, code)

    def down(self) -> None:
        """Remove whatever of this project is left, volumes included, whatever state compose.yaml is in."""
        # A ./lab that outlives its test, which failed, would end the next one's containers with its own.
        for one in self.started:
            if one.process.poll() is None:
                os.killpg(one.process.pid, signal.SIGKILL)
        self.started.clear()
        remove_project(PROJECT)

    def containers(self, *, running: bool = True) -> dict[str, str]:
        """Container id by service."""
        words = ["ps", "--no-trunc", *OF_COMPOSE, "--filter", f"label={PROJECT_LABEL}={PROJECT}"]
        listing = docker(
            *words, *([] if running else ["--all"]), "--format", '{{.ID}}\t{{.Label "com.docker.compose.service"}}'
        )
        return {service: container for container, service in (line.split("\t") for line in listing.splitlines())}

    def networks(self) -> list[str]:
        return docker("network", "ls", "--quiet", "--filter", f"label={PROJECT_LABEL}={PROJECT}").split()

    def password(self, name: str) -> str:
        """A password that `prepare` made, or a token of this start."""
        volume = docker("volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_identities")
        return (Path(volume) / name).read_text()

    def wait_for_end(self, service: str, timeout_s: float = 120.0) -> int:
        """Exit code of a service that ends by itself."""
        container = self.containers(running=False)[service]
        return int(docker("wait", container, timeout_s=timeout_s))

    def kill_process(self, service: str) -> None:
        """SIGKILL from the host: `docker kill` would count as a person's wish and hold the restart policy back."""
        os.kill(self.process(service), signal.SIGKILL)

    def process(self, service: str) -> int:
        """Process id of a service, once it runs."""
        container = self.container(service)
        # A container between two starts has process 0, which would be the tests' own group.
        found: int = until(lambda: int(docker("inspect", "--format", "{{.State.Pid}}", container)), service)
        return found

    def container(self, service: str) -> str:
        """Id of a service's container, once it runs."""
        found: str = until(lambda: self.containers().get(service), f"container of {service}")
        return found

    def runs(self) -> list[Path]:
        """Whole runs, oldest first."""
        return sorted(path.parent for path in (self.root / "results").glob("*/run.json"))

    def interrupted(self) -> list[Path]:
        return sorted(path.parent for path in (self.root / "results").glob("*/interrupted.json"))

    def newest(self) -> tuple[Path, dict[str, Any]]:
        """The folder and the document of the last whole run."""
        folder = self.runs()[-1]
        return folder, json.loads((folder / "run.json").read_text())

    def machine_file(self) -> dict[str, str]:
        """What ./lab setup found out about this machine."""
        return read_env(self.root / ".env.machine")

    def another(self, root: Path) -> Lab:
        """A copy of the copy for a test that changes its files; same project, same ports: one at a time."""
        shutil.copytree(self.root, root, ignore=shutil.ignore_patterns("results", "__pycache__"))
        (root / "results").mkdir()
        return Lab(root, {**self.environment, "PYTHONPATH": str(root / "src")}, self.started)

    def forget_runs(self) -> None:
        """Remove runs and studies: a second attempt finds what the first one found."""
        for path in (self.root / "results").iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix == ".json":
                path.unlink()

    def _lab(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "looplab.lab.cli", *words]


def copy_of_checkout(target: Path, *, as_set_up: bool = True) -> Path:
    """Every file git knows or would take, as it is on disk now, and (`as_set_up`) what ./lab setup left here."""
    for name in call("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0"):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    (target / "results").mkdir(exist_ok=True)
    if as_set_up:
        (target / ".cache").mkdir(exist_ok=True)
        for path in (ROOT / ".cache").glob("*.*"):
            shutil.copy2(path, target / ".cache")
        if (ROOT / ".env.machine").exists():
            shutil.copy2(ROOT / ".env.machine", target)
    return target


@pytest.fixture(scope="session")
def session_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One copy for all tests, made ready once."""
    if not find_engine().serves:
        pytest.fail("no Docker engine answers here: run ./lab setup first")
    root = copy_of_checkout(tmp_path_factory.mktemp("e2e") / "lab")
    environment = {
        **{name: value for name, value in os.environ.items() if name not in CLEARED},
        "PYTHONPATH": str(root / "src"),
        "COMPOSE_PROJECT_NAME": PROJECT,
        "LAB_TAG": PROJECT,
        # For plain Compose; ./lab has a variable of its own.
        "LOOPLAB_ENVIRONMENT": BUSY,
        "LAB_BUSY": "on",
        **{name: str(free_port()) for name in PORTS},
    }
    lab = Lab(root, environment)
    remove_what_dead_sessions_left()
    try:
        set_up(lab)
        yield lab
    finally:
        lab.down()
        remove_images(PROJECT)


def set_up(lab: Lab) -> None:
    """Have the images of a lab under its own tag: what another lab builds again replaces none of them."""
    tag = RootLab(ROOT).settings()[TAG]
    stamps = {name: stamp for name, stamp in read_stamps(ROOT).items() if name.endswith(f":{tag}")}
    here = images_of(stamps)
    own = {f"{name.removesuffix(tag)}{PROJECT}": stamps[name] for name in here}
    for name, reference in zip(here, own, strict=True):
        docker("tag", name, reference)
    add_stamps(lab.root, own)
    lab.run("setup", timeout_s=900, code=0)


@pytest.fixture
def lab(session_lab: Lab) -> Iterator[Lab]:
    """The copy with nothing running before and after."""
    yield session_lab
    session_lab.down()


@pytest.fixture
def own_lab(session_lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """A copy that the test may change, with nothing running before and after."""
    yield session_lab.another(tmp_path / "lab")
    session_lab.down()
