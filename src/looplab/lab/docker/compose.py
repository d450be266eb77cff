"""Talk to Docker Compose about this lab; every variable of a run travels in the environment."""

import contextlib
import json
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_MACHINE, EXIT_USAGE, LabError, MachineError, UsageError
from looplab.lab.docker.engine import ask
from looplab.lab.programs import Outcome, call
from looplab.lab.settings import project_name
from looplab.system.remedies import remedy_of

# A shared, emulated processor needed more than 300 s to start scenario5, and 110 s to stop it.
UP_TIMEOUT_S = 1200.0
DOWN_TIMEOUT_S = 600.0
LAST_WORDS_LINES = "3"
# What the engine prints before the reason.
_BEFORE = re.compile(r".*unable to start container process: |driver failed programming [^:]*: ")
_ENDED = re.compile(r'service "([\w-]+)" didn\'t complete successfully: exit (\d+)')


class Compose:
    """`docker compose` in `root` with `environment` over the shell's own."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._root = root
        self.environment = dict(environment)
        self._own_session = False
        # Services whose image is not here: no container of them is started.
        self.left_out: set[str] = set()

    def up(self, profile: str, *, replace: bool) -> None:
        """Start a profile in the background; LabError (exit code 3) names the container that failed and the reason.

        With `replace`, a running container whose configuration has changed is replaced. The owner of a PID namespace
        must not be: all that joined it would end.
        """
        none = [word for service in sorted(self.left_out) for word in ("--scale", f"{service}=0")]
        words = ("up", "--detach", "--no-build", "--pull", "never", *none, *(() if replace else ("--no-recreate",)))
        done = self._call("--profile", profile, *words, timeout_s=UP_TIMEOUT_S)
        if not done.good:
            raise self._refusal(profile, done)

    def _refusal(self, profile: str, done: Outcome) -> LabError:
        ended = _ENDED.search(done.stderr)
        if ended is None:
            return MachineError(f"Compose could not start {profile}: {_reason(done)}", _remedy(done))
        last = call(["docker", "logs", "--tail", "1", self.container(ended[1])]).reason
        code = EXIT_USAGE if int(ended[2]) == EXIT_USAGE else EXIT_MACHINE
        what = f"{profile} was not started, {ended[1]} ended with exit code {ended[2]}: {last}"
        return LabError(what, remedy_of(last, ""), code)

    def remove(self, containers: Collection[str]) -> None:
        """Stop and remove containers, whether they run or not, and what their images alone call a volume.

        The engine needs no Compose file for that, which takes half a second to read.
        """
        for words in (("stop",), ("rm", "--force", "--volumes")) if containers else ():
            ask(*words, *containers, timeout_s=DOWN_TIMEOUT_S, own_session=self._own_session)

    def shield(self) -> None:
        """Protect all later calls from a Ctrl-C at the terminal."""
        self._own_session = True

    def stop(self, service: str) -> None:
        """Stop a service's container; the engine does not restart it."""
        if container := self.container(service):
            ask("stop", container, timeout_s=DOWN_TIMEOUT_S, own_session=self._own_session)

    def down(self) -> Outcome:
        """Stop and remove everything of every profile; results and Prometheus's data stay."""
        # Compose stops a controller, which keeps what it measured, before the treatments service, whose end kills all.
        # `down` alone leaves volumes without a name: 40 MB of the database for each run.
        self._call("--profile", "*", "rm", "--stop", "--force", "--volumes", timeout_s=DOWN_TIMEOUT_S)
        return self._call("--profile", "*", "down", "--remove-orphans", timeout_s=DOWN_TIMEOUT_S)

    def once(self, service: str, *words: str) -> str:
        """Run a service's program with `words` in a container of its own, and return what it prints."""
        done = self._call("run", "--rm", "--no-deps", "--no-TTY", service, *words)
        if not done.good:
            raise MachineError(f"{service} failed: {_reason(done)}", _remedy(done))
        return done.stdout

    def fallen(self) -> dict[str, str]:
        """Return the last lines of each service whose container ended, or restarts again and again."""
        states = [word for state in ("exited", "restarting", "dead") for word in ("--filter", f"status={state}")]
        fallen = {}
        for service, container in self.listed("--all", *states).items():
            words = call(["docker", "logs", "--tail", LAST_WORDS_LINES, container])
            fallen[service] = " / ".join(line.strip() for line in (words.stdout + words.stderr).splitlines())
        return fallen

    def logs(self) -> str:
        """Return what the containers have printed so far."""
        return self._call("--profile", "*", "logs", "--no-color", "--timestamps").stdout

    def config(self, *profiles: str) -> dict[str, Any]:
        """Return the configuration as Compose reads it; LabError (exit code 2) if it cannot."""
        named = [word for profile in profiles for word in ("--profile", profile)]
        done = self._call(*named, "config", "--format", "json")
        if not done.good:
            remedy = remedy_of(
                done.stderr, "Correct the variable or file that it names: `git diff .env compose` shows changes."
            )
            raise UsageError(f"The Compose files do not fit together: {done.reason}", remedy)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def container(self, service: str) -> str:
        """Return the id of a service's container, "" if there is none."""
        return self.listed("--all").get(service, "")

    def listed(self, *words: str) -> dict[str, str]:
        """Return {service: container}, of running ones unless `words` ask for more.

        The engine's own list: Compose would read every file first.
        """
        project = self.environment.get("COMPOSE_PROJECT_NAME") or project_name(self._root)
        listing = ask(
            *("ps", "--no-trunc", *words, "--filter", f"label=com.docker.compose.project={project}"),
            *("--filter", "label=com.docker.compose.oneoff=False"),
            *("--format", '{{.Label "com.docker.compose.service"}} {{.ID}}'),
        )
        return dict(line.split(" ", 1) for line in listing.stdout.splitlines() if " " in line)

    def started(self, service: str) -> str:
        """Return when a service's container was started, e.g. 2026-11-27 00:18:35 UTC."""
        form = ["docker", "inspect", "--format", "{{.State.StartedAt}}", self.container(service)]
        return f"{call(form).stdout[:19].replace('T', ' ')} UTC"

    def exit_code(self, service: str) -> int:
        """Wait for a service's container and return its exit code."""
        answer = call(["docker", "wait", self.container(service)], timeout_s=30)
        return int(answer.stdout) if answer.good and answer.stdout.strip().isdigit() else 1

    def _call(self, *words: str, timeout_s: float = 60.0) -> Outcome:
        return call(
            ["docker", "compose", "--ansi", "never", "--progress", "plain", *words],
            timeout_s=timeout_s,
            environment=self.environment,
            directory=str(self._root),
            own_session=self._own_session,
        )


def read_events(command: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON lines that a command prints, as they come, until it ends; other lines as {"text": …}."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield _event(line)
        finally:
            process.terminate()


def _event(line: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        if isinstance(event := json.loads(line), dict):
            return event
    return {"event": "text", "text": line.rstrip("\n")}


def _reason(done: Outcome) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if "rror" in line] or [done.reason]
    return _BEFORE.sub("", lines[-1].removeprefix("Error response from daemon: "))


def _remedy(done: Outcome) -> str:
    return remedy_of(done.stderr, "Run ./lab doctor; `docker compose logs` shows what the containers printed.")
