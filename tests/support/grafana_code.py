"""Grafana's own code: npm packages, run by the programs of tests/integration/observability/node."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from support.places import ROOT
from support.wire import call

FOLDER = ROOT / "tests/integration/observability/node"
# Node.js comes with the Python environment: that of Debian 12 and of Ubuntu 24.04 cannot load Grafana's packages.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run_program(script: str, given: Any) -> Any:
    """Return what a script makes of `given`, both as JSON; the packages are installed on first use."""
    if not (FOLDER / "node_modules/@grafana/data").exists():
        words = ("--ignore-scripts", "--no-audit", "--no-fund")
        call("npm", "ci", *words, cwd=FOLDER, env=ENVIRONMENT, timeout_s=500)
    return json.loads(call("node", script, input=json.dumps(given), cwd=FOLDER, env=ENVIRONMENT, timeout_s=200))
