"""./lab inspect: the parts of the lab that run now, with their scheduling, limits and treatments."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from looplab.errors import EXIT_GOOD
from looplab.lab.checkout import Lab
from looplab.lab.metrics_page import fetch, parse
from looplab.lab.programs import call
from looplab.lab.scenarios import chosen, every
from looplab.lab.settings import address_of
from looplab.run.table import WIDTH, aligned
from looplab.system.terminal import say


class LabPart(NamedTuple):
    """One container; `scheduling` as ps shows it, e.g. "FF 90"."""

    name: str
    image: str
    scheduling: str
    limits: list[str]


def inspect(root: Path, scenario: str | None, *, as_json: bool) -> int:
    """Print the running parts; return the exit code. Of a `scenario` that does not run, name what shows its parts."""
    lab = Lab(root)
    named = chosen(root, [scenario])[0].name if scenario else ""
    running = lab.compose().listed()
    if named and named not in running:
        running, title = {}, f"{named} does not run: `docker compose --profile {named} config` has its parts."
    else:
        title = f"{', '.join(running.keys() & every(root).keys()) or 'no scenario'} runs"
    parts, treatments = _live(running), _treatments(running, lab.settings()) if running else []
    if as_json:
        print(json.dumps({"parts": [part._asdict() for part in parts], "treatments": treatments}, indent=1))
    else:
        print("\n".join(_lines(title, parts, treatments)))
        say(
            "inspect: about a second of processor time."
            if running
            else "Nothing runs: start a scenario with `./lab run NAME`."
        )
    return EXIT_GOOD


def _live(running: Mapping[str, str]) -> list[LabPart]:
    """Return the parts by what the engine holds of their containers."""
    containers = json.loads(call(["docker", "inspect", *running.values()]).stdout or "[]") if running else []
    states = {one["Id"]: one for one in containers}
    names = {container: name for name, container in running.items()}
    with ThreadPoolExecutor() as pool:
        scheduling = dict(zip(running, pool.map(_scheduling, running.values()), strict=True))
    return [
        LabPart(name, state["Config"]["Image"], scheduling[name], list(_limits(state["HostConfig"], names)))
        for name, container in sorted(running.items())
        if (state := states.get(container))
    ]


def _scheduling(container: str) -> str:
    """Return the scheduling of a container's processes: class and real-time priority, as ps prints them."""
    top = call(["docker", "top", container, "-o", "pid,cls,rtprio"])
    # A minimal host has no ps, which the engine runs for this.
    if not top.good:
        return "unknown"
    listed = top.stdout.splitlines()[1:]
    return ", ".join(sorted({" ".join(line.split()[1:]).removesuffix(" -") for line in listed}))


def _limits(host: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Yield rights and limits in words, of what the engine holds of a container; `names` has the others by their id."""
    kind, _, other = host["NetworkMode"].partition(":")
    if kind == "container":
        yield f"network of {names.get(other, other[:12])}"
    yield from (f"rtprio {limit['Hard']}" for limit in host["Ulimits"] or [] if limit["Name"] == "rtprio")
    if host["NanoCpus"]:
        yield f"cpus {host['NanoCpus'] / 1e9:g}"
    if host["CpusetCpus"]:
        yield f"cpuset {host['CpusetCpus']}"
    if host["CpuShares"]:
        yield f"cpu_shares {host['CpuShares']}"
    if host["CpuRealtimeRuntime"]:
        yield f"real time {host['CpuRealtimeRuntime'] / 1000:g} ms/s"
    if host["Memory"]:
        yield f"memory {host['Memory'] >> 20} MiB"
    if host["PidsLimit"]:
        yield f"{host['PidsLimit']} processes"
    yield from (name.removeprefix("CAP_") for name in host["CapAdd"] or [])


def _treatments(running: Collection[str], settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the treatments of the run that goes on."""
    try:
        page = parse(fetch(f"{address_of(settings, 'EXPORTER')}/metrics"))
    except OSError:
        return []
    # Until a run has scanned its parts, the exporter still shows the run before it.
    return [
        {**{name: labels[name] for name in ("what", "wanted", "found")}, "verified": verified == 1}
        for labels, verified in page["lab_treatment_verified"]
        if labels["scenario"] in running
    ]


def _lines(title: str, parts: Sequence[LabPart], treatments: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each part and what is known of it, in 80 columns."""
    rows = [("part", "scheduling", "image"), *((part.name, part.scheduling, part.image) for part in parts)]
    heads = aligned(rows, left=3)
    yield from (title, "", heads[0])
    for part, head in zip(parts, heads[1:], strict=True):
        yield fill(head, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        yield from map(_line, filter(None, [", ".join(part.limits)]))
    if treatments:
        yield from ("", "treatments", *(_line(_treatment(one)) for one in treatments))


def _line(text: str) -> str:
    return fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _treatment(one: Mapping[str, Any]) -> str:
    if one["verified"]:
        return f"{one['what']}: {one['found']}, as wanted"
    return f"{one['what']}: {one['found']}, but {one['wanted']} was wanted"
