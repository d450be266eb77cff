"""This checkout of the lab: its settings, images and ports; and how it makes the machine ready."""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from looplab.errors import MachineError, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.docker.builds import EVERY_PROFILE, build_image
from looplab.lab.docker.compose import Compose
from looplab.lab.docker.engine import Engine, show_version
from looplab.lab.docker.images import Images, image_facts, local_images
from looplab.lab.docker.own_images import FLOOD, REPORT_SOURCES, OwnImages, read_stamps
from looplab.lab.image_names import BASE, BASE_IMAGE, BROKER_IMAGES, NAMES, PRINTED, REPORT, own_reference
from looplab.lab.machine.facts import OF_THIS_LAB, port_owners
from looplab.lab.machine.installing import ensure_compose, ensure_engine
from looplab.lab.machine.limits import CACHE, machine_variables, probe_limits
from looplab.lab.programs import call
from looplab.lab.scenarios import every
from looplab.lab.secret_files import ensure_grafana_password
from looplab.lab.settings import check_settings, project_name, read_machine_file, write_machine_file
from looplab.spec.brokers import DEFAULT
from looplab.spec.experiment import Experiment
from looplab.system.env_files import read_env, read_port
from looplab.system.machine_facts import machine_id
from looplab.system.terminal import say

FLOOD_VARIABLE = "FLOOD_IMAGE"
UPSTREAM = ("MOSQUITTO_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE", FLOOD_VARIABLE)
# What a set-up decides for this machine where an image is not available.
DECIDED = {*UPSTREAM, BASE, "GRAFANA", *(name for experiment in EXPERIMENTS.values() for name in experiment.upstream)}
PORTS = ("LAB_BROKER_PORT", "LAB_EXPORTER_PORT", "LAB_PROMETHEUS_PORT", "LAB_GRAFANA_PORT", "LAB_PAGES_PORT")
TLS_PORT = "LAB_TLS_PORT"
REMOTE = "remote"
NEVER = "never"
PROBE = "treatments"


class SetUp(NamedTuple):
    """What a set-up found and decided: the engine, variables for Compose."""

    engine: Engine
    variables: dict[str, str]


class Lab:
    """One checkout of the lab at `root`, with `options` from the command line as variables.

    `wanted` are experiments whose own images count, beside what all the others share. With `scenarios` only the images
    that these start are pulled or built.
    """

    def __init__(
        self,
        root: Path,
        options: Mapping[str, str] | None = None,
        wanted: Iterable[Experiment] = (),
        scenarios: Iterable[str] = (),
    ) -> None:
        self.root = root
        self._options = dict(options or {})
        self.wanted = list(wanted)
        self._scenarios = list(scenarios)

    def settings(self, *, original: bool = False) -> dict[str, str]:
        """Return every variable Compose sees: .env, over it this machine's, the shell's, the options'.

        `original` leaves out what this machine decided about images.
        """
        try:
            fixed = read_env(self.root / ".env")
        except FileNotFoundError as error:
            raise UsageError(f"{self.root} has no .env.", "Restore it: git checkout .env") from error
        machine = read_machine_file(self.root)
        if original:
            machine = {name: value for name, value in machine.items() if name not in DECIDED}
        return {**fixed, **machine, **os.environ, **self._options}

    def compose(self, extra: Mapping[str, str] | None = None) -> Compose:
        """Return Compose with this lab's variables and `extra` over them."""
        # Always given: Compose reads an empty one in the shell as "looplab", whatever .env holds.
        ours = {"COMPOSE_PROJECT_NAME": project_name(self.root)}
        given = {**ours, **self.user(), **self._gateway(), **self._options, **(extra or {})}
        return Compose(self.root, {**read_machine_file(self.root), **os.environ, **given})

    def upstream_images(self, *, original: bool = False) -> dict[str, str]:
        """Return the upstream references by variable, without Grafana's if that is off; for `original` see settings."""
        settings = self.settings(original=original)
        names = dict.fromkeys((*UPSTREAM, *(name for experiment in self.wanted for name in experiment.upstream)))
        if settings.get("GRAFANA") == "off":
            del names["GRAFANA_IMAGE"]
        return {name: settings[name] for name in names if settings.get(name)}

    def own_images(self) -> dict[str, str]:
        """Return the references of the lab's own images by name."""
        settings = self.settings()
        left_out = {name for other in self._left_out() for name in other.images}
        left_out -= {name for experiment in self.wanted for name in experiment.images}
        left_out |= {name for name in BROKER_IMAGES if name != settings.get("BROKER")}
        if (settings.get("CLIENTS") or settings.get("FIDELITY")) != PRINTED:
            left_out.add(PRINTED)
        names = {name: own_reference(name, settings) for name in NAMES if name not in left_out}
        return {**names, "stress": settings.get("STRESS_IMAGE") or names["stress"]}

    def _left_out(self) -> list[Experiment]:
        """Return the experiments whose own images are not wanted."""
        return [other for other in EXPERIMENTS.values() if other.images and other not in self.wanted]

    def profiles(self) -> list[str]:
        """Return the profiles that start all own images that are wanted."""
        left_out = self._left_out()
        if not left_out:
            return list(EVERY_PROFILE)
        return [NEVER, *(name for name, one in every(self.root).items() if one.experiment not in left_out)]

    def ports(self) -> dict[str, int]:
        """Return the ports a run publishes, by variable."""
        settings = self.settings()
        ports = {name: self.port(name) for name in PORTS}
        if settings.get("GRAFANA") == "off":
            del ports["LAB_GRAFANA_PORT"]
        if settings.get("ROBOT") == REMOTE and settings.get("BROKER_TLS") != "off":
            ports[TLS_PORT] = self.port(TLS_PORT)
        return ports

    def port(self, name: str) -> int:
        """Return the port that a variable holds; LabError (exit code 2) if it holds none."""
        return read_port(self.settings(), name)

    def make_ready(self, *, ask_again: bool = False) -> SetUp:
        """Install, pull or build what is missing: engine, Compose, upstream images, own images, `.env.machine`.

        No registry is asked unless an image is missing; with `ask_again` also for what an earlier set-up replaced.
        """
        check_settings({**self.settings(), "COMPOSE_PROJECT_NAME": project_name(self.root)})
        # A port that is no number is named before Compose reads it.
        self.ports()
        (self.root / "results").mkdir(exist_ok=True)
        if not read_stamps(self.root):
            say("First start: the images take up to two minutes. Later starts take 8 s.")
        base = self.settings(original=ask_again).get(BASE) or BASE_IMAGE
        images = Images(self.root, base, {} if ask_again else self.decided())
        engine = ensure_compose(ensure_engine(), images.ensure_base)
        ours, upstream = self.own_images(), self.upstream_images(original=ask_again)
        needed, flood = ours, ours[FLOOD]
        if self._scenarios:
            started = {service["image"] for service in self._services.values()}
            upstream = {name: reference for name, reference in upstream.items() if reference in started}
            upstream |= self._foreign_broker(started - {*upstream.values(), *ours.values()})
            # Compose does not build what stands in for mqtt-stresser.
            needed = {name: reference for name, reference in ours.items() if reference in started or name == FLOOD}
            if FLOOD_VARIABLE not in upstream:
                del needed[FLOOD]
        # No run waits for it.
        needed.pop(REPORT, None)
        own = OwnImages(self.root, needed, self._scenarios or self.profiles())
        own.fetch(images)
        images.ensure_upstream(upstream, flood)
        for note in images.notes:
            say(note)
        if own.must_build(images.base):
            images.ensure_base()
            # As for the run itself: the options choose the broker's file, and with it what Compose builds.
            decided = {name: value for name, value in images.variables.items() if not os.environ.get(name)}
            own.build({**decided, **self._options})
        limits = probe_limits(engine, own.references[PROBE], self.root / CACHE)
        administrator = {} if images.variables.get("GRAFANA") == "off" else ensure_grafana_password(self.root)
        others = self.decided({BASE, "GRAFANA", *upstream})
        # A rootless engine's root is the user who started it; every other user of a container is a stranger here.
        owner = {"LAB_UID": "0", "LAB_GID": "0"} if engine.rootless else {}
        variables = {**machine_variables(limits), **owner, **others, **images.variables, **administrator}
        write_machine_file(self.root, variables)
        return SetUp(engine, variables)

    def decided(self, asked: Collection[str] = ()) -> dict[str, str]:
        """Return what earlier set-ups decided, without the variables that this one has asked for."""
        known = read_machine_file(self.root)
        return {name: value for name, value in known.items() if name in DECIDED and name not in asked}

    @cached_property
    def _services(self) -> dict[str, Any]:
        """What the scenarios start, as Compose reads it: that takes half a second."""
        services: dict[str, Any] = self.compose().config(*self._scenarios)["services"]
        return services

    def services(self, profile: str) -> list[str]:
        """Return the services that a profile starts; it is that of one of the scenarios."""
        return [name for name, one in self._services.items() if profile in one.get("profiles", [profile])]

    def _foreign_broker(self, others: Iterable[str]) -> dict[str, str]:
        """Return the image of a broker that is upstream's, by its variable."""
        broker = self.settings().get("BROKER") or DEFAULT
        if broker in (DEFAULT, *BROKER_IMAGES):
            return {}
        return dict.fromkeys([f"{broker.upper()}_IMAGE"], *sorted(others)[:1])

    def has_report(self) -> bool:
        """Return whether the image of the report is here."""
        return bool(local_images([self.own_images()[REPORT]]))

    def ready_report(self) -> str:
        """Install the engine, pull or build the image of the report, if missing or old; return its reference."""
        images = Images(self.root, base=self.settings().get(BASE) or BASE_IMAGE)
        ensure_engine()
        reference = self.own_images()[REPORT]
        own = OwnImages(self.root, {REPORT: reference}, sources=REPORT_SOURCES)
        own.fetch(images)
        for note in images.notes:
            say(note)
        if own.must_build(images.base):
            images.ensure_base()
            with own.replacing():
                build_image(self.root / "images" / REPORT, reference, images.base, self.root / "src")
        return reference

    def check_ports(self, done: SetUp) -> None:
        """Raise LabError (exit code 3) if a port is held by something that is not this lab."""
        for variable, owner in self.port_owners(done.engine).items():
            if owner and not owner.endswith(OF_THIS_LAB):
                port = self.port(variable)
                remedy = f"Set {variable} in .env to a free port, e.g. {variable}={port + 10000}."
                raise MachineError(f"Port {port} is in use by {owner}.", remedy)

    def port_owners(self, engine: Engine) -> dict[str, str]:
        """Return who holds each port that a run publishes, "" if nobody; nothing if the ports are another machine's."""
        return port_owners(self.ports(), project_name(self.root)) if engine.local else {}

    def environment_facts(self, done: SetUp) -> dict[str, Any]:
        """Return what run.json records of the host and no container can see."""
        engine = done.engine
        references = {**self.upstream_images(), **done.variables, **self.own_images()}
        return {
            "engine": f"{engine.server_version} ({engine.operating_system})",
            "compose": show_version(engine.compose),
            "cgroup": f"v{engine.cgroup_version}",
            "images": image_facts({name: value for name, value in references.items() if ":" in value}),
            "revision": self.revision(),
            "machine": machine_id(),
        }

    def revision(self) -> str:
        """Return the git commit; where the checkout differs from it, "+changes-" and a hash of all changes."""
        git = ["git", "-C", str(self.root)]
        commit = call([*git, "rev-parse", "HEAD"])
        if not commit.good:
            return "no git checkout"
        parts = ("src", "compose", "images", "firmware")
        names = call([*git, "ls-files", "--others", "--exclude-standard", "--", *parts]).stdout.splitlines()
        changes = [call([*git, "diff", "--binary", "HEAD"]).stdout.encode()]
        for name in filter(lambda name: (self.root / name).is_file(), names):
            changes += [name.encode(), (self.root / name).read_bytes()]
        differs = sha256(b"\0".join(changes)).hexdigest()[:8] if any(changes) else ""
        return commit.stdout.strip() + (f"+changes-{differs}" if differs else "")

    def _gateway(self) -> dict[str, str]:
        """Return the address of the engine's own bridge, where BROKER_PATH=port publishes the broker; else {}."""
        settings = self.settings()
        port = (settings.get("BROKER_PATH") or settings.get("FIDELITY")) in ("port", PRINTED)
        if settings.get("LAB_GATEWAY") or not port:
            return {}
        form = "{{(index .IPAM.Config 0).Gateway}}"
        address = call(["docker", "network", "inspect", "bridge", "--format", form]).stdout.strip()
        return {"LAB_GATEWAY": address} if re.fullmatch(r"[0-9.]+", address) else {}

    def user(self) -> dict[str, str]:
        """Return the owner of results/ as the containers' user, unless the folder is root's or the user is known."""
        facts = (self.root / "results").stat()
        if facts.st_uid == 0 or "LAB_UID" in {**os.environ, **read_machine_file(self.root)}:
            return {}
        return {"LAB_UID": str(facts.st_uid), "LAB_GID": str(facts.st_gid)}
