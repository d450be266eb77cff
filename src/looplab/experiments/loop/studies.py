"""The studies of the loop: interleaved runs of the scenarios that a claim compares, each arm with its own settings.

`./lab study NAME` runs them, and the report judges a claim by the runs of its study. `VARIANTS` holds the settings of
each arm, by study and name; a study without any compares scenarios as they are.
"""

import csv
from pathlib import Path

from looplab.spec import brokers

CLAIMS = Path(__file__).with_name("report") / "claims.csv"


def _scenarios() -> dict[str, tuple[str, ...]]:
    """Return the scenarios that each claim of the thesis compares; {} in the parts' images, which plan no study."""
    if not CLAIMS.exists():
        return {}
    with CLAIMS.open(newline="", encoding="utf-8") as file:
        return {line["name"]: tuple(line["scenarios"].split("; ")) for line in csv.DictReader(file)}


STUDIES = {
    **_scenarios(),
    brokers.STUDY: ("scenario1", "scenario2", "scenario5", "scenario8"),
    "clients": ("scenario1", "scenario2", "scenario7"),
}
# The way from the printed set-up to the corrected one, a property at a time: each step adds its settings to those of
# the steps before.
STEPS = {
    "printed": {"FIDELITY": "printed"},
    "whole lines": {"ROBOT_FRAMING": "burst"},
    "paired by request": {"PAIRING": "request"},
    "receiver sleeps": {"RECEIVER": "select"},
    "Python 3": {"PYTHON": "3"},
    "one process a run": {"LIFE": "run"},
    "direct path": {"BROKER_PATH": "direct"},
    "the lab's client: thesis": {"FIDELITY": "thesis"},
    "QoS on all legs": {"QOS_LEGS": "all"},
    "one connection": {"CONNECTIONS": "one"},
    "TCP_NODELAY": {"TCP_NODELAY": "on"},
    "the rest: corrected": {"FIDELITY": "corrected"},
}


def _variants() -> dict[str, dict[str, str]]:
    """Return all settings of each step; a step that sets the fidelity keeps nothing of the steps before."""
    by_name: dict[str, dict[str, str]] = {}
    settings: dict[str, str] = {}
    for name, own in STEPS.items():
        settings = own if "FIDELITY" in own else {**settings, **own}
        by_name[name] = settings
    return by_name


VARIANTS = {brokers.STUDY: {name: {"BROKER": name} for name in brokers.BROKERS}, "clients": _variants()}
