"""./lab doctor: what this machine can and cannot do, with a remedy for each fault."""

import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_MACHINE
from looplab.lab.checkout import PROBE, Lab
from looplab.lab.docker.images import Registry, ask_registry, local_images
from looplab.lab.image_names import BASE_IMAGE, is_published
from looplab.lab.machine.checks import FAIL, OK, WARN, Check, check_machine, run_is_possible
from looplab.lab.machine.facts import Machine, inspect_machine
from looplab.lab.machine.limits import machine_variables

WIDTH = 80
NAME_WIDTH = 18
STATE_WIDTH = 6
_COLOURS = {OK: "\x1b[32m", WARN: "\x1b[33m", FAIL: "\x1b[31m"}
_PLAIN = "\x1b[0m"


def doctor(root: Path, *, as_json: bool = False) -> int:
    """Print the findings and return 0 if a run is possible, else 3; changes nothing on the machine."""
    lab = Lab(root)
    own = lab.own_images()
    machine = inspect_machine(root, lab.ports().items(), own[PROBE], ask_for=BASE_IMAGE)
    upstream = lab.upstream_images().values()
    here = local_images(upstream) if machine.engine.serves else {}
    checks = check_machine(root, machine, {reference: reference in here for reference in upstream})
    if machine.engine.serves:
        checks += check_own_registry(list(own.values()))
    if as_json:
        print(json.dumps(report(machine, checks), indent=2))
    else:
        print(table(checks, colour=sys.stdout.isatty()), end="")
    return EXIT_GOOD if run_is_possible(checks) else EXIT_MACHINE


def check_own_registry(own: Sequence[str], ask: Callable[[str], Registry] = ask_registry) -> list[Check]:
    """Return whether the registry of the lab's own images answers; nothing if no registry is named for them."""
    published = [reference for reference in own if is_published(reference)]
    if not published:
        return []
    registry = ask(published[0])
    if registry.answers:
        return [Check("Lab's registry", f"{registry.name} answers")]
    found = f"{registry.name} does not answer ({registry.detail})"
    return [Check("Lab's registry", found, WARN, "None needed: ./lab builds the lab's own images from this checkout.")]


def report(machine: Machine, checks: Sequence[Check]) -> dict[str, Any]:
    """Return the one document of --json."""
    return {
        "schema": 1,
        "run_possible": run_is_possible(checks),
        "checks": [asdict(check) for check in checks],
        "variables": machine_variables(machine.limits),
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
    """Return lines of at most 80 columns; each fault is followed by what it means and what to do."""
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
