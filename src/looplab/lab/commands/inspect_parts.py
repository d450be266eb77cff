"""./lab inspect: the parts of the lab that run now, or those that a scenario would start."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

from looplab.errors import EXIT_GOOD
from looplab.lab.checkout import Lab
from looplab.lab.metrics_page import exporter_url, fetch, parse
from looplab.lab.programs import call
from looplab.lab.scenarios import chosen, every
from looplab.run.inspections import noted
from looplab.run.table import WIDTH, aligned
from looplab.spec.roles import BROKER, CONTROLLER
from looplab.system.terminal import say

COST = "inspect: about a second of processor time, once; the run notes it."
# The engine asks this program of its host.
NO_PS = '"ps": executable file not found'
HEAD = ("part", "scheduling", "addresses, ports on the host")
# With several brokers the services have other names: the image shows what they are.
BROKERS = {BROKER.name, "mosquitto"}


@dataclass
class LabPart:
    """One container, or one that would be started; `scheduling` as ps shows it, e.g. "FF 90"."""

    name: str
    image: str
    addresses: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    scheduling: str = ""
    limits: list[str] = field(default_factory=list)
    treatments: list[dict[str, Any]] = field(default_factory=list)


def inspect(root: Path, scenario: str | None, *, as_json: bool) -> int:
    """Print the running parts, or what `scenario` starts if it does not run; return the exit code."""
    lab = Lab(root)
    named = chosen(root, [scenario])[0].name if scenario else ""
    running = lab.compose().listed()
    controllers = {*every(root)}
    if named and named not in running:
        title = f"{named} does not run; it would start:"
        parts, rest = _planned(lab, named), []
    else:
        with noted(root / "results", "./lab inspect"):
            parts = _live(running)
            rest = _add_treatments(parts, controllers, lab.settings())
        title = f"{', '.join(running.keys() & controllers) or 'no scenario'} runs"
    if as_json:
        print(json.dumps({"parts": list(map(asdict, parts)), "treatments": rest}, indent=1))
    else:
        print("\n".join(_lines(title, parts, rest)))
        say(COST if running else "Nothing runs: start a scenario with `./lab run NAME`.")
    return EXIT_GOOD


def _live(running: Mapping[str, str]) -> list[LabPart]:
    """Return the parts by what the engine holds of their containers."""
    containers = json.loads(call(["docker", "inspect", *running.values()]).stdout or "[]") if running else []
    states = {one["Id"]: one for one in containers}
    names = {container: name for name, container in running.items()}
    with ThreadPoolExecutor() as pool:
        scheduling = dict(zip(running, pool.map(_scheduling, running.values()), strict=True))
    return [
        LabPart(
            name,
            state["Config"]["Image"],
            _addresses(state, names),
            [
                f"{published['HostIp']}:{published['HostPort']}"
                for each in state["NetworkSettings"]["Ports"].values()
                for published in each or []
            ],
            scheduling[name],
            list(_limits(_given(state["HostConfig"]))),
        )
        for name, container in sorted(running.items())
        if (state := states.get(container))
    ]


def _addresses(state: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    kind, _, other = state["HostConfig"]["NetworkMode"].partition(":")
    if kind == "container":
        return [f"of {names.get(other, other[:12])}"]
    return [network["IPAddress"] for network in state["NetworkSettings"]["Networks"].values()]


def _scheduling(container: str) -> str:
    """Return the scheduling of a container's processes: class and real-time priority, as ps prints them."""
    top = call(["docker", "top", container, "-o", "pid,cls,rtprio"])
    if NO_PS in top.stderr:
        return "unknown (no ps)"
    listed = top.stdout.splitlines()[1:]
    return ", ".join(sorted({" ".join(line.split()[1:]).removesuffix(" -") for line in listed}))


def _given(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine holds of a container's rights and limits, in Compose's words."""
    return {
        "rtprio": {limit["Name"]: limit["Hard"] for limit in host["Ulimits"] or []}.get("rtprio"),
        "cap_add": [name.removeprefix("CAP_") for name in host["CapAdd"] or []],
        "cpu_rt_runtime": host["CpuRealtimeRuntime"],
        "cpus": host["NanoCpus"] / 1e9,
        "cpuset": host["CpusetCpus"],
        "cpu_shares": host["CpuShares"],
        "mem_limit": host["Memory"],
        "pids_limit": host["PidsLimit"],
    }


def _planned(lab: Lab, profile: str) -> list[LabPart]:
    """Return the parts as the Compose files describe them."""
    services = lab.compose().config(profile)["services"].items()
    return [
        LabPart(
            name,
            given["image"],
            [f"of {other}" for other in given.get("network_mode", "").split(":")[1:]],
            [f"{port.get('host_ip', '')}:{port['published']}" for port in given.get("ports", [])],
            limits=list(_limits({**given, "rtprio": given.get("ulimits", {}).get("rtprio")})),
        )
        for name, given in sorted(services)
    ]


def _limits(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield rights and limits in words, of keys as in a Compose file."""
    for name in ("rtprio", "cpus", "cpuset", "cpu_shares"):
        if given.get(name):
            yield f"{name} {given[name]:g}" if isinstance(given[name], float) else f"{name} {given[name]}"
    if runtime := int(given.get("cpu_rt_runtime") or 0):
        yield f"real time {runtime / 1000:g} ms/s"
    if memory := int(given.get("mem_limit") or 0):
        yield f"memory {memory >> 20} MiB"
    if given.get("pids_limit"):
        yield f"{given['pids_limit']} processes"
    yield from given.get("cap_add") or []


def _add_treatments(
    parts: Sequence[LabPart], controllers: Collection[str], settings: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Give each part the treatments of the run that goes on which begin with its name; return the others."""
    try:
        page = parse(fetch(f"{exporter_url(settings)}/metrics"))
    except OSError:
        return []
    rest = []
    running = {part.name for part in parts}
    for labels, verified in page["lab_treatment_verified"]:
        # Until a run has scanned its parts, the exporter still shows the run before it.
        if labels["scenario"] not in running:
            continue
        treatment: dict[str, Any] = {name: labels[name] for name in ("what", "wanted", "found")}
        treatment["verified"] = verified == 1
        role = re.split(r"\W", labels["what"])[0]
        owners = [part for part in parts if _has_role(part, role, controllers)]
        for owner in owners:
            owner.treatments.append(treatment)
        rest += [] if owners else [treatment]
    return rest


def _has_role(part: LabPart, role: str, controllers: Collection[str]) -> bool:
    """Return whether the name of a part, or of its image, holds that of a role."""
    if part.name in controllers:
        return role == CONTROLLER.name
    words = re.split(r"\W", f"{part.name} {part.image}")
    return not {*words}.isdisjoint(BROKERS if role == BROKER.name else {role})


def _lines(title: str, parts: Sequence[LabPart], rest: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each part and what is known of it, in 80 columns."""
    rows = [HEAD, *((part.name, part.scheduling, ", ".join((*part.addresses, *part.ports))) for part in parts)]
    heads = aligned(rows, left=len(HEAD), gap=" ")
    yield from (title, "", heads[0])
    for part, head in zip(parts, heads[1:], strict=True):
        yield fill(head, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        yield _line(part.image)
        yield from map(_line, filter(None, (", ".join(part.limits), *map(_treatment, part.treatments))))
    if rest:
        yield from ("", "treatments of the whole run", *(_line(_treatment(one)) for one in rest))


def _line(text: str) -> str:
    return fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _treatment(one: Mapping[str, Any]) -> str:
    if one["verified"]:
        return f"{one['what']}: {one['found']}, as wanted"
    return f"{one['what']}: {one['found']}, but {one['wanted']} was wanted"
