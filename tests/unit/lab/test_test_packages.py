"""What ./lab test installs: one list, complete, and a message where it may not install."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.machine import test_packages
from looplab.lab.machine.test_packages import LIST, Package, missing_packages, require_installable
from looplab.lab.programs import Outcome

ABSENT = Package("no-such-package", "no-such-program", "nothing")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the words that apt-get is called with."""
    words: list[str] = []

    def apt_get(*given: str) -> Outcome:
        assert test_packages.POLICY.exists(), "a service would start"
        words.extend(given)
        return Outcome(given, 100, "", "Reading\nE: Unable to locate package\n")

    monkeypatch.setattr(test_packages, "apt_get", apt_get)
    monkeypatch.setattr(test_packages, "has_candidate", lambda name: name != "of-a-later-release")
    monkeypatch.setattr(test_packages, "POLICY", tmp_path / "policy-rc.d")
    return words


def test_only_what_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / LIST).write_text(
        '[setup]\ncoreutils = ["ls", "a"]\nx = ["no-such-program", "b"]\n'
        '[tests]\nbase = ["/etc/os-rel*", "c"]\ny-dev = ["/usr/include/no-such.h", "d"]\n'
    )
    missing = missing_packages(tmp_path)
    assert {table: [package.name for package in lines] for table, lines in missing.items()} == {
        "setup": ["x"],
        "tests": ["y-dev"],
    }


def test_the_list_is_whole_and_every_line_has_its_purpose() -> None:
    assert set(missing_packages(ROOT)) == {"setup", "tests"}
    assert all(package.purpose for packages in missing_packages(ROOT).values() for package in packages)


@pytest.mark.parametrize(
    ("debian", "root", "remedy"),
    [
        (True, False, "sudo apt-get install --no-install-recommends docker.io no-such-package"),
        (False, True, "Install what this system calls docker.io no-such-package"),
    ],
)
def test_one_command_is_named_where_the_lab_may_not_install(
    monkeypatch: pytest.MonkeyPatch, debian: bool, root: bool, remedy: str
) -> None:
    monkeypatch.setattr(test_packages, "is_debian_like", lambda: debian)
    monkeypatch.setattr(test_packages, "is_root", lambda: root)
    require_installable([])
    with pytest.raises(LabError) as caught:
        require_installable([ABSENT], ["docker.io"])
    assert caught.value.exit_code == EXIT_MACHINE
    assert "no-such-package (nothing)" in caught.value.message
    assert remedy in caught.value.remedy


def test_what_apt_cannot_install_is_named_with_its_reason(installed: list[str]) -> None:
    with pytest.raises(LabError, match="could not install no-such-package: E: Unable") as caught:
        test_packages.install([ABSENT, Package("of-a-later-release", "ls", "a part of another package before")])
    assert caught.value.exit_code == EXIT_MACHINE
    assert installed == ["install", "no-such-package"]
    assert not test_packages.POLICY.exists()


def test_a_policy_of_this_machine_stays(installed: list[str]) -> None:
    test_packages.POLICY.write_text("its own")
    test_packages.install([Package("coreutils", "ls", "there already")])
    assert test_packages.POLICY.read_text() == "its own"


def test_ci_installs_nothing_that_lab_test_does_not() -> None:
    words = (ROOT / ".ci/run").read_text()
    assert "./lab test" in words
    assert re.search(r"\b(apt|apt-get|pip3?|npm)\b", words) is None
