"""This checkout of the lab: its settings, images and ports; and how it makes the machine ready."""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from looplab.errors import MachineError, UsageError
from looplab.lab.docker.compose import Compose
from looplab.lab.docker.engine import Engine, show_version
from looplab.lab.docker.images import Images, images_of, wrapped
from looplab.lab.docker.model import is_empty, model_facts
from looplab.lab.docker.own_images import REPORT_SOURCES, SOURCES, OwnImages, digest_of, files_of, read_stamps
from looplab.lab.image_names import BASE, BASE_IMAGE, REPORT, is_decided, name_of, own_reference
from looplab.lab.machine.installing import ensure_compose, ensure_engine
from looplab.lab.machine.limits import CACHE, machine_variables, probe_limits
from looplab.lab.machine.network import OF_THIS_LAB, port_owners
from looplab.lab.programs import call
from looplab.lab.scenarios import PUBLISHED, Scenario, chosen, scenarios
from looplab.lab.settings import (
    check_settings,
    chosen_by_fidelity,
    file_choices,
    project_name,
    read_machine_file,
    write_machine_file,
)
from looplab.system.env_files import read_env, read_port
from looplab.system.machine_facts import OWN, OWN_FILE, machine_id
from looplab.system.terminal import say

PORTS = ("LAB_BROKER_PORT", "LAB_EXPORTER_PORT", "LAB_PROMETHEUS_PORT", "LAB_GRAFANA_PORT", "LAB_PAGES_PORT")
TLS_PORT = "LAB_TLS_PORT"
# Compose reads this file anyway: in place of the user's own one it changes nothing.
NEUTRAL = "compose/lab.yaml"
PROBE = "treatments"
MEASURING = {**SOURCES, "compose": "**/*"}
# These show what was measured, or hold what run.json has as parameters, or its digest of the user's own Compose file.
_NOT_MEASURING = re.compile(r"/report/|\.(md|env)$|^compose/scenarios/|^compose/own\.yaml$")
_DIGITS = 12


@dataclass(eq=False)
class Lab:
    """One checkout of the lab at `root`, with `options` from the command line as variables.

    `scenarios` are those that it is made ready for, the published ones if none are named. With `ask_again` it forgets
    what this machine decided about images.
    """

    root: Path
    options: Mapping[str, str] = field(default_factory=dict)
    scenarios: Sequence[Scenario] = ()
    ask_again: bool = False

    def settings(self) -> dict[str, str]:
        """Return every variable Compose sees: .env, over it this machine's, the shell's, the options'."""
        try:
            fixed = read_env(self.root / ".env")
        except FileNotFoundError as error:
            raise UsageError(f"{self.root} has no .env.", "Restore it: git checkout .env") from error
        return {**fixed, **self._machine(), **os.environ, **self.options}

    def _machine(self) -> dict[str, str]:
        known = read_machine_file(self.root)
        return {name: value for name, value in known.items() if not (self.ask_again and is_decided(name))}

    def compose(self, extra: Mapping[str, str] | None = None) -> Compose:
        """Return Compose with this lab's variables and `extra` over them."""
        # Compose would read an empty one of the shell as "looplab", whatever .env holds.
        ours = {"COMPOSE_PROJECT_NAME": project_name(self.root)}
        given = {**ours, **self.user(), **self._gateway(), **self._chosen(), **(extra or {})}
        return Compose(self.root, {**self._machine(), **os.environ, **given})

    def _chosen(self) -> dict[str, str]:
        """Return the options, and what chooses the Compose files of options and settings."""
        return {**self.options, **file_choices(self.settings())}

    def own_image(self, name: str) -> str:
        """Return the reference of one of the lab's own images."""
        return own_reference(name, self.settings())

    def images(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what the Compose files start: own images with the services that build them, upstream's by variable.

        The report's is not among them: no run waits for it.
        """
        built = {one["image"]: name for name, one in self._services.items() if "build" in one}
        others = {one["image"] for one in self._services.values() if one.get("scale") != 0} - built.keys()
        variables = {value: name for name, value in reversed(self.settings().items()) if name.endswith("_IMAGE")}
        upstream = {variables.get(one) or name_of(one).replace("-", "_"): one for one in sorted(others)}
        upstream |= {name: one for service in self._services.values() for name, one in wrapped(service).items()}
        report = self.own_image(REPORT)
        return {image: name for image, name in built.items() if image != report}, upstream

    def ports(self) -> dict[str, int]:
        """Return the ports a run publishes, by variable."""
        settings = self.settings()
        ports = {name: self.port(name) for name in PORTS}
        if settings.get("GRAFANA") == "off":
            del ports["LAB_GRAFANA_PORT"]
        if settings.get("ROBOT") == "remote" and settings.get("BROKER_TLS") != "off":
            ports[TLS_PORT] = self.port(TLS_PORT)
        return ports

    def port(self, name: str) -> int:
        """Return the port that a variable holds; LabError (exit code 2) if it holds none."""
        return read_port(self.settings(), name)

    def make_ready(self, before_images: Callable[[Engine], object] = lambda _: None) -> Engine:
        """Install, pull or build what is missing: engine, Compose, upstream images, own images, `.env.machine`.

        No registry is asked unless an image is missing. `before_images` is called as soon as there is an engine.
        """
        check_settings(self.settings())
        # Check the ports first: Compose would not name a port that is no number.
        self.ports()
        (self.root / "results").mkdir(exist_ok=True)
        images, before = self._images(), self._machine()
        engine = ensure_engine()
        before_images(engine)
        engine = ensure_compose(engine, images.ensure_base)
        ours, upstream = self.images()
        if not read_stamps(self.root) and len(images_of(ours)) < len(ours):
            say("First start: the images take up to two minutes. Later starts take 8 s.")
        images.ensure_upstream(upstream)
        services = [one for one in self._services.values() if one["image"] in ours]
        wraps = {one["image"]: images.variables.get(*each) for one in services for each in wrapped(one).items()}
        OwnImages(self.root, ours, self._profiles, wraps=wraps).have(images, self._chosen())
        limits = probe_limits(engine, self.own_image(PROBE), self.root / CACHE)
        # In a rootless engine root is the user who started it; other users do not exist on the host.
        owner = {"LAB_UID": "0", "LAB_GID": "0"} if engine.rootless else {}
        decided = self.kept(images.variables, [*upstream, *([BASE] if images.base_asked else [])])
        write_machine_file(self.root, {**machine_variables(limits), **owner, **decided})
        if self._machine() != before:
            # Compose reads other variables from now on.
            del self._services
        return engine

    def kept(self, now: Mapping[str, str], asked: Collection[str]) -> dict[str, str]:
        """Return the decisions of `now`, and earlier ones on variables that were not `asked`.

        What the shell sets is for this once: it decides nothing for later.
        """
        given, again = os.environ.keys(), {"GRAFANA", *asked}
        earlier = {name: value for name, value in read_machine_file(self.root).items() if is_decided(name)}
        stays = {name: value for name, value in earlier.items() if name in given or name not in again}
        return stays | {name: value for name, value in now.items() if name not in given}

    def _images(self) -> Images:
        settled = {name: value for name, value in self._machine().items() if is_decided(name)}
        return Images(self.root, self.settings().get(BASE) or BASE_IMAGE, settled)

    @property
    def _profiles(self) -> list[str]:
        return [scenario.name for scenario in self.scenarios or chosen(self.root, ["all"])]

    @cached_property
    def _services(self) -> dict[str, Any]:
        """Return what the scenarios start, as Compose reads it, which takes half a second."""
        services: dict[str, Any] = self.compose().config(*self._profiles)["services"]
        return services

    def services(self, profile: str) -> dict[str, Any]:
        """Return the services that a profile starts; it is that of one of the scenarios."""
        return _of_profile(self._services, profile)

    def ready_report(self) -> str:
        """Install the engine, pull or build the image of the report, if missing or old; return its reference."""
        images, reference = self._images(), self.own_image(REPORT)
        ensure_compose(ensure_engine(), images.ensure_base)
        OwnImages(self.root, {reference: REPORT}, [REPORT], REPORT_SOURCES).have(images, self._chosen())
        return reference

    def check_ports(self, engine: Engine) -> None:
        """Raise LabError (exit code 3) if a port is held by something that is not this lab."""
        for variable, owner in self.port_owners(engine).items():
            if owner and not owner.endswith(OF_THIS_LAB):
                port = self.port(variable)
                remedy = f"Set {variable} in .env to a free port, e.g. {variable}={port + 10000}."
                raise MachineError(f"Port {port} is in use by {owner}.", remedy)

    def port_owners(self, engine: Engine) -> dict[str, str]:
        """Return who holds each port that a run publishes, "" if nobody; nothing if the ports are another machine's."""
        return port_owners(self.ports(), project_name(self.root)) if engine.local else {}

    def model_facts(self, profile: str) -> dict[str, Any]:
        """Return what run.json records of what is about to start."""
        own, services = self.settings().get(OWN) or OWN_FILE, self.services(profile)
        usual = (
            services
            if is_empty(self.root / own)
            else _of_profile(self.compose({OWN: NEUTRAL}).config(profile)["services"], profile)
        )
        return model_facts(services, usual, profile, own, self.root)

    def environment_facts(self, engine: Engine) -> dict[str, Any]:
        """Return what run.json records of the host and no container can see."""
        return {
            "engine": f"{engine.server_version} ({engine.operating_system})",
            "compose": show_version(engine.compose),
            "cgroup": f"v{engine.cgroup_version}",
            "revision": self.revision(),
            "code": measuring_code(self.root),
            "machine": machine_id(),
        }

    def revision(self) -> str:
        """Return the git commit, with "+changes" where tracked files differ; `code` tells such states apart."""
        words = ("describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=+changes")
        described = call(["git", "-C", str(self.root), *words])
        return described.stdout.strip() if described.good else "no git checkout"

    def _gateway(self) -> dict[str, str]:
        """Return the address of the engine's own bridge, where BROKER_PATH=port publishes the broker; else {}."""
        settings = {**self.settings(), **self._chosen()}
        path = settings.get("BROKER_PATH") or chosen_by_fidelity(self.root, settings).get("BROKER_PATH")
        if settings.get("LAB_GATEWAY") or path != "port":
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


def _of_profile(services: Mapping[str, Any], profile: str) -> dict[str, Any]:
    """Return those services of a Compose model that a profile starts."""
    return {name: one for name, one in services.items() if profile in one.get("profiles", [profile])}


def measuring_code(root: Path) -> str:
    """Return a digest of what measures: two commits between which it stays the same may be compared.

    Pages, reports and new scenarios measure nothing.
    """
    own = [name for name, one in scenarios(root).items() if PUBLISHED not in one.settings]

    def read(path: Path) -> bytes:
        content = path.read_bytes()
        if path.suffix == ".yaml":
            for name in own:
                # As ./lab new adds a scenario: a line of its controller, its name among the profiles of parts.
                content = re.sub(rf"^  {name}: .*\n|, {name}(?=[],])".encode(), b"", content, flags=re.MULTILINE)
        return content

    paths = (path for path in files_of(root, MEASURING) if not _NOT_MEASURING.search(str(path.relative_to(root))))
    return digest_of(root, paths, read)[:_DIGITS]
