"""What every start does first: identities, each file for one reader, and results/ opened for the controller."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from looplab.errors import UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.mqtt.pairing import read_pairing
from looplab.run import identities, prepare

SECRETS = [one for experiment in EXPERIMENTS.values() for one in experiment.secrets]
ME = os.geteuid()
# With the user and the group that read each, beside the controller's 1000.
FILES = {
    "bridge": (10002, 0), "controller": (1000, 0), "identities.json": (0, 0), "machine": (1000, 0),
    "passwords": (1883, 1883), "server.pem": (1883, 1883),
    "database/owner": (999, 0), "database/writer": (1000, 999), "database/reader": (1000, 999),
    "plain/controller": (1000, 10023), "plain/observer": (10006, 10008), "plain/mosquitto_sub": (1883, 1883),
    "plain/passwords": (1883, 1883), "plain/bridge": (10002, 0),
    **{f"services/{name}": (1000, 10021) for name in ("postgres", "spicedb", "tokens", "admin")},
}  # fmt: skip
TOKENS = {"treatments": (1000, 10008), "nodes": (1000, 10021), "device-workers": (1000, 0)}


def files_in(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def contents(folder: Path) -> dict[str, bytes]:
    """What stays; each start makes new tokens, and new salts for the broker's passwords."""
    new = ("passwords", "plain/passwords", *TOKENS)
    return {name: path.read_bytes() for name, path in files_in(folder).items() if name not in new}


def test_all_is_made_once_and_kept_beside_the_tokens_of_each_start(tmp_path: Path) -> None:
    identities.make(tmp_path, ME, SECRETS)
    before, tokens = contents(tmp_path), {(tmp_path / name).read_text() for name in TOKENS}
    identities.make(tmp_path, ME, SECRETS)
    tokens |= {(tmp_path / name).read_text() for name in TOKENS}
    assert contents(tmp_path) == before
    assert files_in(tmp_path).keys() == {**FILES, **TOKENS}.keys()
    shared = [before[name] for name in FILES if name.startswith(("database/", "services/"))]
    assert (len({*shared}), len(tokens)) == (len(shared), 2 * len(TOKENS))
    assert min(map(len, (*shared, *tokens))) >= 32


@pytest.mark.parametrize("left", ["", "{", "[]", "{}"])
def test_a_damaged_file_is_an_error_with_its_remedy(
    tmp_path: Path, left: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a power failure leaves it."""
    (tmp_path / "identities.json").write_text(left)
    monkeypatch.setattr(prepare, "IDENTITIES", tmp_path)
    assert prepare.main(EXPERIMENTS, ["pairing", "bridge", "lab", "8883"]) == 3
    assert "docker volume rm looplab_identities" in capsys.readouterr().err
    assert files_in(tmp_path).keys() == {"identities.json"}


def test_an_experiment_that_came_since_gets_its_password(tmp_path: Path) -> None:
    identities.make(tmp_path, ME, SECRETS)
    kept = json.loads((tmp_path / identities.KEPT).read_text())
    del kept["shared"]["writer"], kept["plain"]["controller"]
    (tmp_path / identities.KEPT).chmod(0o600)
    (tmp_path / identities.KEPT).write_text(json.dumps(kept))
    before = contents(tmp_path)
    identities.make(tmp_path, ME, SECRETS)
    changed = {name for name, content in contents(tmp_path).items() if content != before[name]}
    assert changed == {identities.KEPT, "database/writer", "plain/controller"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_only_who_reads_a_file_may_open_it(tmp_path: Path) -> None:
    # The second start is for another LAB_UID.
    for controller in (1000, 1001):
        identities.make(tmp_path, controller, SECRETS)
        facts = {name: path.stat() for name, path in files_in(tmp_path).items()}
        found = {name: (stat.S_IMODE(one.st_mode), one.st_uid, one.st_gid) for name, one in facts.items()}
        assert found == {
            name: (0o440 if group else 0o400, controller if owner == 1000 else owner, group)
            for name, (owner, group) in {**FILES, **TOKENS}.items()
        }


@pytest.mark.parametrize("tls", [True, False])
def test_the_broker_knows_each_password_by_its_hash(tmp_path: Path, tls: bool) -> None:
    """mosquitto takes them: tests/integration/lan/test_lan_access.py."""
    identities.make(tmp_path, ME, SECRETS)
    text = (tmp_path / ("" if tls else "plain") / "passwords").read_text()
    stored = dict(line.split(":", 1) for line in text.splitlines())
    pairings = identities.pairings_of(tmp_path, tls=tls)
    other = identities.pairings_of(tmp_path, tls=not tls)
    assert not {one.password for one in pairings.values()} & {one.password for one in other.values()}
    assert set(pairings) == set(stored) == set(identities.USERS)
    assert len({pairing.password for pairing in pairings.values()}) == len(stored)
    for pairing in pairings.values():
        assert pairing.password == identities.NO_SECRET or pairing.password not in text + repr(pairing)


def test_prepare_prints_what_a_pi_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "IDENTITIES", tmp_path)
    assert prepare.main(EXPERIMENTS, ["pairing", "bridge", "192.0.2.5", "8884"]) == 0
    file = tmp_path / "pi.env"
    file.write_text(capsys.readouterr().out)
    found, kept = read_pairing(file), identities.pairings_of(tmp_path)["bridge"]
    assert (found.host, found.port, found.user, found.password) == ("192.0.2.5", 8884, "bridge", kept.password)
    assert prepare.main(EXPERIMENTS, ["pairing", "bridge", "192.0.2.5", "1883", "plain"]) == 0
    file.write_text(capsys.readouterr().out)
    plain = identities.pairings_of(tmp_path, tls=False)["bridge"]
    assert read_pairing(file) == replace(plain, host="192.0.2.5")
    assert plain.ca_pem == ""


CUT = "BROKER_HOST=x\nBROKER_PORT=1883\nBROKER_USER=b\nBROKER_PASSWORD=hush\nBROKER_CA_BASE64="
WRONG = {
    "no such file": (None, "cannot be read: No such file or directory"),
    "another encoding": (CUT.encode("utf-16"), "is damaged: .* line 1: a character that is not UTF-8"),
    "only an address": (b"BROKER_HOST=x\n", "has no BROKER_PORT, BROKER_USER, BROKER_PASSWORD, BROKER_CA_BASE64"),
    "no port": (CUT.replace("1883", "mqtt").encode() + b"eA==", r"is damaged \(`BROKER_PORT=mqtt` is not a port"),
    "cut before the authority": (CUT.encode(), "has no BROKER_CA_BASE64"),
    "no base64": (CUT.encode() + b"eA", r"is damaged \(.*padding"),
    "no certificate": (CUT.encode() + b"eA==", r"is damaged \("),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_with_the_remedy(tmp_path: Path, case: str) -> None:
    content, message = WRONG[case]
    if content is not None:
        (tmp_path / "pi.env").write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        read_pairing(tmp_path / "pi.env")
    assert "./lab pair FILE" in caught.value.remedy
    assert "hush" not in caught.value.message


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_who_may_write_already_needs_nothing(tmp_path: Path) -> None:
    """As the owner, by the group of the folder, because anyone may."""
    group = tmp_path.stat().st_gid
    for rights, uid, gid in ((0o755, os.getuid(), 12345), (0o775, 54321, group), (0o777, 54321, 54321)):
        tmp_path.chmod(rights)
        assert prepare.open_folder(tmp_path, uid, gid) == ""
        assert mode(tmp_path) == rights


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another group")
@pytest.mark.parametrize("before", [0o755, 0o700, 0o775, 0o1777])
def test_the_controllers_group_gets_in_and_nobody_else(tmp_path: Path, before: int) -> None:
    tmp_path.chmod(before)
    assert prepare.open_folder(tmp_path, 54321, 54322) == ""
    assert (mode(tmp_path), tmp_path.stat().st_uid, tmp_path.stat().st_gid) == (0o1775, os.geteuid(), 54322)
    assert prepare.open_folder(tmp_path, 54321, 54322) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another group")
def test_a_report_of_roots_can_be_written_again_by_the_group(tmp_path: Path) -> None:
    page = tmp_path / "report/figures/page.html"
    page.parent.mkdir(parents=True)
    page.touch(mode=0o644)
    (tmp_path / "report/link").symlink_to("/etc/passwd")
    before = Path("/etc/passwd").stat()
    prepare.share(tmp_path / "report", 54322)
    assert [(path.stat().st_gid, mode(path)) for path in (page, page.parent)] == [(54322, 0o664), (54322, 0o775)]
    assert Path("/etc/passwd").stat() == before


def test_a_folder_that_cannot_be_opened_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    said = prepare.open_folder(tmp_path, 54321, 54321)
    assert "54321" in said
    assert "LAB_UID" in said


def test_a_malformed_user_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LAB_UID", "1000:1000")
    assert prepare.main(EXPERIMENTS) == 2
    assert "LAB_UID" in capsys.readouterr().err
