"""The studies of the loop: interleaved runs of the scenarios that a claim compares, each arm with its own settings.

`./lab study NAME` runs them, and the report judges a claim by the runs of its study. `VARIANTS` holds the settings of
each arm, by study and name; a study without any compares scenarios as they are.
"""

from looplab.spec import brokers

# Each claim of the thesis compares these scenarios: `./lab study NAME` runs them.
STUDIES = {
    "no-arduino-slower": ("scenario1", "scenario0"),
    "no-arduino-slower-stress": ("scenario2", "scenario3"),
    "stress": ("scenario1", "scenario2"),
    "stress-no-arduino": ("scenario0", "scenario3"),
    "broker-priority": ("scenario2", "scenario4"),
    "broker-priority-no-arduino": ("scenario3", "scenario6"),
    "client-priority": ("scenario4", "scenario5"),
    "stress-spares-robot": ("scenario1", "scenario2"),
    "maxima-stay": ("scenario1", "scenario4"),
    brokers.STUDY: ("scenario1", "scenario2", "scenario5", "scenario8"),
    "clients": ("scenario1", "scenario2", "scenario7"),
    "loss-10-ms": ("scenario1", "scenario2", "scenario4", "scenario5"),
    "flood-qos-0": ("scenario7", "scenario8"),
    "flood-qos-1-2": ("scenario8",),
    "qos-2": ("scenario8",),
    "shorter-interval": ("scenario0",),
    "robot-third": ("scenario1",),
    "priority-alike": ("scenario4",),
    "qos-priority": ("scenario8",),
    "client-waits": ("scenario8",),
    "stress-median": ("scenario1", "scenario2"),
    "stress-varies": ("scenario1", "scenario2"),
    "priority-steadier": ("scenario2", "scenario4"),
    "priority-steadier-client": ("scenario2", "scenario5"),
    "maxima-stay-client": ("scenario1", "scenario5"),
    "priority-alike-client": ("scenario5",),
    "priority-alike-no-arduino": ("scenario6",),
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
