"""Grafana's own code: npm packages, run by the programs of tests/integration/observability/node."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.places import ROOT

FOLDER = ROOT / "tests/integration/observability/node"
# Node.js comes with the Python environment: that of Debian 12 and of Ubuntu 24.04 cannot load Grafana's packages.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run_program(script: str, given: Any) -> Any:
    """Return what a script makes of `given`, both as JSON; the packages are installed on first use."""
    if not (FOLDER / "node_modules/@grafana/data").exists():
        _succeed(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], "", 500)
    return json.loads(_succeed(["node", script], json.dumps(given), 200))


def _succeed(command: list[str], given: str, timeout_s: int) -> str:
    done = subprocess.run(
        command,
        cwd=FOLDER,
        env=ENVIRONMENT,
        input=given,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
