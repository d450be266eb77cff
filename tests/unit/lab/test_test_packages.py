"""What ./lab test installs: one list, complete, and a message where it may not install."""

import re
import tomllib
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.errors import MachineError
from looplab.lab.commands.test import REQUIREMENTS
from looplab.lab.machine.test_packages import LIST, Package, install, missing_packages, require_installable

ABSENT = Package("no-such-package", "no-such-program", "nothing")


def test_only_what_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / LIST).write_text(
        'coreutils = ["ls", "a"]\nx = ["no-such-program", "b"]\n'
        'base = ["/etc/os-rel*", "c"]\ny-dev = ["/usr/include/no-such.h", "d"]\n'
    )
    assert [package.name for package in missing_packages(tmp_path)] == ["x", "y-dev"]


def test_every_line_of_the_list_has_its_purpose() -> None:
    lines = tomllib.loads((ROOT / LIST).read_text())
    assert lines
    assert all(proof and purpose for proof, purpose in lines.values())


@pytest.mark.parametrize(
    ("apt", "user_id", "remedy"),
    [
        (True, 1000, "sudo apt-get install --no-install-recommends docker.io no-such-package"),
        (False, 0, "Install what this system calls docker.io no-such-package"),
    ],
)
def test_one_command_is_named_where_the_lab_may_not_install(
    programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch, apt: bool, user_id: int, remedy: str
) -> None:
    if apt:
        programs.script("apt-get")
    monkeypatch.setattr("os.geteuid", lambda: user_id)
    require_installable([])
    with pytest.raises(MachineError) as caught:
        require_installable([ABSENT], ["docker.io"])
    assert "no-such-package (nothing)" in caught.value.message
    assert remedy in caught.value.remedy


def test_what_is_still_missing_after_the_installation_is_named(
    programs: fakes.Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_HOST", str(tmp_path))
    (tmp_path / "usr/sbin").mkdir(parents=True)
    programs.borrow("chmod", "dirname", "grep", "rm", "sh")
    programs.add("id", {"-u": ("0\n", "", 0)})
    programs.script("apt-cache", 'echo "  Candidate: 1"')
    programs.script("apt-get")
    install([])
    assert programs.calls("apt-get") == []
    install([Package("coreutils", "ls", "there already")])
    assert programs.calls("apt-get")[-1].endswith(" install coreutils")
    with pytest.raises(MachineError, match="still missing: no-such-package"):
        install([ABSENT])


def test_ci_installs_nothing_that_lab_test_does_not() -> None:
    words = (ROOT / ".ci/run").read_text()
    assert "./lab test" in words
    assert re.search(r"\b(apt|apt-get|pip3?|npm)\b", words) is None


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
