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


def run_pair(root: Path, file: Path, address: str = "lab.example") -> int:
    return pair.pair(root, file, identity="bridge", address=address)


def test_pair_writes_one_file_for_its_owner_alone(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = root / "pi.env"
    # Again: it may replace a pairing.
    for address in ("lab.example", "2001:db8::5"):
        assert run_pair(root, file, address) == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o400
        text = file.read_text()
        assert f"# prepare pairing bridge {address} 8883\n{PAIRING}FIDELITY=thesis\nLAB_REGISTRY=\nLAB_TAG=" in text
    said = "".join(capfd.readouterr())
    assert "rpi/install.sh --pairing pi.env" in said
    assert "hush" not in said
    # Without TLS it is of the plain listener.
    monkeypatch.setenv("BROKER_TLS", "off")
    assert run_pair(root, file) == 0
    assert "# prepare pairing bridge lab.example 1883 plain\n" in file.read_text()


@pytest.mark.parametrize(
    ("name", "address", "message"),
    [
        (".env", "lab", "not a pairing file"),
        ("results", "lab", "cannot be written"),
        ("nowhere/pi.env", "lab", "cannot be written"),
        *(("pi.env", address, "a Pi cannot reach that address")
          for address in ("http://lab", "192.168.1.10:8883", "a b", "lab\nBROKER_USER=x", "-", "pc/24")),
    ],
)  # fmt: skip
def test_pair_refuses_a_wrong_file_or_address(root: Path, name: str, address: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_pair(root, root / name, address)


def test_git_and_the_images_never_see_secrets() -> None:
    # Pairings are written into the lab's own folder, too: ./lab pair pi.env
    assert {"/secrets/", "/*.env", "/rpi/secrets/"} <= set((ROOT / ".gitignore").read_text().splitlines())
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    assert not any("secrets" in line for line in ignored)
