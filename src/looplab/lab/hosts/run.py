"""Runs of the loop on several hosts: checks every host, executes the plan, and leaves nothing there."""

import json
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import LabError, MachineError, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import PROBE, Lab
from looplab.lab.docker.compose import Compose, read_events
from looplab.lab.docker.engine import Engine
from looplab.lab.docker.images import Image, image_facts, images_of
from looplab.lab.docker.model import part_of
from looplab.lab.hosts.contexts import HOME, Host, find_host, known_hosts, reach
from looplab.lab.hosts.plan import FILE, FIRST, PROJECT, SERVICES, EngineCommand, PlacementPlan, make_plan, share_of
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
# run.json holds these facts of each host.
FACTS = ("server_version", "operating_system", "kernel", "cores", "memory_bytes", "cgroup_version", "architecture")
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
        self.lab = lab
        self._placed = {part: find_host(on.get(part, ""), settings.get("LAB_LAN_BIND", "")) for part in SERVICES}
        self._hosts = {host.name: host for host in self._placed.values()}
        self._caller = f"{socket.gethostname()}:{lab.root}"

    def run(self, scenarios: Sequence[Scenario], after: After) -> bool:
        """Run scenarios one after another, call `after` with the run.json of each; return whether all were run."""
        engines = {name: reach(host) for name, host in self._hosts.items()}
        for host in self._hosts.values():
            check_alone(host, PROJECT, self._caller)
        self.lab.make_ready()
        common = self._common()
        services = {one.name: _services(self.lab.root, one.name, common) for one in scenarios}
        self._check_images(services)
        limits, known = self._limits(engines), self._facts(engines)
        catch_interrupts()
        for scenario in scenarios:
            its, settings = services[scenario.name], {**common, **scenario.load_settings(self.lab.settings())}
            plan = make_plan(self._placed, scenario.name, its, settings, limits)
            started = {name for host in self._hosts.values() for name in self._started(host, scenario.name, its)}
            images = {part_of(name, scenario.name): one for name, one in image_facts(its, started).items()}
            say(f"{scenario.name}: {', '.join(f'{part} on {host.name}' for part, host in self._placed.items())}")
            document = self._one(plan, scenario.name, {**known, "images": images})
            if document is None:
                return False
            after(document)
        return True

    def where(self) -> None:
        """Print what to do next."""
        say(NEXT)

    def _started(self, host: Host, scenario: str, services: Mapping[str, Any]) -> list[str]:
        """Return the services that a host starts for a scenario."""
        controller = [scenario] if host == self._placed["controller"] else []
        return [*FIRST, *share_of(host, self._placed, services).services, *controller]

    def _check_images(self, services: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise LabError (exit code 3) if a host lacks the image of a service that it starts for a scenario."""
        for host in self._hosts.values():
            images = {its[name]["image"] for one, its in services.items() for name in self._started(host, one, its)}
            check_images(host, images_of(images), images_of(images, host.command))

    def _limits(self, engines: Mapping[str, Engine]) -> dict[str, dict[str, str]]:
        """Return the variables that follow from the limits of each host."""
        probe, cache = self.lab.own_image(PROBE), self.lab.root / ".cache/hosts"
        limits = {name: probe_limits(engine, probe, cache / f"{name}.json") for name, engine in engines.items()}
        return {name: machine_variables(one) for name, one in limits.items()}

    def _facts(self, engines: Mapping[str, Engine]) -> dict[str, Any]:
        """Return what run.json holds of the hosts."""
        # Runs on other hosts are no repetitions of these runs.
        placed = " ".join(f"{part} {engines[host.name].server_id}" for part, host in self._placed.items())
        return {
            **self.lab.environment_facts(engines[self._placed["controller"].name]),
            "command_line": command_line(self.lab.root, [EXPERIMENTS[EXPERIMENTS.default]]),
            "machine": hashed(placed),
            "hosts": {name: {fact: getattr(engine, fact) for fact in FACTS} for name, engine in engines.items()},
        }

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

    def _one(self, plan: PlacementPlan, scenario: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """Execute a plan; return the run.json that came home, None after Ctrl-C. Raises LabError."""
        root, hosts, controller = self.lab.root, self._hosts.values(), self._placed["controller"]
        container, bridge = f"{PROJECT}-{scenario}-1", self._placed["bridge"].name
        fetch = EngineCommand((*controller.command, "cp", f"{container}:/results/.", "results"))
        shown = {"LOOPLAB_EVENTS": "json", "LOOPLAB_ENVIRONMENT": json.dumps(facts)}
        try:
            for step in (*map(down, hosts), *plan.start):
                _execute(root, step, {**plan.settings[step.host], **shown})
            events = read_events([*controller.command, "logs", "--follow", container])
            last = follow_run(json.loads(json.dumps(event).replace(PI, bridge)) for event in events)
            _execute(root, fetch)
            if error := last.get("error"):
                raise LabError(error["message"], error["remedy"], error["exit_code"])
            if "finished" not in last:
                raise MachineError("The controller ended before the run was whole.", f"See {LOG}.")
        except KeyboardInterrupt:
            ignore_interrupts()
            say("\ninterrupted: keeping what was measured, stopping the containers")
            for words in ((*controller.command, "stop", container), fetch.words):
                call(words, directory=str(root), own_session=True)
            return None
        except LabError:
            _store_logs(root, hosts)
            raise
        finally:
            _stop(hosts)
        return stored_run(root, last)


def check_alone(host: Host, project: str, caller: str) -> None:
    """Raise LabError (exit code 3) if a lab runs on a host that is not this `project` of this `caller`."""
    labels = '{{.Label "com.docker.compose.project"}}\t{{.Label "org.looplab.caller"}}'
    treatments = "label=com.docker.compose.service=treatments"
    for line in host.docker("ps", "--filter", treatments, "--format", labels).stdout.splitlines():
        other, _, owner = line.partition("\t")
        if (other, owner) != (project, caller):
            what = f"Another lab runs on {host}: project {other}{f' of {owner}' if owner else ''}."
            stop = f"docker --context {host.name} compose --project-name {other} --profile '*' down"
            raise MachineError(what, f"Two labs disturb each other. Wait for it, or stop it: {stop}")


def check_images(host: Host, here: Mapping[str, Image], there: Mapping[str, Image]) -> None:
    """Raise LabError (exit code 3) unless a host has the images `here`; of another architecture any content serves."""

    def serves(one: Image, other: Image | None) -> bool:
        return other is not None and (one.content == other.content or one.architecture != other.architecture)

    if wrong := " ".join(sorted(name for name, one in here.items() if not serves(one, there.get(name)))):
        copy = f"docker save {wrong} | docker --context {host.name} load"
        raise MachineError(
            f"{host} lacks images, or has older ones: {wrong}.",
            f"Of another architecture: docker --context {host.name} compose build. Else copy them: {copy}",
        )


def _services(root: Path, scenario: str, common: Mapping[str, str]) -> dict[str, Any]:
    """Return the services of a scenario as each host reads them. Raises LabError (exit code 2)."""
    compose = Compose(root, {**common, "COMPOSE_FILE": FILE, "COMPOSE_ENV_FILES": ".env"})
    services: dict[str, Any] = compose.config(scenario)["services"]
    if "LAB_HOSTS" not in services.get(scenario, {}).get("environment", {}):
        raise UsageError(f"{scenario} is not in compose/host.yaml.", f"Add `{scenario}: *controller` to its list.")
    return services


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


def _store_logs(root: Path, hosts: Iterable[Host]) -> None:
    """Keep what the containers printed: they are removed."""
    words = ("compose", "--project-name", PROJECT, "logs", "--no-color", "--timestamps")
    logs = [f"{host.name}:\n{host.docker(*words).stdout}" for host in hosts]
    (root / LOG).write_text("\n".join(logs), encoding="utf-8")
    say(f"What the containers printed is kept in {LOG}.")


def down(host: Host) -> EngineCommand:
    """Return what removes all that a run left on a host, its volumes included."""
    words = ("compose", "--project-name", PROJECT, "down", "--volumes", "--remove-orphans")
    return EngineCommand((*host.command, *words))


def down_all() -> None:
    """Remove what runs left on every host."""
    known = known_hosts()
    for host in (Host(HOME, ""), *known.values()) if known else ():
        # For a host that is off, one short try is enough.
        if host.docker("version").good:
            _stop([host])
        else:
            _stays(host)


def _stop(hosts: Iterable[Host]) -> None:
    """Remove what a run left on its hosts; name those where something stays."""
    for host in hosts:
        # The first try fails if a part ends with its PID namespace meanwhile.
        tries = (call(down(host).words, timeout_s=STEP_TIMEOUT_S, own_session=True) for _ in range(STOP_TRIES))
        if not any(done.good for done in tries):
            _stays(host)


def _stays(host: Host) -> None:
    say(f"What runs on {host.name} stays. When it is reached again: ./lab down")
