"""What ./lab test installs, and a message where it may not install; each package by its hash."""

import re
import tomllib
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.errors import MachineError
from looplab.lab.commands.test import PACKAGES, REQUIREMENTS, install_packages, missing_packages


def test_what_is_missing_is_named_where_the_lab_may_not_install(
    programs: fakes.Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    there = 'coreutils = ["/bin/ls", "a"]\nbase = ["/etc/os-rel*", "c"]\n'
    (tmp_path / PACKAGES).write_text(f'{there}x = ["no-such-program", "b"]\ny-dev = ["/usr/include/no-such.h", "d"]\n')
    missing = missing_packages(tmp_path)
    assert missing == {"x": "b", "y-dev": "d"}
    programs.script("apt-get")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    install_packages({}, [])
    with pytest.raises(MachineError, match=r"x \(b\); y-dev \(d\)") as caught:
        install_packages(missing, ["docker.io"])
    assert "sudo apt-get install --no-install-recommends docker.io x y-dev" in caught.value.remedy


def test_every_python_package_of_the_tests_is_known_by_its_hash() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entries = re.split(r"\n(?=\S)", (ROOT / REQUIREMENTS).read_text())
    pinned = {entry.split()[0].split(";")[0]: entry for entry in entries if not entry.startswith("#")}
    wanted = {re.sub(r"\[\w+\]", "", one).lower() for one in project["optional-dependencies"]["test"]}
    assert wanted <= {name.lower() for name in pinned}
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in pinned.values())


def test_every_action_of_ci_is_a_commit() -> None:
    """A tag can be moved."""
    found = [line for path in (ROOT / ".github/workflows").iterdir() for line in path.read_text().splitlines()]
    used = [line.partition("uses:")[2].strip() for line in found if "uses:" in line]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[0-9.]+", one) for one in used), used
