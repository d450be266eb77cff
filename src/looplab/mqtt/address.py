"""Where a bridge finds the broker, by its environment."""

from collections.abc import Mapping
from pathlib import Path

from looplab.system.env_files import read_port


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

        known = read_pairing(pairing)
        host, port = known.host, known.port
    return environment.get("BROKER_HOST", "").strip() or host, read_port(environment, "BROKER_PORT", port), pairing
