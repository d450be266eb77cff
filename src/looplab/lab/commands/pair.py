"""./lab pair: one file with all that a Raspberry Pi needs to reach this machine's broker."""

import ipaddress
import json
import os
import re
import socket
from dataclasses import replace
from pathlib import Path

from looplab.errors import EXIT_GOOD, UsageError
from looplab.lab.checkout import TLS_PORT, Lab
from looplab.lab.credentials import identities
from looplab.lab.credentials.secret_files import write_secret
from looplab.lab.programs import call
from looplab.mqtt.pairing import write_pairing
from looplab.system.terminal import say

# What a Pi takes over, so that both sides run alike.
SHARED = ("FIDELITY", "TCP_NODELAY", "ROBOT_FRAMING")
# Which image; an empty one must replace the Pi's, for LAB_TAG overrides a pinned one.
IMAGE = ("LAB_REGISTRY", "LAB_TAG", "BRIDGE_RELEASE")
OF_DOCKER = ("docker", "br-", "veth")
ANYWHERE = ("", "0.0.0.0", "[::]")
# An address for documents (RFC 5737): nothing is sent there; the system only shows which address it would send from.
ELSEWHERE = ("192.0.2.1", 9)
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_-]{1,63})*\Z")
MARK = "# Pairing of Looplab"
HEADER = f"""{MARK}: this file allows its reader to use the lab's broker as {{user}}. Keep it secret, mode 600.
# On the Pi: sudo rpi/install.sh --pairing FILE. BROKER_PAIRING names it to the bridge: address, port, user, password,
# and the authority that signed the broker's certificate (PEM in base64). The other lines are settings of the lab.
"""


def pair(root: Path, file: Path | None, *, identity: str, address: str | None, renew: bool) -> int:
    """Write `identity`'s pairing to `file` (mode 600), after making what is missing; return the exit code."""
    if file is None and not renew:
        raise UsageError("./lab pair needs a file to write.", "For example ./lab pair pi.env")
    if file is not None:
        _refuse_other(file)
    lab = Lab(root)
    address = read_address(address) if address else own_address(lab.settings().get("LAB_LAN_BIND", ""))
    prepare(lab, address, renew=renew)
    if file is not None:
        _write(lab, file, identity, address)
        say(f"{file} is written: {identity} reaches this broker at {address}:{lab.port(TLS_PORT)}. Keep it secret.")
        if identity == "bridge":
            say(f"Bring it to the Pi (rpi/README.md); there: sudo rpi/install.sh --pairing {file.name}")
        _doubt(address)
    return EXIT_GOOD


def read_address(text: str) -> str:
    """Return an address or host name in one spelling; LabError (exit code 2) if a Pi cannot reach it."""
    plain = text.strip().removeprefix("[").removesuffix("]")
    try:
        found = ipaddress.ip_address(plain)
    except ValueError:
        # Digits and dots alone are a wrong address, never a name.
        if _HOST_NAME.match(plain) and not re.fullmatch(r"[0-9.]+", plain):
            return plain
    else:
        if not (found.is_unspecified or found.is_multicast or getattr(found, "scope_id", None)):
            return str(found)
    raise UsageError(
        f"{text}: a Pi cannot reach that address.",
        "The address or name alone, without port or http://, for example --address 192.168.1.10",
    )


def _doubt(address: str) -> None:
    """Print a hint if an address is valid but may not be enough."""
    if address.endswith(".local"):
        say("Containers cannot look up names that end in .local: if the Pi does not find it, give the address.")
    if ":" in address:
        say("Docker's networks usually are IPv4, on the Pi as well as here (LAB_LAN_BIND): an IPv4 address is safer.")


def prepare(lab: Lab, *addresses: str, renew: bool = False) -> None:
    """Make authority, certificate and passwords for this machine as it is now; a running broker reloads them."""
    names = [*own_names(), *own_addresses(), *addresses]
    made = identities.ensure(lab.root, names, controller_uid=lab.user_id(), renew=renew)
    if made:
        say(f"Made {', '.join(made)} (secrets/lan).")
        _reload(lab)
    if renew:
        say("Earlier pairings no longer work: ./lab pair FILE for each Pi.")


def make_sure(lab: Lab) -> None:
    """Make identities if there are none yet; LabError (exit code 3) if they expired."""
    if not identities.exist(lab.root):
        prepare(lab)
    identities.check(lab.root)


def own_address(bound_to: str) -> str:
    """Return the address by which others find this machine: the chosen one, else the one it would send from."""
    if bound_to not in ANYWHERE:
        return read_address(bound_to)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)
        except OSError:
            raise UsageError(
                "This machine has no address on a network.", "Connect it, or name one: --address ADDRESS"
            ) from None
        return str(probe.getsockname()[0])


def own_names() -> list[str]:
    """Return this machine's name, also as multicast DNS has it."""
    name = socket.gethostname().partition(".")[0]
    return [name, f"{name}.local"] if name and name != "localhost" else []


def own_addresses() -> list[str]:
    """Return the addresses of this machine's networks without Docker's own; [] if `ip` fails."""
    said = call(["ip", "-json", "address", "show", "scope", "global", "up"])
    if not said.good:
        return []
    found = json.loads(said.stdout or "[]")
    interfaces = [entry for entry in found if not entry.get("ifname", "").startswith(OF_DOCKER)]
    return [info["local"] for entry in interfaces for info in entry.get("addr_info", []) if "local" in info]


def _refuse_other(file: Path) -> None:
    """Raise LabError (exit code 2) if a file that is not a pairing would be overwritten, or none can be written."""
    try:
        other = file.exists() and not file.read_text(encoding="utf-8-sig", errors="replace").startswith(MARK)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.", "Choose another place.") from error
    if other:
        raise UsageError(f"{file} exists and is not a pairing file.", "Choose another name.")
    if not file.parent.is_dir():
        raise UsageError(f"{file} cannot be written: there is no folder {file.parent}.", "Make it first.")


def _write(lab: Lab, file: Path, identity: str, address: str) -> None:
    settings = lab.settings()
    pairing = replace(identities.pairing_of(lab.root, identity), host=address, port=lab.port(TLS_PORT))
    shared = {name: settings[name] for name in SHARED if settings.get(name)}
    shared |= {name: settings.get(name, "") for name in IMAGE}
    lines = "".join(f"{name}={value}\n" for name, value in shared.items())
    try:
        write_secret(file, HEADER.format(user=pairing.user) + write_pairing(pairing) + lines)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.", "Choose another place.") from error


def _reload(lab: Lab) -> None:
    """Have running brokers reload certificate, passwords and access list; they disconnect users who are gone."""
    for service, container in lab.compose().listed().items():
        if service.endswith("-broker"):
            call(["docker", "kill", "--signal", "HUP", container], environment=dict(os.environ))
