"""What the Swarm is that this engine manages, and why a stack would not run on it: found out before anything starts."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from looplab.errors import MachineError
from looplab.lab.docker.engine import parse_version
from looplab.lab.docker.images import images_of
from looplab.lab.hosts.checks import ARCHITECTURES, OLDEST_ENGINE, check_clock, read_time_s
from looplab.lab.image_names import is_own, is_published
from looplab.lab.programs import Outcome, call
from looplab.lab.stack.translate import LABEL, Stack

# On every service of a stack of the lab: docker stack deploy adds the stack's name.
NAMESPACE = "com.docker.stack.namespace"
MODULES = Path("/lib/modules")
NOTHING = "/looplab-no-such-program"
# A node whose name server is silent asks it for 10 s and more before it takes its own image.
LOOK_S = 60.0


@dataclass(frozen=True)
class Swarm:
    """Nodes that take tasks, by host name, with their labels; `stacks` are those that run on it.

    `machines` are architecture and engine of each node, `down` the nodes with a label of the lab that do not answer.
    """

    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stacks: Collection[str] = ()
    machines: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    down: Sequence[str] = ()

    def values(self, label: str) -> set[str]:
        return {labels[label] for labels in self.nodes.values() if label in labels}


def read_swarm() -> Swarm:
    """Ask this engine. Raises MachineError if it is in no Swarm, does not manage it, or the Swarm has no leader."""
    info = _asked("docker", "info", "--format", "{{json .Swarm}}")
    state = json.loads(info.stdout or "{}")
    if state.get("LocalNodeState") != "active":
        raise MachineError(
            f"This engine is in no Swarm (state: {state.get('LocalNodeState') or 'unknown'}).",
            "Run `docker swarm init --advertise-addr ADDRESS` here, then `docker swarm join …` on the other machines.",
        )
    if not state.get("ControlAvailable"):
        managers = ", ".join(str(one["Addr"]) for one in state.get("RemoteManagers") or ()) or "unknown"
        raise MachineError("This engine is a worker of its Swarm.", f"Run this on a manager: {managers}.")
    listed = _asked("docker", "node", "ls", "--quiet")
    nodes = json.loads(_asked("docker", "node", "inspect", *listed.stdout.split()).stdout)
    form = '{{index .Spec.Labels "' + NAMESPACE + '"}}'
    services = _asked("docker", "service", "ls", "--quiet").stdout.split()
    named = _asked("docker", "service", "inspect", "--format", form, *services).stdout.split() if services else []
    down = [_node(node)[0] for node in nodes if _fell(node)]
    machines = {_node(node)[0]: _machine(node["Description"]) for node in nodes}
    return Swarm(dict(map(_node, filter(_ready, nodes))), sorted(set(named)), machines, down)


def _asked(*words: str) -> Outcome:
    done = call(words)
    if not done.good:
        lost = "leader" in done.stderr or "quorum" in done.stderr or "deadline" in done.stderr
        remedy = (
            "Start the other managers again; if they are gone, run `docker swarm init --force-new-cluster` here."
            if lost
            else "Run ./lab doctor: it shows why the engine does not serve."
        )
        raise MachineError(f"The Swarm does not answer: {done.reason}", remedy)
    return done


def _ready(node: Mapping[str, Any]) -> bool:
    return bool(node["Status"]["State"] == "ready" and node["Spec"]["Availability"] == "active")


def _node(node: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    return str(node["Description"]["Hostname"]), dict(node["Spec"].get("Labels") or {})


def _fell(node: Mapping[str, Any]) -> bool:
    active = node["Spec"]["Availability"] == "active" and node["Status"]["State"] != "ready"
    return active and any(label.startswith(LABEL) for label in _node(node)[1])


def _machine(description: Mapping[str, Any]) -> tuple[str, str]:
    kind = description["Platform"]["Architecture"]
    return ARCHITECTURES.get(kind, kind), description["Engine"]["EngineVersion"]


def check(swarm: Swarm, stack: Stack, name: str) -> None:
    """Raise MachineError if a place has no node, a node cannot serve, or another stack of the lab runs."""
    if others := [one for one in swarm.stacks if one]:
        raise MachineError(
            f"This Swarm already runs the stack {', '.join(others)}: two would disturb each other.",
            f"Run `docker stack rm {others[0]}` first, or --shared if the machines are not the same.",
        )
    if swarm.down:
        raise MachineError(
            f"Nodes do not answer: {', '.join(swarm.down)}.",
            f"Start their engines, or leave one out: docker node update --availability drain {swarm.down[0]}",
        )
    for node in swarm.nodes:
        _kind, version = swarm.machines.get(node, ("", ""))
        if (parse_version(version) or OLDEST_ENGINE) < OLDEST_ENGINE:
            raise MachineError(f"The engine {version} of {node} is too old.", "Install Docker 20.10 or later there.")
    ready = ", ".join(sorted(swarm.nodes)) or "none"
    for label, values in sorted(stack.places.items()):
        for value in sorted(values - swarm.values(label)):
            raise MachineError(
                f"No node has the label {label}={value}, which {name} needs. Nodes that are ready: {ready}.",
                f"Run `docker node update --label-add {label}={value} NODE`.",
            )


def check_machines(stack: Stack, swarm: Swarm) -> None:
    """Raise MachineError with the nodes that lack an image, need it for another processor, or have a wrong clock.

    Only the node itself knows: a service there makes a container whose program does not exist, so nothing starts.
    """
    pairs = sorted({(one["image"], one["deploy"]["placement"]["constraints"][0]) for one in stack.services.values()})
    _check_architectures({image for image, _place in pairs}, swarm)
    job = ("--detach", "--quiet", "--mode", "global", "--restart-condition", "none", "--no-resolve-image")
    made: list[str] = []
    try:
        for image, place in pairs:
            there = ("--constraint", place, "--entrypoint", NOTHING, image)
            made.append(_asked("docker", "service", "create", *job, *there).stdout.strip())
        tasks = [(image, task) for (image, _place), one in zip(pairs, made, strict=True) for task in _over(one)]
        clocks = {node: task.clock_s() for node, task in {task.node: task for _image, task in tasks}.items()}
    finally:
        call(["docker", "service", "rm", *made])
    if lacking := sorted({f"{image} on {task.node}" for image, task in tasks if "No such image" in task.error}):
        raise MachineError(
            f"Images are missing: {', '.join(lacking)}.",
            "Run ./lab setup, then docker save IMAGE | ssh NODE docker load.",
        )
    for node, clock_s in clocks.items():
        check_clock(node, clock_s)


def _check_architectures(images: Collection[str], swarm: Swarm) -> None:
    """Raise MachineError if a node has another processor than the lab's images here; a registry may have both."""
    own = sorted(image for image in images if is_own(image) and not is_published(image))
    found = [image.architecture for image in images_of(own).values()] if own else []
    kinds = {node: swarm.machines[node][0] for node in swarm.nodes if node in swarm.machines}
    if found and (others := sorted(node for node, kind in kinds.items() if kind != found[0])):
        raise MachineError(
            f"The images here are for {found[0]}, and {', '.join(others)} needs those for {kinds[others[0]]}.",
            "Build them there, push both to a registry and set LAB_REGISTRY; or take a node like this one.",
        )


class _Task(NamedTuple):
    """One task of a job that has ended."""

    number: str
    node: str
    state: str
    error: str

    def clock_s(self) -> float:
        """Return how far its node's clock is ahead of this one's: the node writes one time, its manager the other."""
        found = json.loads(_asked("docker", "inspect", "--type", "task", self.number).stdout)[0]
        return read_time_s(found["Status"]["Timestamp"]) - read_time_s(found["UpdatedAt"])


def _over(job: str) -> list[_Task]:
    """Return the tasks of a job, which has one on each node; those without an answer in LOOK_S are not among them."""
    form = "{{.ID}}\t{{.Node}}\t{{.CurrentState}}\t{{.Error}}"
    command = ("docker", "service", "ps", "--no-trunc", "--format", form, job)
    end_s = time.monotonic() + LOOK_S
    while True:
        tasks = [_Task(*line.split("\t")) for line in _asked(*command).stdout.splitlines()]
        over = [task for task in tasks if task.state.startswith(("Failed", "Rejected", "Complete"))]
        if (tasks and len(over) == len(tasks)) or time.monotonic() > end_s:
            return over
        time.sleep(0.3)


def broker_nodes(swarm: Swarm) -> int:
    """Return how many nodes take brokers: those with looplab.broker=1, =2, … without a gap."""
    values, count = swarm.values(f"{LABEL}broker"), 0
    while str(count + 1) in values:
        count += 1
    return max(1, count)


def can_encrypt(modules: Path = MODULES) -> bool:
    """Return whether this node's kernel has ESP, which an encrypted overlay network needs."""
    release = call(["uname", "-r"]).stdout.strip()
    files = (modules / release / name for name in ("modules.dep", "modules.builtin"))
    return any("esp4.ko" in path.read_text() for path in files if path.is_file())
