"""What the Swarm is that this engine manages, and why a stack would not run on it: found out before anything starts."""

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
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
    """Nodes that take tasks, by host name, with their labels; `stacks` are those that run on it."""

    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stacks: Collection[str] = ()

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
    return Swarm(dict(map(_node, filter(_ready, nodes))), sorted(set(named)))


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


def check(swarm: Swarm, stack: Stack, name: str) -> None:
    """Raise MachineError if a place has no node, or another stack of the lab runs."""
    if others := [one for one in swarm.stacks if one]:
        raise MachineError(
            f"This Swarm already runs the stack {', '.join(others)}: two would disturb each other.",
            f"Run `docker stack rm {others[0]}` first, or --shared if the machines are not the same.",
        )
    ready = ", ".join(sorted(swarm.nodes)) or "none"
    for label, values in sorted(stack.places.items()):
        for value in sorted(values - swarm.values(label)):
            raise MachineError(
                f"No node has the label {label}={value}, which {name} needs. Nodes that are ready: {ready}.",
                f"Run `docker node update --label-add {label}={value} NODE`.",
            )


def check_images(stack: Stack) -> None:
    """Raise MachineError with the nodes that lack an image that they may have to run.

    Only the node itself knows: a service there makes a container whose program does not exist, so nothing starts.
    """
    pairs = sorted({(one["image"], one["deploy"]["placement"]["constraints"][0]) for one in stack.services.values()})
    job = ("--detach", "--quiet", "--mode", "global", "--restart-condition", "none", "--no-resolve-image")
    made: list[str] = []
    try:
        for image, place in pairs:
            there = ("--constraint", place, "--entrypoint", NOTHING, image)
            made.append(_asked("docker", "service", "create", *job, *there).stdout.strip())
        lacking = sorted({f"{pairs[at][0]} on {node}" for at, one in enumerate(made) for node in _lack(one)})
    finally:
        call(["docker", "service", "rm", *made])
    if lacking:
        raise MachineError(
            f"Images are missing: {', '.join(lacking)}.",
            "Run ./lab setup, then docker save IMAGE | ssh NODE docker load.",
        )


def _lack(job: str) -> set[str]:
    """Return the nodes of a job that have no such image; a node without an answer in LOOK_S is not among them."""
    command = ("docker", "service", "ps", "--no-trunc", "--format", "{{.Node}}\t{{.CurrentState}}\t{{.Error}}", job)
    end_s = time.monotonic() + LOOK_S
    while True:
        tasks = [line.split("\t") for line in _asked(*command).stdout.splitlines()]
        over = bool(tasks) and all(
            state.startswith(("Failed", "Rejected", "Complete")) for _node, state, _error in tasks
        )
        if over or time.monotonic() > end_s:
            return {node for node, _state, error in tasks if "No such image" in error}
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
