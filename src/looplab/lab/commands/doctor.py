"""./lab doctor: what this machine can and cannot do, with a remedy for each fault."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from looplab.errors import EXIT_GOOD, EXIT_MACHINE, UsageError
from looplab.lab.checkout import PROBE, Lab
from looplab.lab.docker.engine import find_engine, show_version
from looplab.lab.docker.images import images_of
from looplab.lab.machine import checks
from looplab.lab.machine.checks import FAIL, Check, run_is_possible
from looplab.lab.machine.facts import host_facts
from looplab.lab.machine.limits import CACHE, machine_variables, probe_limits

WIDTH = 80
NAME_WIDTH = 19
STATE_WIDTH = 6


def doctor(root: Path, *, as_json: bool = False) -> int:
    """Print the findings and return 0 if a run is possible, else 3; changes nothing on the machine."""
    lab, engine = Lab(root), find_engine()
    host = host_facts(root / "results", engine)
    limits = probe_limits(engine, lab.own_image(PROBE), root / CACHE)
    findings = [*checks.check_host(host), *checks.check_engine(engine)]
    findings += checks.check_ports(lab.ports(), lab.port_owners(engine))
    if engine.serves:
        findings += checks.check_limits(limits, engine)
    if engine.serves and engine.compose_serves:
        findings.append(check_upstream(lab))
    findings.append(checks.check_serial(host))
    if as_json:
        document = {
            "schema": 1,
            "run_possible": run_is_possible(findings),
            "checks": [asdict(check) for check in findings],
            "variables": machine_variables(limits),
            **asdict(host),
            "engine": engine.server_version,
            "compose": show_version(engine.compose),
            "cgroup": engine.cgroup_version,
        }
        print(json.dumps(document, indent=2))
    else:
        print(table(findings), end="")
    return EXIT_GOOD if run_is_possible(findings) else EXIT_MACHINE


def check_upstream(lab: Lab) -> Check:
    try:
        upstream = lab.images()[1].values()
    except UsageError as error:
        return Check("Compose files", error.message, FAIL, error.remedy)
    return checks.check_images(sorted({*upstream} - images_of(upstream).keys()))


def table(checks: Sequence[Check]) -> str:
    """Return lines of at most 80 columns; each fault is followed by what it means and what to do."""
    lines = [row for check in checks for row in _rows(check)]
    worst = [check for check in checks if check.state == FAIL]
    verdict = "A run is possible." if not worst else f"No run is possible yet: {worst[0].name}. See its remedy."
    return "\n".join([*lines, "", verdict]) + "\n"


def _rows(check: Check) -> list[str]:
    indent = " " * (NAME_WIDTH + STATE_WIDTH)
    state = f"{check.state:<{STATE_WIDTH}}"
    room = WIDTH - len(indent)
    wrapped = textwrap.wrap(check.found, room, break_on_hyphens=False) or [""]
    rows = [f"{check.name:<{NAME_WIDTH}}{state}{wrapped[0]}", *(indent + line for line in wrapped[1:])]
    for text in (check.why, check.remedy and f"-> {check.remedy}"):
        rows += [indent + line for line in textwrap.wrap(text, room, break_on_hyphens=False)]
    return rows
