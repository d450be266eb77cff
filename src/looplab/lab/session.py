"""Run one scenario after another on this machine, and end cleanly whenever somebody asks."""

import contextlib
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_MACHINE, EXIT_USAGE, LabError, MachineError, UsageError
from looplab.lab.alone import check_idle, hold_lab
from looplab.lab.checkout import Lab
from looplab.lab.docker.compose import Compose, read_events
from looplab.lab.docker.engine import NO_ANSWER, find_engine
from looplab.lab.docker.model import check_images
from looplab.lab.pages import elsewhere
from looplab.lab.programs import call
from looplab.lab.progress import follow_run
from looplab.lab.run_options import BUSY
from looplab.lab.scenarios import LOOP_FILE, Scenario, every
from looplab.lab.settings import address_of, check_parts, project_name
from looplab.run.folder import LOCK, UNFINISHED, count_samples
from looplab.spec.experiment import Experiment
from looplab.system.env_files import read_env
from looplab.system.lock import holder
from looplab.system.remedies import ENGINE_GONE, NO_MEMORY
from looplab.system.terminal import say
from looplab.system.words import plural
from looplab.treatments.loads import loads

# This function gets each run.json.
After = Callable[[dict[str, Any]], None]
# These services go on across runs: they do not join the PID namespace of the treatments service.
KEPT_BEFORE = ("prometheus", "grafana", "pages")
# These stay after a run; the exporter lives in the PID namespace of the treatments service.
KEPT_AFTER = (*KEPT_BEFORE, "exporter", "treatments")
# The next scenario of the same session uses these, too.
KEPT_BETWEEN = (*KEPT_AFTER, "prepare", "bridge", "robot", "link")
DONE_BEFORE = ("prepare",)  # Its end is no failure.
# The output of a failed run's containers is kept here: the containers are removed.
LOG = Path(".cache/containers.log")
# The signals of Ctrl-C, of `kill` and timeout(1), and of a terminal that was closed.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A container whose process got SIGKILL has this exit code.
KILLED = 137
NEXT = "Next: ./lab report --open    ./lab show"
# A Compose file's reference to a variable; `$${` is a program's own.
_VARIABLE = re.compile(r"(?<!\$)\$\{([A-Z][A-Z0-9_]*)")


class RunSession:
    """Several runs share a machine that is ready, Compose, and the facts that every run.json gets."""

    def __init__(self, lab: Lab) -> None:
        """Make the machine ready. Raises LabError."""
        check_parts(lab.root, lab.settings())
        catch_interrupts()
        # Hold the lab before any image is built: a build would disturb another run.
        engine = lab.make_ready(lambda engine: hold_lab(lab, engine))
        lab.check_ports(engine)
        self.lab = lab
        self._has_report = False
        self.facts = lab.environment_facts(engine)
        typed = command_line(lab.root, [scenario.experiment for scenario in lab.scenarios])
        self.facts |= {"busy_wanted": lab.settings().get(BUSY) == "on", "command_line": typed}

    def run(self, scenarios: Sequence[Scenario], after: After) -> bool:
        """Run scenarios one after another, call `after` with the run.json of each; return whether all
        were run. An interruption keeps what was measured; an error stops the containers and is raised."""
        with _host_part(self.lab, scenarios[0]) as variables:
            compose = self.lab.compose({"LOOPLAB_EVENTS": "json", **variables})
            return self._run(compose, scenarios, after)

    def _run(self, compose: Compose, scenarios: Sequence[Scenario], after: After) -> bool:
        root, scenario = self.lab.root, scenarios[0]
        started, known = "", every(root).keys()
        check_idle(compose, known)
        try:
            recover(compose, root)
            _clear(compose, scenario.name, self.lab.services(scenario.name))
            for number, scenario in enumerate(scenarios):
                compose.environment |= scenario.load_settings(self.lab.settings())
                say(f"[{number + 1}/{len(scenarios)}] {scenario.run_name}: {scenario.title}")
                facts = {**self.facts, **self.lab.model_facts(scenario.name)}
                # No run waits for the image of the report, from which the pages are served.
                self._has_report = "pages" in facts["images"]
                if not self._has_report:
                    compose.left_out.add("pages")
                compose.environment["LOOPLAB_ENVIRONMENT"] = json.dumps(facts)
                stay = KEPT_AFTER if number + 1 == len(scenarios) else KEPT_BETWEEN
                compose.up(scenario.name, replace=number == 0)
                containers = compose.listed("--all")
                started = containers[scenario.name]
                check_images(containers, scenario.name, facts["images"])
                document = _one(root, compose, scenario, started, (*stay, *scenario.experiment.kept))
                started = ""
                after(document)
        except KeyboardInterrupt:
            _interrupted(compose, scenario, root, lambda: _is_own(compose, scenario.name, started, known))
            return False
        except BaseException:
            if _is_own(compose, scenario.name, started, known):
                _store_logs(compose, root, scenario.name)
                compose.down()
            raise
        return True

    def where(self) -> None:
        """Print what to do next, and where the runs are shown."""
        settings = self.lab.settings()
        pages = [("reports", address_of(settings, "PAGES"))] if self._has_report else []
        served = [*pages, *((name, address) for name, address, _ in elsewhere(settings))]
        seen = ", ".join(f"{name} {address}" for name, address in served)
        say(f"{NEXT}    ./lab down stops everything\n  {seen}")
        sys.stdout.flush()


def _host_part(lab: Lab, scenario: Scenario) -> contextlib.AbstractContextManager[Mapping[str, str]]:
    """Return the context in which the experiment's programs run on the host; an empty one if it has none."""
    if not scenario.experiment.host:
        return contextlib.nullcontext({})
    settings = {**lab.settings(), "COMPOSE_PROJECT_NAME": project_name(lab.root), "SCENARIO": scenario.name}
    context: contextlib.AbstractContextManager[Mapping[str, str]] = scenario.experiment.part("host").host_programs(
        lab.root, settings, lab.own_image, say
    )
    return context


def _one(root: Path, compose: Compose, scenario: Scenario, controller: str, stay: Sequence[str]) -> dict[str, Any]:
    """Follow one run by the container of its controller; all services but those that `stay` are removed after it."""
    last = follow_run(read_events(["docker", "logs", "--follow", controller]))
    if error := last.get("error"):
        kept = _stored(root, last["interrupted"]["path"]) if "interrupted" in last else ""
        raise LabError(error["message"], kept + error["remedy"], error["exit_code"])
    if "interrupted" in last:
        raise LabError(f"{scenario.name} was stopped from elsewhere.", _stored(root, last["interrupted"]["path"]))
    if "finished" not in last:
        raise _ended_early(root, compose, scenario, last.get("begun", {}).get("run_id", ""))
    compose.remove([one for name, one in compose.listed("--all").items() if name not in stay])
    return stored_run(root, last)


def stored_run(root: Path, last: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the run.json of a run by its last events."""
    document: dict[str, Any] = json.loads((root / "results" / last["finished"]["run_id"] / "run.json").read_text())
    return document


def _ended_early(root: Path, compose: Compose, scenario: Scenario, run_id: str) -> LabError:
    """Return the error of a controller that ended without a reason of its own."""
    if find_engine().trouble == NO_ANSWER:
        return MachineError(f"The Docker engine ended during {scenario.name}.", ENGINE_GONE.do)
    code = compose.exit_code(scenario.name)
    recover(compose, root)
    stored = _stored(root, run_id)
    killed = " (it was killed, or the treatments container: out of memory?)" if code == KILLED else ""
    do = NO_MEMORY.do if killed else f"Read its message above, then run {scenario.name} again."
    return LabError(
        f"The controller of {scenario.name} ended with exit code {code}{killed} before the run was whole.",
        f"{stored}{do}",
        EXIT_USAGE if code == EXIT_USAGE else EXIT_MACHINE,
    )


def recover(compose: Compose, root: Path) -> None:
    """Have `prepare` store what killed controllers left: live rows are gone with the last container that has them."""
    left = (root / "results").glob(UNFINISHED)
    if not all(holder(folder / LOCK) for folder in left):
        with contextlib.suppress(LabError):
            compose.once("prepare")


def _stored(root: Path, folder: str) -> str:
    """Return how much is kept in an interrupted run's folder, "" without one."""
    if not folder or not (path := root / "results" / folder).is_dir():
        return ""
    return f"What it measured is kept in results/{folder}: {plural(count_samples(path), 'sample')}. "


def _is_own(compose: Compose, controller: str, started: str, known: Set[str]) -> bool:
    """Return whether the lab's containers are those that this process started: they may have been replaced since.

    `started` is its controller's container, "" if there is none yet.
    """
    others = compose.listed().keys() & known - {controller}
    return not others and (not started or compose.container(controller) == started)


def _clear(compose: Compose, profile: str, services: Collection[str]) -> None:
    """Remove what is left of earlier runs: two scenarios at once would disturb each other, and both have a `broker`.

    `services` are those of the profile. Raises LabError (exit code 2) if no Compose file has a controller of that name.
    """
    if profile not in services:
        raise UsageError(
            f"No service of the Compose files is called {profile}.", f"See {LOOP_FILE}; ./lab new adds one."
        )
    kept = {*KEPT_BEFORE} & {*services} - compose.left_out
    compose.remove([one for name, one in compose.listed("--all").items() if name not in kept])


def catch_interrupts() -> None:
    """Turn each request to end into KeyboardInterrupt: a run keeps what it measured, and stops its containers."""
    for number in INTERRUPTS:
        # nohup ignores a signal so that the run goes on.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def ignore_interrupts() -> None:
    """Ignore further requests to end, for example a second Ctrl-C: what has begun is finished."""
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)


def _store_logs(compose: Compose, root: Path, controller: str) -> None:
    # A run that ends with an error kills its load, which is no fault.
    ended = compose.listed("--all", "--filter", f"exited={KILLED}").keys() & loads().keys()
    for service, words in compose.fallen().items():
        if service not in {*DONE_BEFORE, controller, *ended}:
            say(f"{service} is not running. Its last lines: {words or 'none'}")
    path = root / LOG
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        path.write_text(compose.logs(), encoding="utf-8")
        say(f"What the containers printed is kept in {LOG}.")


def _interrupted(compose: Compose, scenario: Scenario, root: Path, is_own: Callable[[], bool]) -> None:
    ignore_interrupts()
    compose.shield()
    if not is_own():
        return
    # Writing to a closed terminal fails.
    with contextlib.suppress(OSError):
        say("\ninterrupted: keeping what was measured, stopping the containers")
    before = {path.name for path in (root / "results").iterdir()}
    compose.stop(scenario.name)
    kept = sorted({path.name for path in (root / "results").iterdir()} - before)
    compose.down()
    if kept:
        with contextlib.suppress(OSError):
            say(_stored(root, kept[-1]))


def command_line(root: Path, experiments: Sequence[Experiment]) -> str:
    """Return the command that was typed, after the variables that this checkout's .env changes or the shell sets.

    Of the shell those of these experiments, of Compose's files and of .env.
    """
    settings = read_env(root / ".env")
    edited = call(["git", "-C", str(root), "diff", "--unified=0", "HEAD", "--", ".env"]).stdout
    given = {name: settings[name] for name in re.findall(r"^\+(\w+)=", edited, re.MULTILINE)}
    files = [root / "compose.yaml", *(root / "compose").rglob("*.yaml"), *(root / "compose").rglob("*.env")]
    known = {name for path in files for name in _VARIABLE.findall(path.read_text(encoding="utf-8"))}
    known |= settings.keys()
    for experiment in experiments:
        known |= {one.variable_of(name) for name, one in experiment.parameters.params().items()}
    given |= {name: os.environ[name] for name in known & os.environ.keys()}
    words = [f"{name}={shlex.quote(given[name])}" for name in sorted(given)]
    return " ".join([*words, "./lab", shlex.join(sys.argv[1:])])
