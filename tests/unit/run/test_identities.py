"""Identities: made once and kept, each file for one reader."""

import hashlib
import os
import ssl
import stat
from base64 import b64decode
from pathlib import Path

import pytest

from looplab.mqtt.pairing import SERVER_NAME, read_pairing
from looplab.run import identities, prepare

ME = identities.Readers(os.geteuid(), os.geteuid(), os.geteuid())
FILES = ("bridge", "controller", "identities.json", "passwords", "server.pem")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "passwords"}


def test_all_is_made_once_and_kept(tmp_path: Path) -> None:
    identities.make(tmp_path, ME)
    before = contents(tmp_path)
    identities.make(tmp_path, ME)
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == list(FILES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_only_who_reads_a_file_may_open_it(tmp_path: Path) -> None:
    # The second start is for another LAB_UID.
    for controller in (1000, 1001):
        identities.make(tmp_path, identities.Readers(1883, controller, 10002))
        found = {path.name: (stat.S_IMODE(path.stat().st_mode), path.stat().st_uid) for path in tmp_path.iterdir()}
        owners = dict(zip(FILES, (10002, controller, 0, 1883, 1883), strict=True))
        assert found == {name: (0o400, owner) for name, owner in owners.items()}


def test_the_broker_knows_each_password_by_its_hash(tmp_path: Path) -> None:
    identities.make(tmp_path, ME)
    text = (tmp_path / "passwords").read_text()
    stored = dict(line.split(":", 1) for line in text.splitlines())
    pairings = identities.pairings_of(tmp_path)
    assert set(pairings) == set(stored) == set(identities.USERS)
    assert len({pairing.password for pairing in pairings.values()}) == len(stored)
    for user, pairing in pairings.items():
        _, kind, rounds, salt, digest = stored[user].split("$")
        wanted = hashlib.pbkdf2_hmac("sha512", pairing.password.encode(), b64decode(salt), int(rounds))
        assert (kind, b64decode(digest)) == ("7", wanted)
        assert pairing.password not in text + repr(pairing)


def test_who_is_paired_trusts_the_certificate(tmp_path: Path) -> None:
    identities.make(tmp_path, ME)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.pem")
    theirs, ours = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = read_pairing(tmp_path / "bridge").context().wrap_bio(theirs, ours, server_hostname=SERVER_NAME)
    other = server.wrap_bio(ours, theirs, server_side=True)
    for end in (one, other, one):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    # No year that a Pi without a clock may believe in is outside.
    found = one.getpeercert()
    assert found is not None
    assert "2000" in str(found["notBefore"])
    assert int(str(found["notAfter"]).split()[-2]) > 2900


def test_prepare_prints_what_a_pi_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "IDENTITIES", tmp_path)
    assert prepare.main(["pairing", "bridge", "192.0.2.5", "8884"]) == 0
    file = tmp_path / "pi.env"
    file.write_text(capsys.readouterr().out)
    found, kept = read_pairing(file), identities.pairings_of(tmp_path)["bridge"]
    assert (found.host, found.port, found.user, found.password) == ("192.0.2.5", 8884, "bridge", kept.password)
