"""Check a host before anything starts there, and read what its engine grants."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
from looplab.lab.docker.engine import INFO, NO_ANSWER, Engine, parse_version, read_engine
from looplab.lab.docker.images import Image
from looplab.lab.hosts.contexts import Host
from looplab.lab.machine.limits import Limits, machine_variables
from looplab.lab.programs import Outcome

OLDEST_ENGINE = (20, 10, 0)
# A run is named by the time of its controller's host, and a certificate is checked by the clock.
MOST_CLOCK_S = 60.0
# Engines and images name architectures differently.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True)
class EngineFacts:
    """What a host's engine reports; `clock_s` is how far its clock is ahead of this machine's."""

    engine: Engine
    architecture: str
    clock_s: float

    def as_json(self) -> dict[str, Any]:
        """Return what run.json holds of a host."""
        names = ("server_version", "operating_system", "kernel", "cores", "memory_bytes", "cgroup_version")
        facts = {name: getattr(self.engine, name) for name in names}
        return {**facts, "architecture": self.architecture, "clock_ahead_s": round(self.clock_s, 3)}


def reach(host: Host) -> EngineFacts:
    """Return what the engine of a host reports. Raises LabError (exit code 3) if it cannot serve."""
    before_s = time.time()
    outcome = host.docker(*INFO)
    return read_facts(host, outcome, (before_s + time.time()) / 2)


def read_facts(host: Host, outcome: Outcome, now_s: float) -> EngineFacts:
    """Return the facts in an answer of `docker info` that came at `now_s`. Raises LabError (exit code 3)."""
    engine = read_engine(outcome, docker=host.command)
    if engine.trouble == NO_ANSWER:
        remedy = f"Is the machine on, and does its engine run? Try: docker --context {host.name} version"
        raise MachineError(f"{host} is not reached: {engine.detail}", remedy)
    if not engine.serves:
        raise MachineError(f"{host}: {engine.message}", f"On that machine: {engine.remedy}")
    if (parse_version(engine.server_version) or OLDEST_ENGINE) < OLDEST_ENGINE:
        what = f"{host}: its engine {engine.server_version} is too old for the lab."
        raise MachineError(what, "Install Docker 20.10 or later there.")
    info = json.loads(outcome.stdout)
    there = info.get("SystemTime", "")
    clock_s = read_time_s(there) - now_s if there else 0.0
    check_clock(str(host), clock_s)
    return EngineFacts(engine, info.get("Architecture", ""), clock_s)


def read_time_s(text: str) -> float:
    """Return seconds since 1970 of a time as an engine writes it, with nanoseconds: more digits than Python reads."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).timestamp()


def check_clock(host: str, clock_s: float) -> None:
    """Raise MachineError if the clock of a host is too far ahead of this machine's, or behind it."""
    if abs(clock_s) > MOST_CLOCK_S:
        way = "ahead of" if clock_s > 0 else "behind"
        what = f"The clock of {host} is {abs(clock_s):.0f} s {way} this machine's."
        raise MachineError(what, "Set the wrong one, for example by: sudo timedatectl set-ntp true")


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


def check_images(host: Host, facts: EngineFacts, here: Mapping[str, Image], there: Mapping[str, Image]) -> None:
    """Raise LabError (exit code 3) unless the images `here` are at a host, too, each for its architecture."""
    kind = ARCHITECTURES.get(facts.architecture, facts.architecture)
    fits = [{name for name, one in images.items() if one.architecture == kind} for images in (here, there)]
    if foreign := sorted(here.keys() - fits[0] - fits[1]):
        other = here[foreign[0]].architecture
        what = f"{host} needs images for {kind}; those here are for {other}: {' '.join(foreign)}."
        raise MachineError(what, f"Build them there: docker --context {host.name} compose --profile '*' build")
    same = {name for name, one in there.items() if one.content == here[name].content}
    if wrong := sorted(fits[0] - same):
        what = f"{host} lacks images, or has older ones: {' '.join(wrong)}."
        raise MachineError(what, f"Copy them: docker save {' '.join(wrong)} | docker --context {host.name} load")


def known_limits(cache: Path) -> dict[str, str]:
    """Return the variables by the limits that an earlier run found on a host, {} before the first run."""
    try:
        return machine_variables(Limits(**json.loads(cache.read_text())[1]))
    except FileNotFoundError:
        return {}
