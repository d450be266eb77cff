"""A Compose model (`docker compose config --format json`) as a stack for `docker stack deploy`, and what Swarm lacks.

Nothing is left out in silence: each key and service that Swarm refuses or ignores becomes one line of `Stack.notes`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from looplab.errors import UsageError
from looplab.spec.roles import Secret

# The schema of `docker stack` from engine 20.10 on.
VERSION = "3.9"
LABEL = "looplab."
# Where parts find passwords; in Compose it is the volume `identities`.
IDENTITIES, SECRETS = "identities", "/run/looplab"
MOST_CONFIG_BYTES = 1_000_000
# Services by a word of their name, and the label of the nodes that may run them.
PLACES = (("devices", "devices"), ("database", "database"), ("postgres", "database"), ("broker", "broker"),
          ("limit-", "broker"), ("node", "node"))  # fmt: skip
# The controller, and what shares its memory or its results.
REST = "instance"
# Services that a stack lacks, and what takes their place.
LEFT_OUT = {
    "guide": "it is for `docker compose up`",
    "prepare": "its passwords are secrets",
    "treatments": "Swarm has no shared PID namespace: run.json names what nobody could verify",
    "grafana": "run one of your own with grafana/ and this Prometheus, or `./lab report` after the run",
    "pages": "run `./lab report` after the run",
}
# Left out unless their ports may be open.
EXPORTER, PROMETHEUS = WATCHING = ("exporter", "prometheus")
# The exporter of each node with devices, and what it needs of the other one.
HOSTS = "hosts"
OF_HOSTS = ("cap_drop", "command", "entrypoint", "image", "logging", "read_only")
# Read where it is, and no config: it has a file for each run.
RESULTS = "/results"
TAKEN = (
    "cap_add", "cap_drop", "command", "entrypoint", "environment", "healthcheck", "hostname", "image", "init",
    "labels", "logging", "read_only", "stop_grace_period", "stop_signal", "ulimits", "user", "working_dir",
)  # fmt: skip
# Keys that Swarm refuses or ignores, and what is lost, or who does it instead.
DROPPED = {
    "attach": "`docker service logs` shows what a part prints",
    "build": "images come from a registry, or by `docker save | docker load` to each node",
    "cgroup_parent": "lost: the engine chooses the control group",
    "container_name": "Swarm names the containers",
    "cpu_rt_runtime": "lost: no real-time budget",
    "cpu_shares": "lost: all parts have the same weight",
    "depends_on": "every program waits for those that it needs",
    "device_cgroup_rules": "lost: no devices",
    "devices": "lost: no devices; what needs them stays with Compose",
    "extends": "resolved",
    "external_links": "parts find each other by name",
    "group_add": "lost: no further groups",
    "ipc": "lost: no shared memory between parts",
    "links": "parts find each other by name",
    "memswap_limit": "lost: swap is not limited",
    "network_mode": "lost: every part is on the stack's networks",
    "pid": "lost: no part reads the processes of another",
    "privileged": "lost",
    "profiles": "resolved: the stack holds one profile",
    "pull_policy": "every node pulls what it lacks",
    "security_opt": "lost: no-new-privileges is not set",
    "userns_mode": "lost",
}


@dataclass
class Stack:
    """What `docker stack deploy --compose-file` reads; `notes` is for a person: (key or service, what became of it)."""

    services: dict[str, Any] = field(default_factory=dict)
    networks: dict[str, Any] = field(default_factory=dict)
    volumes: dict[str, Any] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the file: JSON, which is YAML."""
        parts = ("services", "networks", "volumes", "configs", "secrets")
        return {"version": VERSION, **{name: getattr(self, name) for name in parts if getattr(self, name)}}

    @property
    def places(self) -> dict[str, set[str]]:
        """The values of each label that some service asks of its node."""
        wanted: dict[str, set[str]] = {}
        for service in self.services.values():
            for constraint in service["deploy"]["placement"]["constraints"]:
                label, _, value = constraint.removeprefix("node.labels.").partition(" == ")
                wanted.setdefault(label, set()).add(value)
        return wanted


@dataclass(frozen=True)
class Source:
    """What the translation needs beside the model.

    `ends` are services whose end is the end of the run. `secret_files` are on this machine, by the secret's name.
    `users` are those of images that choose one. `broker_nodes` have the label looplab.broker with values from 1 on:
    brokers take turns on them.
    """

    ends: tuple[str, ...]
    secrets: Sequence[Secret] = ()
    secret_files: Mapping[str, Path] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    broker_nodes: int = 1
    publish: bool = False
    encrypted: bool = False


def translate(model: Mapping[str, Any], source: Source) -> Stack:
    """Return the stack of a Compose model. Raises UsageError for a file that no config can hold."""
    stack = Stack()
    brokers = 0
    for name, given in model["services"].items():
        if name in LEFT_OUT:
            stack.notes[f"service {name}"] = LEFT_OUT[name]
            continue
        if name in WATCHING and not source.publish:
            stack.notes[f"service {name}"] = "left out: nobody would reach its port (--publish); see `./lab report`"
            continue
        if given.get("scale") == 0 or (given.get("deploy") or {}).get("replicas") == 0:
            stack.notes[f"service {name}"] = "left out: its scale is 0"
            continue
        place = REST if name in source.ends else place_of(name)
        value = "yes"
        if place == "broker":
            value, brokers = str(brokers % source.broker_nodes + 1), brokers + 1
        _Service(stack, name, given, source).translate(f"node.labels.{LABEL}{place} == {value}")
    if EXPORTER in stack.services:
        stack.services[HOSTS] = _on_each_node(stack.services[EXPORTER])
    used = {network for service in stack.services.values() for network in service["networks"]}
    for network in sorted(used):
        form: dict[str, Any] = {"driver": "overlay"}
        if (model.get("networks", {}).get(network) or {}).get("internal"):
            form["internal"] = True
        stack.networks[network] = {**form, **({"driver_opts": {"encrypted": ""}} if source.encrypted else {})}
    mounted = {mount["source"] for one in stack.services.values() for mount in one.get("volumes", ())
               if mount["type"] == "volume"}  # fmt: skip
    for volume in sorted(mounted - stack.volumes.keys()):
        options = (model.get("volumes", {}).get(volume) or {}).get("driver_opts")
        stack.volumes[volume] = {"driver_opts": options} if options else {}
    return stack


def _on_each_node(exporter: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exporter's service once more, a task on each node with devices: it reads that node's processors."""
    deploy = {
        **exporter["deploy"], "mode": "global", "placement": {"constraints": [f"node.labels.{LABEL}devices == yes"]},
    }  # fmt: skip
    taken = {key: exporter[key] for key in OF_HOSTS if key in exporter}
    # Nobody listens there: the broker has one observer.
    environment = {**exporter["environment"], "BROKER_HOST": "localhost"}
    return {**taken, "environment": environment, "networks": {"default": {}}, "deploy": deploy}


def place_of(service: str) -> str:
    """Return the role of the nodes that may run a service."""
    return next((place for word, place in PLACES if word in service), REST)


class _Service:
    """One service on its way into `stack`."""

    def __init__(self, stack: Stack, name: str, given: Mapping[str, Any], source: Source) -> None:
        self._stack, self._name, self._given, self._source = stack, name, given, source
        self._made: dict[str, Any] = {}
        self._limits: dict[str, Any] = {}

    def translate(self, constraint: str) -> None:
        handlers: dict[str, Callable[[Any], None]] = {
            "networks": self._networks, "volumes": self._volumes, "tmpfs": self._tmpfs, "shm_size": self._shared_memory,
            "ports": self._ports, "mem_limit": self._memory, "cpus": self._cpus, "cpuset": self._cpuset,
            "pids_limit": self._pids, "restart": self._restart, "scale": self._scale, "deploy": self._deploy,
        }  # fmt: skip
        self._made["deploy"] = {
            "endpoint_mode": "dnsrr",
            "placement": {"constraints": [constraint]},
            "restart_policy": {"condition": "none" if self._name in self._source.ends else "any", "delay": "1s"},
        }
        self._stack.notes.setdefault("endpoint_mode", "dnsrr: names lead to the part itself, no IP_VS is in the path")
        self._made["networks"] = {"default": {}}
        for key, value in self._given.items():
            if value is None or value in ([], {}, ""):
                continue
            if key in handlers:
                handlers[key](value)
            elif key in TAKEN:
                self._made[key] = value
            else:
                self._note(key, DROPPED.get(key, "left out: not known to this translation"))
        # Swarm fills it in; a part that reports where it ran takes it.
        given = self._made.get("environment") or {}
        # Without a value a variable is unset in Compose's model; here it would be that of the shell which deploys.
        known = {name: value for name, value in given.items() if value is not None}
        self._made["environment"] = {**known, "LAB_NODE": "{{.Node.Hostname}}"}
        self._secrets()
        if self._limits:
            self._made["deploy"]["resources"] = {"limits": self._limits}
        self._stack.services[self._name] = self._made

    def _note(self, key: str, text: str) -> None:
        self._stack.notes.setdefault(key, text)

    def _networks(self, value: Mapping[str, Any]) -> None:
        self._made["networks"] = {
            name: {"aliases": form["aliases"]} if form and form.get("aliases") else {} for name, form in value.items()
        }

    def _volumes(self, value: Sequence[Mapping[str, Any]]) -> None:
        for mount in value:
            if mount["type"] == "volume" and mount["source"] == IDENTITIES:
                self._note("volume identities", f"secrets, each in its file below {SECRETS}")
            elif mount["type"] == "bind" and mount.get("read_only") and mount["target"] != RESULTS:
                self._configs(Path(mount["source"]), str(mount["target"]))
            else:
                if mount["type"] == "bind":
                    where = f"{mount['source']}: the node of `{self._name}` needs this folder"
                    self._note(f"bind {mount['target']}", where)
                kept = {key: mount[key] for key in ("type", "source", "target", "read_only") if key in mount}
                self._made.setdefault("volumes", []).append(kept)

    def _configs(self, source: Path, target: str) -> None:
        self._note("read-only binds", "configs, one a file, named by their contents")
        for path in sorted(path for path in ([source] if source.is_file() else source.rglob("*")) if path.is_file()):
            data = path.read_bytes()
            if len(data) > MOST_CONFIG_BYTES:
                raise UsageError(f"{path} has {len(data)} bytes: a config of Swarm has at most {MOST_CONFIG_BYTES}.")
            inside = target if source.is_file() else f"{target}/{path.relative_to(source)}"
            key = f"{path.parent.name}-{path.name}".replace(".", "-") + f"-{sha256(data).hexdigest()[:8]}"
            self._stack.configs[key] = {"file": str(path)}
            mode = 0o555 if path.stat().st_mode & 0o100 else 0o444
            self._made.setdefault("configs", []).append({"source": key, "target": inside, "mode": mode})

    def _secrets(self) -> None:
        """Give the service each password that its environment names, or that its user may read as in Compose."""
        mounts = (mount.get("source") for mount in self._given.get("volumes") or ())
        if IDENTITIES not in mounts:
            return
        chosen = self._given.get("user") or self._source.users.get(self._given["image"])
        user, _, group = str(chosen or "0:0").partition(":")
        runs = self._name in self._source.ends
        named = {str(value) for value in (self._given.get("environment") or {}).values()}
        for one in self._source.secrets:
            target = f"{SECRETS}/{one.name}"
            if target in named or user in (str(one.reader), str(one.group)) or (runs and one.reader is None):
                key = one.name.replace("/", "-")
                self._stack.secrets[key] = {"file": str(self._source.secret_files[key])}
                owner = {"uid": user, "gid": group or user, "mode": 0o400}
                self._made.setdefault("secrets", []).append({"source": key, "target": target, **owner})

    def _tmpfs(self, value: str | Sequence[str]) -> None:
        self._note("tmpfs", "mounts of type tmpfs; one with an owner or a mode becomes a volume in memory")
        for entry in [value] if isinstance(value, str) else value:
            target, _, options = entry.partition(":")
            if not options:
                self._mount(target)
                continue
            name = f"{self._name}{target.replace('/', '-')}"
            self._stack.volumes[name] = {"driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": options}}
            # What the image has there would bring its owner.
            mount = {"type": "volume", "source": name, "target": target, "volume": {"nocopy": True}}
            self._made.setdefault("volumes", []).append(mount)

    def _shared_memory(self, value: object) -> None:
        self._note("shm_size", "a mount of type tmpfs at /dev/shm of that size")
        self._mount("/dev/shm", {"size": int(str(value))})

    def _mount(self, target: str, options: Mapping[str, int] | None = None) -> None:
        mount: dict[str, Any] = {"type": "tmpfs", "target": target}
        self._made.setdefault("volumes", []).append({**mount, "tmpfs": dict(options)} if options else mount)

    def _ports(self, value: Sequence[Mapping[str, Any]]) -> None:
        if not self._source.publish:
            self._note("ports", "left out: Swarm would open them on every address of the node (--publish does)")
            return
        self._note("ports", "host mode: open on every address of the part's own node, no IP_VS is in the path")
        self._made["ports"] = [
            {"target": int(port["target"]), "published": int(port["published"]), "mode": "host",
             "protocol": port.get("protocol", "tcp")}
            for port in value
        ]  # fmt: skip

    def _memory(self, value: object) -> None:
        if int(str(value)):
            self._note("mem_limit", "deploy.resources.limits.memory")
            self._limits["memory"] = str(value)

    def _cpus(self, value: object) -> None:
        if float(str(value)):
            self._note("cpus", "deploy.resources.limits.cpus")
            self._limits["cpus"] = f"{float(str(value)):g}"

    def _cpuset(self, value: str) -> None:
        self._note("cpuset", "deploy.resources.limits.cpus, a quota of as many processors: Swarm pins to none")
        self._limits.setdefault("cpus", str(len(value.split(","))))

    def _pids(self, value: object) -> None:
        self._note("pids_limit", "deploy.resources.limits.pids")
        self._limits["pids"] = int(str(value))

    def _restart(self, _value: str) -> None:
        self._note("restart", "deploy.restart_policy: none where the run ends, else any")

    def _scale(self, value: int) -> None:
        self._made["deploy"]["replicas"] = value
        # One on each node first.
        self._made["deploy"]["placement"]["preferences"] = [{"spread": "node.id"}]

    def _deploy(self, value: Mapping[str, Any]) -> None:
        if "replicas" in value:
            self._scale(int(value["replicas"]))
