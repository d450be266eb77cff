"""A pairing file: what one identity needs to reach the broker, with TLS or without. `./lab pair` writes it for the Pi.

Lines `NAME=value` as in an env file: BROKER_HOST, BROKER_PORT, BROKER_USER, BROKER_PASSWORD, and BROKER_CA_BASE64,
the certificate (PEM, in base64) of the authority that signed the broker's, or NO_TLS. A file that ends too early is no
file without TLS: a password is never sent in the clear by mistake.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from looplab.errors import LabError, UsageError
from looplab.system.env_files import read_env, read_port

if TYPE_CHECKING:
    import ssl

PAIR_AGAIN = "On the machine that runs the lab: ./lab pair FILE; then rpi/install.sh --pairing FILE on the Pi."
# The name in the broker's certificate, whatever its address.
SERVER_NAME = "broker"
# In the place of the authority: a name and a password, in the clear.
NO_TLS = "none"
NAMES = ("BROKER_HOST", "BROKER_PORT", "BROKER_USER", "BROKER_PASSWORD", "BROKER_CA_BASE64")


@dataclass(frozen=True)
class Pairing:
    """Address of the broker, this client's identity, and the authority (PEM) of its certificate; "": no TLS."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    ca_pem: str = field(repr=False)

    def context(self) -> "ssl.SSLContext":
        """TLS 1.2 or later, this authority alone, SERVER_NAME checked. Raises ssl.SSLError for a broken certificate."""
        # Loading it takes a slow machine a second, in which the robot's boot loader can be done.
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=self.ca_pem)
        return context


def read_pairing(path: Path) -> Pairing:
    """Return the pairing in `path`; raises UsageError that names what is wrong with it."""
    try:
        settings = read_env(path)
    except OSError as error:
        raise UsageError(f"The pairing file {path} cannot be read: {error.strerror}.", PAIR_AGAIN) from error
    except LabError as error:
        raise UsageError(f"The pairing file is damaged: {error.message}", PAIR_AGAIN) from error
    missing = [name for name in NAMES if not settings.get(name)]
    if missing:
        raise UsageError(f"The pairing file {path} has no {', '.join(missing)}.", PAIR_AGAIN)
    try:
        given = settings["BROKER_CA_BASE64"]
        ca_pem = "" if given == NO_TLS else base64.b64decode(given, validate=True).decode("ascii")
        port = read_port(settings, "BROKER_PORT")
        pairing = Pairing(settings["BROKER_HOST"], port, settings["BROKER_USER"], settings["BROKER_PASSWORD"], ca_pem)
        if pairing.ca_pem:
            pairing.context()
    # ssl.SSLError is an OSError.
    except (LabError, ValueError, OSError) as error:
        why = error.message if isinstance(error, LabError) else error
        raise UsageError(f"The pairing file {path} is damaged ({why}).", PAIR_AGAIN) from error
    return pairing


def read_broker(environment: Mapping[str, str]) -> tuple[str, int, Path | None]:
    """Return where a bridge finds the broker: host, port, and the pairing file if BROKER_PAIRING names one.

    BROKER_HOST and BROKER_PORT override the file. Raises LabError (exit code 2).
    """
    name = environment.get("BROKER_PAIRING", "").strip()
    pairing = Path(name) if name else None
    known = read_pairing(pairing) if pairing else None
    host = environment.get("BROKER_HOST", "").strip() or (known.host if known else "broker")
    return host, read_port(environment, "BROKER_PORT", known.port if known else 1883), pairing


def write_pairing(pairing: Pairing) -> str:
    """Return the lines that `read_pairing` reads."""
    ca_base64 = base64.b64encode(pairing.ca_pem.encode()).decode() or NO_TLS
    values = (pairing.host, str(pairing.port), pairing.user, pairing.password, ca_base64)
    return "".join(f"{name}={value}\n" for name, value in zip(NAMES, values, strict=True))
