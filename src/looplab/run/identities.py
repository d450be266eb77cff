"""Who may use the broker, and what parts share: one certificate, passwords, tokens. `prepare` makes them.

The broker's certificate never changes, and clients ask for its name SERVER_NAME whatever address they dial. So a lab
that moves stays paired, and a Pi without a clock, too. With a robot elsewhere the listener without TLS asks for a
password, too: another one, as it passes in the clear.
"""

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
from looplab.mqtt.pairing import SERVER_NAME, Pairing, write_pairing
from looplab.run.folder import sync_folder
from looplab.spec.roles import Secret

USERS = ("controller", "bridge", "flood", "observer")
# Users of the containers that read the files.
BROKER_UID, BRIDGE_UID, TREATMENTS_GID = 1883, 10002, 10008
EXPORTER_UID, ASIP_CLIENTS_GID = 10006, 10023
# Every run has the treatments service; other secrets are the experiments' own (looplab.spec.roles).
TREATMENTS = Secret("treatments", group=TREATMENTS_GID, each_start=True)
# The listeners within the Docker network, with TLS and without.
PORT, PLAIN_PORT = 8883, 1883
# mqtt-stresser reads no file, so that its password stands in a Compose file; the access list gives it little.
NO_SECRET = "flood"
KEPT = "identities.json"
# Without ./lab, no container sees the id of its machine: the volume has one.
MACHINE = "machine"
# As mosquitto_passwd does: the passwords are random, so no dictionary attack needs slowing down.
_HASH_ROUNDS = 101
_SALT_BYTES = 12


def make(folder: Path, controller: int, own: Collection[Secret] = (), addresses: Collection[str] = ()) -> None:
    """Write what each user needs, from what was made at the first start.

    `controller` is its user, `own` are the experiments' secrets. The treatments service of each host at one of
    `addresses` gets a certificate for it.
    """
    kept = _kept(folder, {_password(one) for one in own if not one.each_start}, addresses)
    tls, plain = pairings_of(folder), pairings_of(folder, tls=False)
    # Options of mosquitto_sub, for the broker's health check.
    observer = f"-u observer\n-P {plain['observer'].password}\n"
    # A broker with SYS_NICE is root without root's rights: it reads its files by its group.
    files = [
        ("passwords", _password_file(tls), BROKER_UID, BROKER_UID),
        ("server.pem", kept["server"], BROKER_UID, BROKER_UID),
        ("controller", write_pairing(tls["controller"]), controller, -1),
        ("bridge", write_pairing(tls["bridge"]), BRIDGE_UID, -1),
        ("plain/passwords", _password_file(plain), BROKER_UID, BROKER_UID),
        ("plain/mosquitto_sub", observer, BROKER_UID, BROKER_UID),
        ("plain/controller", write_pairing(plain["controller"]), controller, ASIP_CLIENTS_GID),
        ("plain/bridge", write_pairing(plain["bridge"]), BRIDGE_UID, -1),
        ("plain/observer", write_pairing(plain["observer"]), EXPORTER_UID, TREATMENTS_GID),
    ]
    files.append((MACHINE, kept["machine"], controller, -1))
    for one in (TREATMENTS, *own):
        word = secrets.token_urlsafe(32) if one.each_start else kept["shared"][_password(one)]
        files.append((one.name, word, controller if one.reader is None else one.reader, one.group))
    files += [(certificate_of(one), kept["hosts"][one], TREATMENTS_GID, -1) for one in addresses]
    for name, text, reader, group in files:
        (folder / name).parent.mkdir(mode=0o755, exist_ok=True)
        write(folder / name, text, reader, group)


def certificate_of(address: str) -> str:
    """Return the name of the file with certificate and key of the treatments service at `address`."""
    return f"{address}.pem"


def _password(one: Secret) -> str:
    return Path(one.name).name


def _password_file(pairings: Mapping[str, Pairing]) -> str:
    return "".join(password_line(pairing.user, pairing.password) for pairing in pairings.values())


def pairings_of(folder: Path, *, tls: bool = True) -> dict[str, Pairing]:
    """Return what each user needs to connect from within the Docker network."""
    kept = _kept(folder)
    port, authority = (PORT, kept["authority"]) if tls else (PLAIN_PORT, "")
    words = kept["passwords"] if tls else {**kept["plain"], "flood": NO_SECRET}
    return {who: Pairing(SERVER_NAME, port, who, word, authority) for who, word in words.items()}


def _kept(folder: Path, passwords: Collection[str] = (), addresses: Collection[str] = ()) -> dict[str, Any]:
    kept = _read(folder / KEPT)
    # A host that comes later needs a new authority: its key is not kept.
    if not kept or not {*addresses} <= kept.get("hosts", {}).keys():
        kept = _made(addresses)
    # The volume may be older than an experiment, and older labs had no password without TLS.
    shared = {name: secrets.token_urlsafe(24) for name in passwords} | kept.get("shared", {})
    plain = {who: secrets.token_urlsafe(24) for who in USERS} | kept.get("plain", {})
    added = {"shared": shared, "plain": plain, "machine": kept.get("machine") or secrets.token_hex(16)}
    if not added.items() <= kept.items():
        kept |= added
        write(folder / KEPT, json.dumps(kept), os.geteuid())
    return kept


def _read(path: Path) -> dict[str, Any]:
    """Return what was made at the first start, {} before it. Raises MachineError if the file is damaged."""
    if not path.exists():
        return {}
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not kept.keys() >= {"authority", "server", "passwords"}:
        raise MachineError(
            f"The lab's passwords cannot be read: {path.name} in the volume `identities` is damaged.",
            "Make new ones: `docker compose --profile '*' down`, `docker volume rm looplab_identities`, start again. "
            "Then pair a robot elsewhere again (`./lab pair`).",
        )
    return kept


def _made(addresses: Collection[str]) -> dict[str, Any]:
    # Imported at the first start alone.
    import trustme

    # Its certificates are valid from 2000 to 3000; the authority's key is not kept.
    authority = trustme.CA()
    server = authority.issue_cert(SERVER_NAME, "localhost", "127.0.0.1").private_key_and_cert_chain_pem
    return {
        "authority": authority.cert_pem.bytes().decode(),
        "server": server.bytes().decode(),
        "passwords": {who: secrets.token_urlsafe(24) for who in USERS},
        "hosts": {one: authority.issue_cert(one).private_key_and_cert_chain_pem.bytes().decode() for one in addresses},
    }


def password_line(user: str, password: str) -> str:
    """Return a line of mosquitto's password file: PBKDF2 with SHA-512, as mosquitto_passwd of 2.0 writes it."""
    salt = os.urandom(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _HASH_ROUNDS)
    encoded = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{user}:$7${_HASH_ROUNDS}${'$'.join(encoded)}\n"


def write(path: Path, text: str, reader: int = -1, group: int = -1) -> None:
    """Replace `path` by a rename; only `reader` (-1: this user) may open it, and `group` if one is given."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    mode = 0o400 if group < 0 else 0o440
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chown(fresh, reader, group)
    fresh.replace(path)
    sync_folder(path.parent)
