"""Identities on the LAN: an authority, the broker's certificate, a user and a password for each part.

All files are under secrets/lan: `ca.key`, `ca.crt`; `broker/` (what mosquitto reads); a folder with a pairing file for
each identity. `compose/listeners.yaml` mounts these folders read-only, one into each container.
"""

import base64
import hashlib
import ipaddress
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from looplab.errors import MachineError
from looplab.lab.credentials import certificates
from looplab.lab.credentials.secret_files import FOLDER, ensure_folder, write_secret
from looplab.mqtt.pairing import Pairing, read_pairing, write_pairing

LAN = FOLDER / "lan"
ACCESS_LIST = Path("compose/mosquitto/lan/acl")
SERVER_CERTIFICATE = LAN / "broker/server.crt"
PAIRING = "pairing"
# Exists while authority and passwords are made: after an interruption all are made again.
UNFINISHED = LAN / "unfinished"
# Users of the containers that read the files (images/*/Dockerfile); the controller's is LAB_UID.
BROKER_UID = 1883
READERS = {"controller": 1000, "bridge": 10002, "flood": 10005, "observer": None}
# The listener within the Docker network, for the parts on this machine.
NETWORK_HOST, NETWORK_PORT = "broker", 8883
ALWAYS_NAMED = (NETWORK_HOST, "localhost", "127.0.0.1")
RENEW_BEFORE = timedelta(days=30)
# As mosquitto_passwd does: the passwords are random, so no dictionary attack needs slowing down.
_HASH_ROUNDS = 101
_SALT_BYTES = 12
REMEDY = "Run ./lab setup."


def ensure(root: Path, names: Sequence[str], *, controller_uid: int, renew: bool = False) -> list[str]:
    """Make what is missing, or with `renew` everything, the authority, too; return in words what was made.

    The broker gets a new certificate if the old one does not hold all of `names` or ends within RENEW_BEFORE.
    """
    ensure_folder(root)
    folder = root / LAN
    folder.mkdir(mode=0o700, exist_ok=True)
    made = []
    readers = {**READERS, "controller": controller_uid}
    renew = renew or (root / UNFINISHED).exists() or _days_left(folder / "ca.crt") <= RENEW_BEFORE
    users_missing = not all((folder / who / PAIRING).exists() for who in readers)
    if renew or users_missing:
        write_secret(root / UNFINISHED, "")
    if renew:
        key, certificate = certificates.make_authority()
        write_secret(folder / "ca.key", key)
        write_secret(folder / "ca.crt", certificate)
        made.append("an authority of its own")
    if renew or not _serves(root, names):
        _make_server(root, names)
        made.append("the broker's certificate")
    if renew or users_missing:
        _make_users(root, readers)
        made.append("a user and a password for each part")
    (root / UNFINISHED).unlink(missing_ok=True)
    write_secret(folder / "broker/acl", (root / ACCESS_LIST).read_text(encoding="utf-8"), BROKER_UID)
    return made


def pairing_of(root: Path, identity: str) -> Pairing:
    """Return what `identity` needs to connect from within the Docker network; LabError if it was not made yet."""
    return read_pairing(root / LAN / identity / PAIRING)


def exist(root: Path) -> bool:
    """Return whether this machine has identities at all."""
    return (root / SERVER_CERTIFICATE).exists()


def check(root: Path) -> None:
    """Raise LabError (exit code 3) if a broker with TLS would not start, or no client would trust it."""
    if not exist(root):
        raise MachineError("The broker has no certificate for its TLS listener yet.", REMEDY)
    for what, path in (
        ("The broker's certificate", root / SERVER_CERTIFICATE),
        ("The authority", root / LAN / "ca.crt"),
    ):
        end = certificates.expiry(path)
        if end <= datetime.now(UTC):
            raise MachineError(
                f"{what} expired on {end:%Y-%m-%d}: no bridge will trust this broker.",
                "Run ./lab setup: it makes a new one. If the authority expired, pair each Pi again, too.",
            )


def ends(root: Path) -> datetime:
    """Return when the first of authority and broker's certificate ends."""
    return min(certificates.expiry(root / SERVER_CERTIFICATE), certificates.expiry(root / LAN / "ca.crt"))


def _days_left(certificate: Path) -> timedelta:
    if not certificate.exists():
        return timedelta(0)
    return certificates.expiry(certificate) - datetime.now(UTC)


def _serves(root: Path, names: Sequence[str]) -> bool:
    path = root / SERVER_CERTIFICATE
    return _days_left(path) > RENEW_BEFORE and set(_normal(names)) <= set(certificates.names_of(path))


def _normal(names: Sequence[str]) -> list[str]:
    """Return each name once, addresses in one spelling."""
    return list(dict.fromkeys(_spelled(name) for name in (*ALWAYS_NAMED, *names)))


def _spelled(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _make_server(root: Path, names: Sequence[str]) -> None:
    folder = root / LAN
    authority = ((folder / "ca.key").read_text(), (folder / "ca.crt").read_text())
    # An address that a Pi was once paired with stays valid.
    before = certificates.names_of(root / SERVER_CERTIFICATE) if exist(root) else []
    key, certificate = certificates.make_server(authority, _normal([*names, *before]))
    (folder / "broker").mkdir(mode=0o755, exist_ok=True)
    # First: a certificate must never be left beside another one's key.
    (root / SERVER_CERTIFICATE).unlink(missing_ok=True)
    write_secret(folder / "broker/server.key", key, BROKER_UID)
    write_secret(folder / "broker/server.crt", certificate, BROKER_UID)


def _make_users(root: Path, readers: Mapping[str, int | None]) -> None:
    folder = root / LAN
    authority = (folder / "ca.crt").read_text()
    lines = []
    for who, reader in readers.items():
        (folder / who).mkdir(mode=0o755, exist_ok=True)
        password = secrets.token_urlsafe(24)
        pairing = Pairing(NETWORK_HOST, NETWORK_PORT, who, password, authority)
        write_secret(folder / who / PAIRING, write_pairing(pairing), reader)
        lines.append(password_line(who, password))
    write_secret(folder / "broker/passwords", "".join(lines), BROKER_UID)


def password_line(user: str, password: str) -> str:
    """Return a line of mosquitto's password file: PBKDF2 with SHA-512, as mosquitto_passwd of 2.0 writes it."""
    salt = os.urandom(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _HASH_ROUNDS)
    encoded = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{user}:$7${_HASH_ROUNDS}${'$'.join(encoded)}\n"
