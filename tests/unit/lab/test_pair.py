"""./lab pair: one file for its owner alone, and nothing is made for a wrong one."""

import shutil
import stat
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.errors import UsageError
from looplab.lab.checkout import Lab
from looplab.lab.commands import pair
from looplab.lab.docker.compose import Compose

PAIRING = "BROKER_HOST=lab.example\nBROKER_PORT=8883\nBROKER_PASSWORD=hush\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab that is ready, whose `prepare` prints PAIRING."""
    shutil.copy(ROOT / ".env", tmp_path / ".env")
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(Lab, "make_ready", lambda _lab: None)
    monkeypatch.setattr(Compose, "once", lambda _compose, *words: f"# {' '.join(words)}\n{PAIRING}")
    return tmp_path


def run_pair(file: Path, address: str = "lab.example") -> int:
    return pair.pair(file.parent, file, identity="bridge", address=address)


def test_pair_writes_one_file_for_its_owner_alone(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = root / "pi.env"
    # Again: it may replace a pairing.
    for address in ("lab.example", "2001:db8::5"):
        assert run_pair(file, address) == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o400
        text = file.read_text()
        assert f"# prepare pairing bridge {address} 8883\n{PAIRING}FIDELITY=thesis\nLAB_REGISTRY=\nLAB_TAG=" in text
    said = "".join(capfd.readouterr())
    assert "rpi/install.sh --pairing pi.env" in said
    assert "hush" not in said


def test_without_tls_the_pairing_is_of_the_plain_listener(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_TLS", "off")
    assert run_pair(root / "pi.env") == 0
    assert "# prepare pairing bridge lab.example 1883 plain\n" in (root / "pi.env").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [(".env", "not a pairing file"), ("results", "cannot be written"), ("nowhere/pi.env", "cannot be written")],
)
def test_pair_refuses_a_wrong_file(root: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pair.pair(root, root / name, identity="bridge", address="lab.example")


@pytest.mark.parametrize("address", ["http://lab", "192.168.1.10:8883", "a b", "lab\nBROKER_USER=x", "-", "pc/24"])
def test_pair_refuses_what_is_no_address(root: Path, address: str) -> None:
    with pytest.raises(UsageError, match="a Pi cannot reach that address"):
        run_pair(root / "pi.env", address)


def test_git_and_the_images_never_see_secrets() -> None:
    # Pairings are written into the lab's own folder, too: ./lab pair pi.env
    assert {"/secrets/", "/*.env", "/rpi/secrets/"} <= set((ROOT / ".gitignore").read_text().splitlines())
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    assert not any("secrets" in line for line in ignored)
