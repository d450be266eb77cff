"""Settings of this checkout: .env, whose values are checked before the engine sees them, and .env.machine."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from looplab.errors import LabError, UsageError
from looplab.lab.image_names import REGISTRY, REPEATED, is_on_docker_hub
from looplab.spec.brokers import DEFAULT
from looplab.system.env_files import read_env, read_port
from looplab.treatments.link import NO_LINK

PROJECT = "looplab"
# As the Compose files have them.
DEFAULT_PORTS = {"GRAFANA": 3000, "PAGES": 8080, "PROMETHEUS": 9090, "EXPORTER": 9101}
MACHINE_FILE = ".env.machine"
_HEADER = "# Written by ./lab setup: what this machine allows. Delete it to have it found out again.\n"

# What neither Compose nor the engine refuses with the variable's name.
RULES = {
    "LAB_PRIORITY_UID": (r"0", "0 or nothing"),
    REGISTRY: (r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?/([a-z0-9][a-z0-9._-]*/)*", "e.g. registry.example.org/ with its last /"),
    REPEATED: (r"(?!(.*/)?looplab/).*", "an image of mqtt-stresser; empty for the lab's own program"),
}
# The variables by which compose.yaml chooses a file, compose/<kind>.<value>.yaml.
OVERLAYS = {"BROKER": "broker", "ROBOT": "robot", "LINK": "link", "BROKER_TLS": "tls", "GRAFANA": "grafana"}
# A user's own program in a part's place: a file, or a command in the image that OWN_IMAGE names.
OWN_PROGRAMS = ("OWN_CLIENT", "OWN_BRIDGE")
# These values change nothing: Compose gets an empty variable and reads no file.
NO_FILE = {"LINK": NO_LINK, "OWN_LINK": NO_LINK, "GRAFANA": "on"}


def file_choices(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what compose.yaml needs to choose its files, where `settings` have a word for nothing."""
    return {name: "" for name, value in NO_FILE.items() if settings.get(name) == value}


def chosen_by_fidelity(root: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that compose.yaml takes from compose/fidelity, where `settings` have none."""
    path = root / "compose/fidelity" / f"{settings.get('FIDELITY') or 'thesis'}.env"
    return read_env(path) if path.is_file() else {}


def check_parts(root: Path, settings: Mapping[str, str]) -> None:
    """Raise LabError (exit code 2) for a part that no Compose file describes, or parts that exclude each other."""
    for variable, kind in OVERLAYS.items():
        files = {path.name.split(".")[1] for path in (root / "compose").glob(f"{kind}.*.yaml")}
        known = sorted(files | {NO_FILE.get(variable, "")} - {""})
        if (name := settings.get(variable)) and name not in known:
            raise UsageError(
                f"{variable}={name}: there is no compose/{kind}.{name}.yaml.", f"Known: {', '.join(known)}."
            )
    for variable in OWN_PROGRAMS:
        name = "" if settings.get("OWN_IMAGE") else settings.get(variable, "")
        if name and not (root / name).is_file():
            remedy = f"Copy your program there, or set OWN_IMAGE to your image and {variable} to a command in it."
            raise UsageError(f"{variable}={name}: there is no such file below {root}.", remedy)
    broker = settings.get("BROKER") or DEFAULT
    if broker != DEFAULT and "on" in (settings.get("BROKER_TLS"), "on" if settings.get("ROBOT") == "remote" else ""):
        raise UsageError(
            f"BROKER={broker} has no listener with TLS, which a robot on a Pi and BROKER_TLS=on need.",
            f"Take --broker {DEFAULT}, or --robot virtual with BROKER_TLS=off.",
        )
    link = settings.get("LINK") or NO_LINK
    if link != NO_LINK and settings.get("ROBOT") == "remote":
        raise UsageError(
            f"LINK={link} with ROBOT=remote: the Pi's link is real, and none is emulated on it.",
            "Leave LINK empty, or take --robot virtual.",
        )


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise LabError (exit code 2) with the first variable whose value is invalid; an empty one counts as unset."""
    for name, (pattern, expected) in RULES.items():
        text = settings.get(name, "").strip()
        if text and not re.fullmatch(pattern, text):
            raise _wrong(name, text, expected)
    for name, text in settings.items():
        if name.endswith("_IMAGE") and is_on_docker_hub(text):
            raise _wrong(name, text, f"localhost/{text}, which ./lab setup builds: anybody may publish {text}")


def _wrong(name: str, text: str, expected: str) -> LabError:
    return UsageError(f"{name}={text!r}: expected {expected}.", "Correct it in the shell or in .env.")


def address_of(settings: Mapping[str, str], service: str) -> str:
    """Return where a person on this machine finds a service. Raises LabError."""
    host = settings.get("LAB_BIND", "").strip() or "127.0.0.1"
    port = read_port(settings, f"LAB_{service}_PORT", DEFAULT_PORTS[service])
    return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"


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
    """Return what the last set-up found, {} before the first one."""
    try:
        return read_env(root / MACHINE_FILE)
    except FileNotFoundError:
        return {}
