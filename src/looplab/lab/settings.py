"""Settings of this checkout: .env, whose values are checked before the engine sees them, and .env.machine."""

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path

from looplab.errors import LabError, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.image_names import FOLDER, PULL, REGISTRY, REPEATED, TAG, is_decided
from looplab.system.env_files import read_env
from looplab.treatments.loads import loads

PROJECT = "looplab"
MACHINE_FILE = ".env.machine"
_HEADER = "# Written by ./lab setup: what this machine allows. Delete it to have it found out again.\n"

# CPU time at real-time priority, of each second, on kernels that ration it by control group.
RT_RUNTIME_US = {
    "LAB_RT_RUNTIME_BROKER_US": 130_000,
    "LAB_RT_RUNTIME_CONTROLLER_US": 130_000,
    "LAB_RT_RUNTIME_BRIDGE_US": 130_000,
    "LAB_RT_RUNTIME_ROBOT_US": 370_000,
    # 65 us a packet: 1500 packets a second.
    "LAB_RT_RUNTIME_LINK_US": 100_000,
    # Its probes of the noise floor: 100 wake-ups a second on each processor, up to 80 us each under stress. If it were
    # used up, that would look like a stall of the machine.
    "LAB_RT_RUNTIME_TREATMENTS_US": 30_000,
}

_NUMBER = (r"[0-9]{1,9}", "a whole number")
_SWITCH = (r"on|off", "on or off")

RULES = {
    **dict.fromkeys(("LAB_UID", "LAB_GID", "ROBOT_GROUP"), _NUMBER),
    "LAB_RTPRIO": (r"[0-9]{1,2}", "a whole number from 0 to 99"),
    "LAB_PRIORITY_UID": (r"0", "0 or nothing"),
    **dict.fromkeys(RT_RUNTIME_US, _NUMBER),
    **{name: (rule.pattern, rule.expected) for load in loads().values() for name, rule in load.settings.items()},
    "GRAFANA": _SWITCH,
    **{name: _SWITCH for experiment in EXPERIMENTS.values() for name in experiment.switches},
    REGISTRY: (r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?/([a-z0-9][a-z0-9._-]*/)*", "e.g. registry.example.org/ with its last /"),
    PULL: (r"never|missing|always", "never, missing or always"),
    TAG: (r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "an image's tag: letters, digits, _ . and -"),
    REPEATED: (r"(?!(.*/)?looplab/).*", "an image of mqtt-stresser; empty for the lab's own program"),
    "COMPOSE_PROJECT_NAME": (r"[a-z0-9][a-z0-9_-]*", "lower-case letters, digits, - and _"),
}
ADDRESSES = ("LAB_BIND", "LAB_LAN_BIND")
# Values of the variables that choose a Compose file for which there is none, because nothing changes.
NO_FILE = {"LINK": "none", "GRAFANA": "on", "TWIN_LINK": "off"}


def file_choices(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what compose.yaml needs to choose its files, where `settings` have another value or none.

    Compose cannot compare: FIDELITY=printed alone chooses no file, and a value in NO_FILE would name one.
    """
    printed = {"CLIENTS": "printed", "BROKER_PATH": "port"} if settings.get("FIDELITY") == "printed" else {}
    unset = {name: value for name, value in printed.items() if not settings.get(name)}
    return unset | {name: "" for name, value in NO_FILE.items() if settings.get(name) == value}


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise LabError (exit code 2) with the first variable whose value is invalid; an empty one counts as unset."""
    for name, (pattern, expected) in RULES.items():
        text = settings.get(name, "").strip()
        if text and not re.fullmatch(pattern, text):
            raise _wrong(name, text, expected)
    for name in ADDRESSES:
        text = settings.get(name, "").strip()
        if text and not _is_address(text):
            raise _wrong(name, text, "an address of this machine, e.g. 127.0.0.1, of IPv6 in brackets")


def _is_address(text: str) -> bool:
    # Compose accepts an IPv6 address only in brackets.
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        version = ipaddress.ip_address(bare).version
    except ValueError:
        return False
    return (version == 6) == (bare != text)


def _wrong(name: str, text: str, expected: str) -> LabError:
    return UsageError(f"{name}={text!r}: expected {expected}.", "Correct it in the shell or in .env.")


def project_name(root: Path) -> str:
    """Return the name Compose gives this lab's containers: the shell's, else .env's, else the one in compose.yaml."""
    name = "COMPOSE_PROJECT_NAME"
    if os.environ.get(name):
        return os.environ[name]
    try:
        return read_env(root / ".env").get(name) or PROJECT
    except OSError:
        return PROJECT


def write_machine_file(root: Path, variables: Mapping[str, str]) -> None:
    """Replace `.env.machine` by a rename: a run may be reading it."""
    half = root / f"{MACHINE_FILE}.{os.getpid()}"
    half.write_text(_HEADER + "".join(f"{name}={value}\n" for name, value in variables.items()))
    half.replace(root / MACHINE_FILE)


def read_machine_file(root: Path) -> dict[str, str]:
    """Return what the last set-up found, {} before the first one.

    Stand-ins were once called looplab/…, which a registry can answer for: such a decision counts as none.
    """
    try:
        known = read_env(root / MACHINE_FILE)
    except FileNotFoundError:
        return {}
    return {name: value for name, value in known.items() if not (is_decided(name) and value.startswith(f"{FOLDER}/"))}
