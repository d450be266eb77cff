"""The programs of bare metal, taken out of an image."""

from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.experiments.middleware.host import programs


def test_an_interrupted_copy_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker cp` puts its source into a folder that exists, and becomes it where there is none."""
    fake = fakes.Programs(tmp_path / "bin")
    fake.borrow("cp", "mkdir")
    (tmp_path / "image").mkdir()
    (tmp_path / "image/broker").touch()
    answers = f"image) echo sha256:0123456789abcdef0 ;; create) echo c1 ;; cp) cp -r {tmp_path}/image $3 ;;"
    fake.script("docker", f'case "$1" in {answers} esac')
    monkeypatch.setenv("PATH", str(fake.folder))
    (tmp_path / ".cache/magistrala/0123456789abcdef.half/image").mkdir(parents=True)
    folder = programs(tmp_path, "any:1")
    assert [path.name for path in folder.rglob("*")] == ["broker"]
