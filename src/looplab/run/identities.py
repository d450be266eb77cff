"""Who may use the broker over TLS, and what parts share: one certificate, passwords, tokens. `prepare` makes them.

The broker's certificate never changes, and clients ask for its name SERVER_NAME whatever address they dial: a lab that
moves, and a Pi without a clock, stay paired.
"""

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from looplab.mqtt.pairing import SERVER_NAME, Pairing, write_pairing
from looplab.spec.roles import Secret

USERS = ("controller", "bridge", "flood", "observer")
# Users of the containers that read the files.
BROKER_UID, BRIDGE_UID, TREATMENTS_GID = 1883, 10002, 10008
# Every run has the treatments service; other secrets are the experiments' own (looplab.spec.roles).
TREATMENTS = Secret("treatments", group=TREATMENTS_GID, each_start=True)
# The listener within the Docker network.
PORT = 8883
KEPT = "identities.json"
# As mosquitto_passwd does: the passwords are random, so no dictionary attack needs slowing down.
_HASH_ROUNDS = 101
_SALT_BYTES = 12


class Readers(NamedTuple):
    """The users that read the broker's, the controller's and the bridge's files."""

    broker: int
    controller: int
    bridge: int


def make(folder: Path, readers: Readers, own: Collection[Secret] = ()) -> None:
    """Write what each of `readers` needs, from what was made at the first start; `own` are the experiments' secrets."""
    kept = _kept(folder, {_password(one) for one in own if not one.each_start})
    pairings = pairings_of(folder)
    lines = "".join(password_line(pairing.user, pairing.password) for pairing in pairings.values())
    write(folder / "passwords", lines, readers.broker)
    write(folder / "server.pem", kept["server"], readers.broker)
    write(folder / "controller", write_pairing(pairings["controller"]), readers.controller)
    write(folder / "bridge", write_pairing(pairings["bridge"]), readers.bridge)
    for one in (TREATMENTS, *own):
        word = secrets.token_urlsafe(32) if one.each_start else kept["shared"][_password(one)]
        (folder / one.name).parent.mkdir(mode=0o755, exist_ok=True)
        write(folder / one.name, word, readers.controller if one.reader is None else one.reader, one.group)


def _password(one: Secret) -> str:
    return Path(one.name).name


def pairings_of(folder: Path) -> dict[str, Pairing]:
    """Return what each user needs to connect from within the Docker network."""
    kept = _kept(folder)
    return {who: Pairing(SERVER_NAME, PORT, who, word, kept["authority"]) for who, word in kept["passwords"].items()}


def _kept(folder: Path, passwords: Collection[str] = ()) -> dict[str, Any]:
    path = folder / KEPT
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else _made()
    # An experiment that came since has none in the volume.
    shared = {name: secrets.token_urlsafe(24) for name in passwords} | kept.get("shared", {})
    if shared != kept.get("shared"):
        kept["shared"] = shared
        write(path, json.dumps(kept), os.geteuid())
    return kept


def _made() -> dict[str, Any]:
    # Imported at the first start alone.
    import trustme

    # Its certificates are valid from 2000 to 3000; the authority's key is not kept.
    authority = trustme.CA()
    server = authority.issue_cert(SERVER_NAME, "localhost", "127.0.0.1").private_key_and_cert_chain_pem
    return {
        "authority": authority.cert_pem.bytes().decode(),
        "server": server.bytes().decode(),
        "passwords": {who: secrets.token_urlsafe(24) for who in USERS},
    }


def password_line(user: str, password: str) -> str:
    """Return a line of mosquitto's password file: PBKDF2 with SHA-512, as mosquitto_passwd of 2.0 writes it."""
    salt = os.urandom(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _HASH_ROUNDS)
    encoded = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{user}:$7${_HASH_ROUNDS}${'$'.join(encoded)}\n"


def write(path: Path, text: str, reader: int, group: int = -1) -> None:
    """Replace `path` by a rename; only `reader` may open it, and `group` if one is given."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    mode = 0o400 if group < 0 else 0o440
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
    os.chown(fresh, reader, group)
    fresh.replace(path)
