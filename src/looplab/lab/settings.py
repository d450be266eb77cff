"""What .env hands to the engine as it is: checked first, for the engine's own words name no variable."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from looplab.errors import EXIT_USAGE, LabError
from looplab.lab.docker.own_names import PULL, REGISTRY, TAG, release_tag
from looplab.lab.machine.limits import RT_RUNTIME_US
from looplab.treatments.loads import loads

_NUMBER = (r"[0-9]{1,9}", "a whole number")
_PRIORITY = (r"[0-9]{1,2}", "a whole number from 0 to 99")
_SWITCH = (r"on|off", "on or off")

RULES = {
    **dict.fromkeys(("LAB_UID", "LAB_GID", "ROBOT_GROUP"), _NUMBER),
    **dict.fromkeys(("LAB_RTPRIO_BROKER", "LAB_RTPRIO_CONTROLLER"), _PRIORITY),
    **dict.fromkeys(RT_RUNTIME_US, _NUMBER),
    **{name: rule for load in loads().values() for name, rule in load.settings.items()},
    "GRAFANA": _SWITCH,
    REGISTRY: (r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?/([a-z0-9][a-z0-9._-]*/)*", "e.g. registry.example.org/ with its last /"),
    PULL: (r"never|missing|always", "never, missing or always"),
    TAG: (r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "an image's tag: letters, digits, _ . and -"),
    "COMPOSE_PROJECT_NAME": (r"[a-z0-9][a-z0-9_-]*", "lower-case letters, digits, - and _"),
}
ADDRESSES = ("LAB_BIND", "LAB_LAN_BIND")


def check_settings(settings: Mapping[str, str]) -> None:
    """LabError (exit code 2) naming the first variable whose value nothing can be made of; an empty one is none."""
    for name, (pattern, expected) in RULES.items():
        text = settings.get(name, "").strip()
        if text and not re.fullmatch(pattern, text):
            raise _wrong(name, text, expected)
    for name in ADDRESSES:
        text = settings.get(name, "").strip()
        if text and not _is_address(text):
            raise _wrong(name, text, "an address of this machine, e.g. 127.0.0.1, of IPv6 in brackets")
    release_tag(settings)


def _is_address(text: str) -> bool:
    # Compose takes one of IPv6 in brackets alone.
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        version = ipaddress.ip_address(bare).version
    except ValueError:
        return False
    return (version == 6) == (bare != text)


def _wrong(name: str, text: str, expected: str) -> LabError:
    return LabError(f"{name}={text!r}: expected {expected}.", "Mend it where it is set: the shell or .env.", EXIT_USAGE)
