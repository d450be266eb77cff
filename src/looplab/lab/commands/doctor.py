"""./lab doctor: what this machine can and cannot do, each with its remedy."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from looplab.errors import EXIT_GOOD, EXIT_MACHINE
from looplab.lab.docker.images import BASE_IMAGE, image_fact
from looplab.lab.docker.own_names import is_published
from looplab.lab.docker.registry import Registry, ask_registry
from looplab.lab.machine.checks import FAIL, OK, WARN, Check, check_machine, run_is_possible
from looplab.lab.machine.machine import Machine, inspect_machine, machine_variables

WIDTH = 80
NAME_WIDTH = 18
STATE_WIDTH = 6
_COLOURS = {OK: "\x1b[32m", WARN: "\x1b[33m", FAIL: "\x1b[31m"}
_PLAIN = "\x1b[0m"


def doctor(
    root: Path,
    *,
    as_json: bool = False,
    ports: Mapping[str, int] | None = None,
    upstream: Mapping[str, str] | None = None,
    own: Sequence[str] = (),
    stream: TextIO | None = None,
) -> int:
    """Print the findings; 0 when a run is possible, 3 when not. Changes nothing on the machine."""
    output = stream if stream is not None else sys.stdout
    machine = inspect_machine(root, (ports or {}).items(), ask_for=BASE_IMAGE, probe_images=(BASE_IMAGE, *own))
    here = {}
    if machine.engine.serves:
        here = {reference: image_fact(reference) is not None for reference in (upstream or {}).values()}
    checks = [*check_machine(root, machine, here), *(check_own_registry(own) if machine.engine.serves else [])]
    if as_json:
        output.write(json.dumps(report(machine, checks), indent=2) + "\n")
    else:
        output.write(table(checks, colour=output.isatty()))
    return EXIT_GOOD if run_is_possible(checks) else EXIT_MACHINE


def check_own_registry(own: Sequence[str], ask: Callable[[str], Registry] = ask_registry) -> list[Check]:
    """Whether the registry that is named for the lab's own images answers; nothing where none is named."""
    published = [reference for reference in own if is_published(reference)]
    if not published:
        return []
    registry = ask(published[0])
    if registry.answers:
        return [Check("Lab's registry", f"{registry.name} answers")]
    found = f"{registry.name} does not answer ({registry.detail})"
    return [Check("Lab's registry", found, WARN, "None needed: ./lab builds the lab's own images from this checkout.")]


def report(machine: Machine, checks: Sequence[Check]) -> dict[str, Any]:
    """The one document of --json."""
    return {
        "schema": 1,
        "run_possible": run_is_possible(checks),
        "checks": [check.as_dict() for check in checks],
        "variables": machine_variables(machine),
        "cpu": machine.host.cpu,
        "cores": machine.host.cores,
        "memory_bytes": machine.host.memory_bytes,
        "kernel": machine.host.kernel,
        "engine": machine.engine.server_version,
        "compose": ".".join(map(str, machine.engine.compose or ())),
        "cgroup": machine.engine.cgroup_version,
        "serial": [device.path for device in machine.host.serial],
    }


def table(checks: Sequence[Check], *, colour: bool = False) -> str:
    """At most 80 columns; what is wrong is followed by what it means and what to do."""
    lines: list[str] = []
    for check in checks:
        lines += _rows(check, colour)
    worst = [check for check in checks if check.state == FAIL]
    verdict = "A run is possible." if not worst else f"No run is possible yet: {worst[0].name}. See its remedy."
    return "\n".join([*lines, "", verdict]) + "\n"


def _rows(check: Check, colour: bool) -> list[str]:
    indent = " " * (NAME_WIDTH + STATE_WIDTH)
    state = f"{check.state:<{STATE_WIDTH}}"
    if colour:
        state = f"{_COLOURS[check.state]}{state}{_PLAIN}"
    room = WIDTH - len(indent)
    found = textwrap.wrap(check.found, room, break_on_hyphens=False) or [""]
    rows = [f"{check.name:<{NAME_WIDTH}}{state}{found[0]}", *(indent + line for line in found[1:])]
    for text in (check.why, check.remedy and f"-> {check.remedy}"):
        rows += [indent + line for line in textwrap.wrap(text, room, break_on_hyphens=False)]
    return rows


__all__ = ["doctor", "report", "table"]


def command(root: Path, as_json: bool) -> int:
    """Report on this machine for this checkout; return the exit code."""
    from looplab.lab.checkout import Lab

    lab = Lab(root)
    own = tuple(lab.own_images().values())
    return doctor(root, as_json=as_json, ports=lab.ports(), upstream=lab.upstream_images(), own=own)
