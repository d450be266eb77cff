"""The base image made from packages: licences stay, services do not start."""

from __future__ import annotations

import subprocess
from pathlib import Path

from looplab.lab.docker.base_image import trim


def test_the_base_keeps_licences_and_starts_no_services(tmp_path: Path) -> None:
    for name in ("usr/share/doc/bash/copyright", "usr/share/doc/bash/README", "usr/share/man/man1/bash.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for name in ("etc/dpkg/dpkg.cfg.d", "etc/apt/apt.conf.d", "usr/sbin", "var/cache/apt/archives"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "var/cache/apt/archives/a.deb").write_text("x")
    trim(tmp_path)
    assert (tmp_path / "usr/share/doc/bash/copyright").exists()
    assert not (tmp_path / "usr/share/doc/bash/README").exists()
    assert not (tmp_path / "usr/share/man/man1").exists()
    assert not (tmp_path / "var/cache/apt/archives/a.deb").exists()
    assert subprocess.run([tmp_path / "usr/sbin/policy-rc.d"], check=False).returncode == 101
