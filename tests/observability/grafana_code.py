"""Grafana's own code: npm packages, run by the programs of node/."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

NODE = Path(__file__).parent / "node"


def run_program(program: str, given: Any) -> Any:
    """What a program of node/ makes of `given`, both as JSON; the packages of package-lock.json are installed first."""
    if not (NODE / "node_modules" / "@grafana" / "data").exists():
        _succeed(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], timeout_s=500)
    return json.loads(_succeed(["node", program], json.dumps(given), timeout_s=120))


def _succeed(command: list[str], given: str = "", *, timeout_s: int) -> str:
    done = subprocess.run(
        command, cwd=NODE, input=given, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
