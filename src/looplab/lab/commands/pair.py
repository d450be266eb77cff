"""./lab pair: one file with all that a Raspberry Pi needs to reach this machine's broker."""

import re
from pathlib import Path

from looplab.errors import EXIT_GOOD, UsageError
from looplab.lab.checkout import TLS_PORT, Lab
from looplab.lab.machine.network import own_address
from looplab.run.identities import write
from looplab.system.terminal import say

# A Pi takes these settings over, so that both sides run alike; an empty one must replace the Pi's own.
SHARED = (
    "FIDELITY", "TCP_NODELAY", "ROBOT_FRAMING", "PAIRING", "SERIAL_LOW_LATENCY", "QOS_LEGS", "MQTT_VERSION",
    "TOPIC_ALIAS", "RECEIVER",
)  # fmt: skip
IMAGE = ("LAB_REGISTRY", "LAB_TAG")
_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*")
MARK = "# Pairing of Looplab"
HEADER = f"""{MARK}: this file allows its reader to use the lab's broker as {{user}}. Keep it secret, mode 400.
# On the Pi: sudo rpi/install.sh --pairing FILE. BROKER_PAIRING names it to the bridge: address, port, user, password,
# and the authority that signed the broker's certificate (PEM in base64). The other lines are settings of the lab.
"""


def pair(root: Path, file: Path, *, identity: str, address: str | None) -> int:
    """Write `identity`'s pairing to `file` (mode 400), without TLS if BROKER_TLS is off; return the exit code."""
    lab = Lab(root)
    settings = lab.settings()
    address = address or own_address(settings.get("LAB_LAN_BIND", ""))
    if not _ADDRESS.fullmatch(address):
        raise UsageError(
            f"{address}: a Pi cannot reach that address.",
            "The address or name alone, without port or http://, for example --address 192.168.1.10",
        )
    if file.is_dir() or not file.parent.is_dir():
        raise UsageError(f"{file} cannot be written.", "Name a file in a folder that exists.")
    if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(MARK):
        raise UsageError(f"{file} exists and is not a pairing file.", "Choose another name.")
    lab.make_ready()
    variable, *plain = ("LAB_BROKER_PORT", "plain") if settings.get("BROKER_TLS") == "off" else (TLS_PORT,)
    port = str(lab.port(variable))
    pairing = lab.compose().once("prepare", "pairing", identity, address, port, *plain)
    lines = [f"{name}={settings[name]}" for name in SHARED if settings.get(name)]
    lines += [f"{name}={settings.get(name, '')}" for name in IMAGE]
    write(file, "\n".join([HEADER.format(user=identity) + pairing.rstrip(), *lines, ""]))
    say(f"{file} is written: {identity} reaches this broker at {address}:{port}. Keep it secret.")
    if identity == "bridge":
        say(f"Bring it to the Pi (rpi/README.md); there: sudo rpi/install.sh --pairing {file.name}")
    return EXIT_GOOD
