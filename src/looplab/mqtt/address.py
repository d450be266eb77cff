"""Where a part finds the broker, and how it is let in, by its environment."""

import os
from collections.abc import Mapping
from pathlib import Path

from looplab.system.env_files import read_port

# Identities without TLS, as `prepare` writes them: each can be read by its own part alone.
PLAIN = Path("/run/looplab/plain")
PLAIN_FILES = ("observer", "controller")


def read_broker(environment: Mapping[str, str]) -> tuple[str, int, Path | None]:
    """Return host, port, and the pairing file if BROKER_PAIRING names one; BROKER_HOST and BROKER_PORT override it.

    Raises LabError (exit code 2).
    """
    name = environment.get("BROKER_PAIRING", "").strip()
    pairing = Path(name) if name else None
    host, port = "broker", 1883
    if pairing is not None:
        # Imported here: TLS costs a bridge without it some memory.
        from looplab.mqtt.pairing import read_pairing

        found = read_pairing(pairing)
        host, port = found.host, found.port
    return environment.get("BROKER_HOST", "").strip() or host, read_port(environment, "BROKER_PORT", port), pairing


def plain_access(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return name and password for the listener without TLS; None where it asks for none: a robot on this machine.

    A part can read one of the files in PLAIN, if any. Raises LabError if that file is damaged.
    """
    if environment.get("ROBOT") != "remote":
        return None
    from looplab.mqtt.pairing import read_pairing

    for name in PLAIN_FILES:
        if os.access(PLAIN / name, os.R_OK):
            found = read_pairing(PLAIN / name)
            return found.user, found.password
    return None
