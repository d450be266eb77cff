"""Identities and pairing files: made once, kept, renewed whole; readable by one reader; no word of them elsewhere."""

import hashlib
import os
import shutil
import stat
import subprocess
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.errors import MachineError, UsageError
from looplab.lab.commands import pair
from looplab.lab.credentials import certificates, identities
from looplab.lab.credentials.secret_files import write_secret
from looplab.lab.machine import checks
from looplab.mqtt.pairing import read_pairing

WHO = ("controller", "bridge", "flood", "observer")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lab's folder, with what identities and settings need of it."""
    (tmp_path / identities.ACCESS_LIST).parent.mkdir(parents=True)
    shutil.copy(ROOT / identities.ACCESS_LIST, tmp_path / identities.ACCESS_LIST)
    shutil.copy(ROOT / ".env", tmp_path / ".env")
    (tmp_path / "results").mkdir()
    return tmp_path


def ensure(root: Path, *names: str, renew: bool = False) -> list[str]:
    return identities.ensure(root, names, controller_uid=os.geteuid(), renew=renew)


def contents(root: Path) -> dict[str, bytes]:
    files = (root / identities.LAN).rglob("*")
    return {str(path.relative_to(root)): path.read_bytes() for path in files if path.is_file()}


def test_all_is_made_once_kept_and_renewed_whole(root: Path) -> None:
    # Before that a run with TLS fails, and there is nothing to check.
    assert checks.check_certificate(root) == []
    with pytest.raises(MachineError, match="no certificate"):
        identities.check(root)
    assert len(ensure(root, "192.0.2.5")) == 3
    before = contents(root)
    assert ensure(root, "192.0.2.5") == []
    assert contents(root) == before
    # A renewal leaves nothing as it was.
    ensure(root, renew=True)
    after = contents(root)
    assert {name for name in before if before[name] == after[name]} == {"secrets/lan/broker/acl"}


def test_only_who_reads_a_file_may_open_it(root: Path) -> None:
    ensure(root)
    assert stat.S_IMODE((root / "secrets").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / identities.LAN).stat().st_mode) == 0o700
    lan = root / identities.LAN
    for name in ("ca.key", "ca.crt", "observer/pairing"):
        assert stat.S_IMODE((lan / name).stat().st_mode) == 0o600, name
    readers = {f"{who}/pairing": uid for who, uid in identities.READERS.items() if who in ("bridge", "flood")}
    readers |= {f"broker/{name}": identities.BROKER_UID for name in ("server.key", "server.crt", "passwords", "acl")}
    for name, uid in readers.items():
        found = (lan / name).stat()
        mode = stat.S_IMODE(found.st_mode)
        # Who is not root cannot give a file away: the folder above guards it then.
        assert (mode, found.st_uid) == ((0o400, uid) if os.geteuid() == 0 else (0o444, os.geteuid())), name


def test_a_new_address_needs_a_new_certificate_and_no_new_pairing(root: Path) -> None:
    ensure(root, "192.0.2.5")
    before = contents(root)
    assert ensure(root, "192.0.2.6") == ["the broker's certificate"]
    after = contents(root)
    changed = {name.rpartition("/")[2] for name in before if before[name] != after[name]}
    assert changed == {"server.key", "server.crt"}
    # Who was paired with the former address still finds it in the certificate.
    named = certificates.names_of(root / identities.SERVER_CERTIFICATE)
    assert {"broker", "localhost", "127.0.0.1", "192.0.2.5", "192.0.2.6"} <= set(named)


def test_a_certificate_near_its_end_is_made_anew_and_an_ended_one_stops_a_run(root: Path) -> None:
    ensure(root)
    lan = root / identities.LAN
    authority = ((lan / "ca.key").read_text(), (lan / "ca.crt").read_text())
    for days, state in ((identities.RENEW_BEFORE.days - 1, checks.WARN), (-1, checks.WARN)):
        for name, text in zip(("key", "crt"), certificates.make_server(authority, ["broker"], days), strict=True):
            write_secret(lan / f"broker/server.{name}", text)
        (found,) = checks.check_certificate(root)
        assert found.state == state
    assert found.found.startswith("expired on ")
    with pytest.raises(MachineError, match="expired on"):
        identities.check(root)
    assert ensure(root) == ["the broker's certificate"]
    identities.check(root)
    (found,) = checks.check_certificate(root)
    assert found.state == checks.OK
    assert identities.ends(root) - datetime.now(UTC) > timedelta(days=390)


def test_each_has_a_password_of_its_own_that_the_broker_knows_by_its_hash_alone(root: Path) -> None:
    ensure(root)
    text = (root / identities.LAN / "broker/passwords").read_text()
    stored = dict(line.split(":", 1) for line in text.splitlines())
    pairings = [identities.pairing_of(root, who) for who in WHO]
    assert {pairing.user for pairing in pairings} == set(stored) == set(WHO)
    assert len({pairing.password for pairing in pairings}) == len(WHO)
    for pairing in pairings:
        _, kind, rounds, salt, digest = stored[pairing.user].split("$")
        wanted = hashlib.pbkdf2_hmac("sha512", pairing.password.encode(), b64decode(salt), int(rounds))
        assert (kind, b64decode(digest)) == ("7", wanted)
        assert pairing.password not in text
        assert pairing.password not in repr(pairing)


@pytest.fixture
def docker(docker_beside: fakes.Docker, monkeypatch: pytest.MonkeyPatch) -> fakes.Docker:
    """An engine without a broker; the shell's settings are not the test's."""
    for name in ("LAB_TLS_PORT", "LAB_LAN_BIND", "FIDELITY", "LAB_TAG", "LAB_UID"):
        monkeypatch.delenv(name, raising=False)
    return docker_beside


def run_pair(root: Path, file: Path | None, identity: str = "bridge", address: str | None = "lab.example") -> int:
    return pair.pair(root, file, identity=identity, address=address, renew=False)


@pytest.mark.usefixtures("docker")
def test_pair_writes_one_file_for_its_owner_alone(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = root / "pi.env"
    assert run_pair(root, file) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = read_pairing(file)
    kept = identities.pairing_of(root, "bridge")
    assert (written.host, written.port, written.user) == ("lab.example", 8883, "bridge")
    assert (written.password, written.ca_pem) == (kept.password, kept.ca_pem)
    assert "FIDELITY=thesis\n" in file.read_text()
    assert "lab.example" in certificates.names_of(root / identities.SERVER_CERTIFICATE)
    said = "".join(capfd.readouterr())
    assert "rpi/install.sh --pairing pi.env" in said
    assert kept.password not in said
    # Again: the same pairing, whatever else was made meanwhile.
    assert run_pair(root, file, address="192.0.2.9") == 0
    assert read_pairing(file).password == kept.password


@pytest.mark.usefixtures("docker")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".env", "not a pairing file"),
        (None, "needs a file"),
        ("results", "cannot be written"),
        ("", "cannot be written"),
        ("nowhere/pi.env", "cannot be written"),
    ],
)
def test_pair_refuses_a_wrong_file_before_it_makes_anything(root: Path, name: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_pair(root, None if name is None else root / name)
    assert not identities.exist(root)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("192.168.1.10", "192.168.1.10"), ("[2001:DB8::5]", "2001:db8::5"), ("lab-pc", "lab-pc"),
        (" lab.example.org ", "lab.example.org"), ("my_pc.local", "my_pc.local"), ("2001:db8:0:0::5", "2001:db8::5"),
    ],
)  # fmt: skip
def test_an_address_is_taken_in_one_spelling(text: str, wanted: str) -> None:
    assert pair.read_address(text) == wanted
    # Where the listener is bound, as Compose wants it, is where it is found.
    assert pair.own_address(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "http://lab", "192.168.1.10:8883", "192.168.1", "300.1.1.1", "0.0.0.0", "::", "fe80::1%eth0", "224.0.0.1",
        "a b", "x,y", "lab\nBROKER_USER=x", "-", "a..b", "a" * 64, "pc/24", "…",
    ],
)  # fmt: skip
def test_what_no_pi_could_reach_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="a Pi cannot reach that address") as caught:
        pair.read_address(text)
    assert "192.168.1.10" in caught.value.remedy


@pytest.mark.usefixtures("docker")
@pytest.mark.parametrize(
    ("address", "word"), [("lab.local", "names that end in .local"), ("2001:db8::5", "an IPv4 address is safer")]
)
def test_an_address_that_may_not_be_enough_gets_a_word(
    root: Path, capfd: pytest.CaptureFixture[str], address: str, word: str
) -> None:
    assert run_pair(root, root / "pi.env", address=address) == 0
    assert word in "".join(capfd.readouterr())
    assert read_pairing(root / "pi.env").host == address


def test_a_pairing_that_went_through_windows_is_the_same(root: Path) -> None:
    ensure(root)
    pairing = identities.pairing_of(root, "bridge")
    text = (root / identities.LAN / "bridge" / identities.PAIRING).read_text()
    for change in (
        text.replace("\n", "\r\n"),
        "\ufeff" + text,
        "\ufeff# remark\r\n\r\n  " + text.replace("\n", " \r\n"),
    ):
        (root / "pi.env").write_bytes(change.encode())
        assert read_pairing(root / "pi.env") == pairing


CUT = "BROKER_HOST=x\nBROKER_PORT=1883\nBROKER_USER=b\nBROKER_PASSWORD=hush\nBROKER_CA_BASE64="
WRONG_PAIRINGS = {
    "no such file": (None, "cannot be read: No such file or directory"),
    "another encoding": (CUT.encode("utf-16"), "is damaged: .* line 1: a character that is not UTF-8"),
    "only an address": (b"BROKER_HOST=x\n", "has no BROKER_PORT, BROKER_USER, BROKER_PASSWORD, BROKER_CA_BASE64"),
    "no port": (CUT.replace("1883", "mqtt").encode() + b"eA==", r"is damaged \(`BROKER_PORT=mqtt` is not a port"),
    "no base64": (CUT.encode() + b"eA", r"is damaged \(.*padding"),
    "no certificate": (CUT.encode() + b"eA==", r"is damaged \("),
}


@pytest.mark.parametrize("case", WRONG_PAIRINGS)
def test_a_file_that_is_no_pairing_is_refused_with_the_remedy(tmp_path: Path, case: str) -> None:
    content, message = WRONG_PAIRINGS[case]
    if content is not None:
        (tmp_path / "pi.env").write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        read_pairing(tmp_path / "pi.env")
    assert "./lab pair FILE" in caught.value.remedy
    assert "hush" not in caught.value.message


@pytest.mark.parametrize("renew", [True, False])
@pytest.mark.parametrize("file", ["broker/server.key", "broker/passwords"])
def test_what_was_cut_short_is_made_again_whole(root: Path, file: str, renew: bool) -> None:
    """As by Ctrl-C, or a full disk: no authority is left beside what a former one signed."""
    path = root / identities.LAN / file
    if renew:
        ensure(root)
        path.unlink()
    # Nothing can take the place of a folder.
    path.mkdir(parents=True)
    with pytest.raises(OSError, match=path.name):
        ensure(root, renew=renew)
    path.rmdir()
    ensure(root)
    authority = (root / identities.LAN / "ca.crt").read_text()
    assert {identities.pairing_of(root, who).ca_pem for who in WHO} == {authority}
    signed = ["-CAfile", root / identities.LAN / "ca.crt", root / identities.SERVER_CERTIFICATE]
    assert subprocess.run(["openssl", "verify", *signed], capture_output=True, timeout=30, check=False).returncode == 0
    assert ensure(root) == []


def test_dockers_own_networks_are_no_way_to_this_machine(programs: fakes.Programs) -> None:
    said = (
        '[{"ifname":"eth0","addr_info":[{"local":"192.0.2.1"}]},{"ifname":"br-1","addr_info":[{"local":"172.18.0.1"}]},'
        '{"ifname":"docker0","addr_info":[{"local":"172.17.0.1"}]},{}]'
    )
    programs.add("ip", {"*": (said, "", 0)})
    assert pair.own_addresses() == ["192.0.2.1"]


def test_git_and_the_images_never_see_them() -> None:
    # Pairings are written into the lab's own folder, too: ./lab pair pi.env
    assert {"/secrets/", "/*.env", "/rpi/secrets/"} <= set((ROOT / ".gitignore").read_text().splitlines())
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    assert not any("secrets" in line for line in ignored)
