"""./lab doctor: what this machine can and cannot do, with a remedy for each fault."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from looplab.errors import EXIT_GOOD, EXIT_MACHINE
from looplab.lab.checkout import PROBE, Lab
from looplab.lab.docker.engine import find_engine
from looplab.lab.machine import checks
from looplab.lab.machine.checks import FAIL, Check, run_is_possible
from looplab.lab.machine.limits import CACHE, probe_limits

WIDTH = 80
NAME_WIDTH = 19
STATE_WIDTH = 6


def doctor(root: Path, *, as_json: bool = False) -> int:
    """Print the findings and return 0 if a run is possible, else 3; changes nothing on the machine."""
    lab, engine = Lab(root), find_engine()
    limits = probe_limits(engine, lab.own_image(PROBE), root / CACHE)
    findings = [*checks.check_host(root / "results"), *checks.check_engine(engine)]
    findings += checks.check_ports(lab.ports(), lab.port_owners(engine))
    if engine.serves:
        findings += checks.check_limits(limits)
    if as_json:
        document = {
            "schema": 1,
            "run_possible": run_is_possible(findings),
            "checks": [asdict(check) for check in findings],
        }
        print(json.dumps(document, indent=2))
    else:
        print(table(findings), end="")
    return EXIT_GOOD if run_is_possible(findings) else EXIT_MACHINE


def table(checks: Sequence[Check]) -> str:
    """Return lines of at most 80 columns; each fault is followed by what it means and what to do."""
    lines = [row for check in checks for row in _rows(check)]
    worst = [check for check in checks if check.state == FAIL]
    verdict = "A run is possible." if not worst else f"No run is possible yet: {worst[0].name}. See its remedy."
    return "\n".join([*lines, "", verdict]) + "\n"


def _rows(check: Check) -> list[str]:
    indent = " " * (NAME_WIDTH + STATE_WIDTH)
    wrapped = partial(textwrap.fill, width=WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    notes = [text for text in (check.why, check.remedy and f"-> {check.remedy}") if text]
    head = f"{check.name:<{NAME_WIDTH}}{check.state:<{STATE_WIDTH}}{check.found}"
    return [wrapped(head), *(wrapped(text, initial_indent=indent) for text in notes)]
