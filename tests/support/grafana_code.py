"""Grafana's own code: npm packages, run by the programs of node/ and scenes/."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.places import ROOT

HERE = ROOT / "tests/integration/observability"
# Node.js comes with the Python environment: that of Debian 12 and of Ubuntu 24.04 cannot load Grafana's packages.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
QUIET = ("--ignore-scripts", "--no-audit", "--no-fund")
# The packages of node/ are as its package-lock.json has them; those of scenes/ are 800, and seldom wanted.
INSTALL = {
    "node": ["npm", "ci", *QUIET],
    "scenes": ["npm", "install", "--legacy-peer-deps", "--no-package-lock", *QUIET],
}


def run_program(script: str, given: Any, *, folder: str = "node") -> Any:
    """What a script of `folder` makes of `given`, both as JSON; its packages are installed on first use."""
    if not (HERE / folder / "node_modules" / "@grafana" / "data").exists():
        _succeed(folder, INSTALL[folder], timeout_s=500)
    return json.loads(_succeed(folder, ["node", script], json.dumps(given), timeout_s=200))


def _succeed(folder: str, command: list[str], given: str = "", *, timeout_s: int) -> str:
    done = subprocess.run(
        command, cwd=HERE / folder, env=ENVIRONMENT, input=given, capture_output=True, text=True, timeout=timeout_s,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
