"""Runs of the loop on several hosts: checks every host, executes the plan, and leaves nothing there."""

import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, LabError, MachineError, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import PROBE, Lab
from looplab.lab.docker.compose import Compose, read_events
from looplab.lab.docker.images import image_facts, images_of
from looplab.lab.docker.model import part_of
from looplab.lab.hosts.checks import EngineFacts, check_alone, check_images, known_limits, reach
from looplab.lab.hosts.contexts import HOME, Host, find_host, known_hosts
from looplab.lab.hosts.plan import (
    FILE,
    PROJECT,
    SERVICES,
    SETTINGS,
    STARTED,
    EngineCommand,
    PlacementPlan,
    down,
    lines_of,
    make_plan,
)
from looplab.lab.image_names import PULL, REGISTRY, TAG
from looplab.lab.machine.limits import machine_variables, probe_limits
from looplab.lab.programs import call
from looplab.lab.progress import follow_run
from looplab.lab.scenarios import Scenario
from looplab.lab.session import LOG, NEXT, After, catch_interrupts, command_line, ignore_interrupts, stored_run
from looplab.spec.brokers import DEFAULT
from looplab.system.machine_facts import hashed
from looplab.system.terminal import say

# The loop between hosts allows these values alone, for the reason beside them.
ONLY = {
    "BROKER": ({"", DEFAULT}, "the other brokers ask for no password"),
    "LINK": ({"", "none"}, "the link between hosts is real"),
    "ROBOT": ({"", "virtual", "usb"}, "a Raspberry Pi has a bridge of its own (rpi/README.md)"),
    "FIDELITY": ({"", "thesis", "corrected"}, "the printed clients know one machine"),
    "CLIENTS": ({"", "lab"}, "other clients know one machine"),
    "OWN_BRIDGE": ({""}, "its file is on this machine alone"),
}
# The controller calls any other host with a bridge so.
PI = "the Pi"
# A part starts slowly on a busy host.
STEP_TIMEOUT_S = 1200.0
STOP_TRIES = 3
KEPT = ("MOSQUITTO_IMAGE", "STRESS_IMAGE", REGISTRY, TAG, PULL)


class PlacedSession:
    """Runs of the loop with each part on the host that `on` names; "" is this machine. Raises LabError."""

    def __init__(self, lab: Lab, on: Mapping[str, str], rounds: int) -> None:
        if rounds > 1 or lab.scenarios[0].experiment.name != EXPERIMENTS.default:
            what = "Several hosts run scenarios of the control loop, once each."
            raise UsageError(what, "Leave out the …-on options.")
        settings = lab.settings()
        for name, (allowed, why) in ONLY.items():
            if settings.get(name, "") not in allowed:
                raise UsageError(f"{name}={settings[name]} with several hosts: {why}.", f"Leave out {name}.")
        self.lab, self.root, self.scenarios = lab, lab.root, lab.scenarios
        self.placed = {part: find_host(on.get(part, ""), settings.get("LAB_LAN_BIND", "")) for part in SERVICES}
        self.hosts = {host.name: host for host in self.placed.values()}
        self._caller = f"{socket.gethostname()}:{lab.root}"

    def run(self, scenarios: Sequence[Scenario], after: After) -> bool:
        """Run scenarios one after another, call `after` with the run.json of each; return whether all were run."""
        known, limits = self.make_ready()
        catch_interrupts()
        for scenario, plan in zip(scenarios, self.plans(limits), strict=True):
            facts = image_facts(_services(self.root, scenario, self._common()), (*STARTED, scenario.name))
            images = {part_of(name, scenario.name): one for name, one in facts.items()}
            say(f"{scenario.name}: {', '.join(f'{part} on {host.name}' for part, host in self.placed.items())}")
            document = _one(self.root, plan, self.placed["bridge"].name, {**known, "images": images})
            if document is None:
                return False
            after(document)
        return True

    def where(self) -> None:
        """Print what to do next."""
        say(NEXT)

    def plans(self, limits: Mapping[str, Mapping[str, str]]) -> list[PlacementPlan]:
        """Return the plan of each scenario; `limits` are variables of each host."""
        common, settings = self._common(), self.lab.settings()
        its = [(_services(self.root, one, common), {**common, **one.load_settings(settings)}) for one in self.scenarios]
        return [make_plan(self.placed, one.name, *each, limits) for one, each in zip(self.scenarios, its, strict=True)]

    def show(self) -> int:
        """Print the commands, with what the engines granted to earlier runs; return the exit code."""
        limits = {name: known_limits(self._limits_file(name)) for name in self.hosts}
        print("\n\n".join(map(str, self.plans(limits))))
        if unknown := [name for name, found in limits.items() if not found]:
            say(f"The first run on {' and '.join(unknown)} finds out what real-time limits to add there.")
        return EXIT_GOOD

    def make_ready(self) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
        """Check every host before anything starts; return what run.json holds of them, and the limits of each."""
        facts = {name: reach(host) for name, host in self.hosts.items()}
        for host in self.hosts.values():
            check_alone(host, PROJECT, self._caller)
        self.lab.make_ready()
        self._check_images(facts)
        probe, files = self.lab.own_image(PROBE), {name: self._limits_file(name) for name in self.hosts}
        limits = {name: machine_variables(probe_limits(one.engine, probe, files[name])) for name, one in facts.items()}
        # Runs on other hosts are no repetitions of these runs.
        placed = " ".join(f"{part} {facts[host.name].engine.server_id}" for part, host in self.placed.items())
        known = {
            **self.lab.environment_facts(facts[self.placed["controller"].name].engine),
            "command_line": command_line(self.lab.root, [self.scenarios[0].experiment]),
            "machine": hashed(placed),
            "hosts": {name: fact.as_json() for name, fact in facts.items()},
        }
        return known, limits

    def _check_images(self, facts: Mapping[str, EngineFacts]) -> None:
        """Raise LabError (exit code 3) if a host lacks the image of a service that it starts."""
        common = self._common()
        image_of = {
            name: one["image"] for each in self.scenarios for name, one in _services(self.root, each, common).items()
        }
        for name, host in self.hosts.items():
            started = {one for plan in self.plans({}) for one in plan.services[name]}
            if host == self.placed["controller"]:
                started |= {each.name for each in self.scenarios}
            images = sorted({image_of[one] for one in started})
            check_images(host, facts[name], images_of(images), images_of(images, host.command))

    def _limits_file(self, host: str) -> Path:
        return self.root / SETTINGS.format(host).replace(".env", ".json")

    def _common(self) -> dict[str, str]:
        """Return the settings of every host."""
        settings = self.lab.settings()
        return {
            **{name: settings[name] for name in KEPT if settings.get(name)},
            **self.lab.user(),
            **self.lab.options,
            "ROBOT": settings.get("ROBOT") or "virtual",
            "BROKER_TLS": settings.get("BROKER_TLS") or "off",
            "LAB_CALLER": self._caller,
        }


def _services(root: Path, scenario: Scenario, common: Mapping[str, str]) -> dict[str, Any]:
    """Return the services of a scenario as each host reads them. Raises LabError (exit code 2)."""
    name = scenario.name
    compose = Compose(root, {**common, "COMPOSE_FILE": FILE, "COMPOSE_ENV_FILES": ".env"})
    services: dict[str, Any] = compose.config(name)["services"]
    if "LAB_HOSTS" not in services.get(name, {}).get("environment", {}):
        raise UsageError(f"{name} is not in compose/host.yaml.", f"Add `{name}: *controller` to its list.")
    return services


def _one(root: Path, plan: PlacementPlan, bridge: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Execute a plan, with the bridge on the host `bridge`; return the run.json that came home, None after Ctrl-C.

    Raises LabError.
    """
    for host, settings in plan.settings.items():
        file = root / SETTINGS.format(host)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(lines_of(settings))
    shown = {"LOOPLAB_EVENTS": "json", "LOOPLAB_ENVIRONMENT": json.dumps(facts)}
    try:
        for step in (*plan.stop, *plan.start):
            _execute(root, step, {**plan.settings[step.host], **shown})
        events = read_events(plan.follow.words)
        last = follow_run({**one, "what": one["what"].replace(PI, bridge)} if "what" in one else one for one in events)
        _execute(root, plan.fetch)
        if error := last.get("error"):
            remedy = (
                f"See {LOG}. Does a firewall at the broker let it in?" if PI in error["remedy"] else error["remedy"]
            )
            raise LabError(error["message"].replace(PI, bridge), remedy, error["exit_code"])
        if "finished" not in last:
            raise MachineError("The controller ended before the run was whole.", f"See {LOG}.")
    except KeyboardInterrupt:
        ignore_interrupts()
        say("\ninterrupted: keeping what was measured, stopping the containers")
        for step in (plan.interrupt, plan.fetch):
            call(step.words, directory=str(root), own_session=True)
        return None
    except LabError:
        _store_logs(root, plan)
        raise
    finally:
        _stop(plan.stop)
    return stored_run(root, last)


def _execute(root: Path, step: EngineCommand, settings: Mapping[str, str] | None = None) -> None:
    """Run one step of a plan in `root`; its settings count more than the shell's. Raises LabError (exit code 3)."""
    reason = ""
    if step.into:
        with subprocess.Popen(step.words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as source:
            copied = subprocess.run(step.into, stdin=source.stdout, capture_output=True, check=False)
        if source.returncode or copied.returncode:
            reason = copied.stderr.decode().strip() or "nothing to copy"
    else:
        done = call(step.words, timeout_s=STEP_TIMEOUT_S, environment=settings, directory=str(root))
        reason = "" if done.good else done.reason
        # `docker wait` prints the exit code of the container.
        if "wait" in step.words and done.stdout.strip() != "0":
            reason = f"it ended with exit code {done.stdout.strip() or 'unknown'}, see {LOG}"
    if reason:
        raise MachineError(f"{step.host}: {reason}", f"This command failed: {step}")


def _store_logs(root: Path, plan: PlacementPlan) -> None:
    """Keep what the containers printed: they are removed."""
    words = ("compose", "--project-name", PROJECT, "logs", "--no-color", "--timestamps")
    logs = [f"{host}:\n{call(('docker', '--context', host, *words)).stdout}" for host in plan.settings]
    (root / LOG).write_text("\n".join(logs), encoding="utf-8")
    say(f"What the containers printed is kept in {LOG}.")


def down_all() -> None:
    """Remove what runs left on every host."""
    known = known_hosts()
    for host in (Host(HOME, ""), *known.values()) if known else ():
        # For a host that is off, one short try is enough.
        if host.docker("version").good:
            _stop([down(host)])
        else:
            _stays(host.name)


def _stop(steps: Sequence[EngineCommand]) -> None:
    """Remove what a run left on its hosts; name those where something stays."""
    for step in steps:
        # The first try fails if a part ends with its PID namespace meanwhile.
        tries = (call(step.words, timeout_s=STEP_TIMEOUT_S, own_session=True) for _ in range(STOP_TRIES))
        if not any(done.good for done in tries):
            _stays(step.host)


def _stays(host: str) -> None:
    say(f"What runs on {host} stays. When it is reached again: ./lab down")
