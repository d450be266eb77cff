"""./lab test: which tests it runs after which set-up and linters."""

import subprocess
import sys
from pathlib import Path

import pytest

from looplab.errors import EXIT_INVALID
from looplab.lab.commands import test as testing
from looplab.lab.commands.lint import LINTERS, lint


@pytest.mark.parametrize(
    ("linter", "page", "found"),
    [
        ("codespell", "The broker will recieve it.\n", "recieve ==> receive"),  # codespell:ignore recieve
        ("lychee", "[gone](other.md)\n", "other.md"),
        ("lychee", "# Here\n\n[there](#there)\n", "page.md#there"),
    ],
)
def test_a_page_is_spelt_and_linked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], linter: str, page: str, found: str
) -> None:
    (chosen,) = [one for one in LINTERS if one.name == linter]
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    programs = Path(sys.executable).parent
    (tmp_path / "pyproject.toml").write_text("[tool.looplab.rooms]\n")
    (tmp_path / "page.md").write_text(page)
    assert not lint(tmp_path, programs, [chosen])
    assert found in capsys.readouterr().out
    (tmp_path / "page.md").write_text("# Here\n\n[there](#here)\n")
    assert lint(tmp_path, programs, [chosen])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Set nothing up, and let the linters pass; return what was asked for."""
    taken: list[str] = []
    monkeypatch.setattr(testing, "make_ready", lambda _root: taken.append("machine"))
    monkeypatch.setattr(testing, "make_environment", lambda _root: taken.append("environment"))
    monkeypatch.setattr(testing, "python_of", lambda _root: Path(sys.executable))
    monkeypatch.setattr(testing, "lint", lambda _root, _programs: not taken.append("lint"))
    return taken


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    (tmp_path / "tests/unit/test_good.py").write_text("def test_good():\n    pass\n")
    (tmp_path / "tests/test_bad.py").write_text("def test_bad():\n    assert False\n")
    return tmp_path


@pytest.mark.parametrize(
    ("unit", "rest", "set_up", "code"),
    [
        (True, ["-n0"], "environment", 0),
        (False, ["-n0"], "machine", EXIT_INVALID),
        (False, ["tests/unit/test_good.py"], "environment", 0),
        (False, ["tests/unit/test_good.py", "tests/test_bad.py"], "machine", EXIT_INVALID),
        (True, ["-n0", "-k", "nothing"], "environment", EXIT_INVALID),
    ],
)
def test_which_tests_are_run_and_what_they_need(
    small_project: Path, steps: list[str], unit: bool, rest: list[str], set_up: str, code: int
) -> None:
    assert testing.test(small_project, unit, rest, lint_alone=False) == code
    assert steps == [set_up, "lint"]


def test_the_linters_run_alone(small_project: Path, steps: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert testing.test(small_project, False, [], lint_alone=True) == 0
    assert steps == ["environment", "lint"]
    assert "passed" not in capfd.readouterr().out


@pytest.mark.usefixtures("steps")
def test_lint_and_tests_both_count(
    small_project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "lint", lambda _root, _programs: False)
    assert testing.test(small_project, True, ["-n0"], lint_alone=False) == EXIT_INVALID
    assert "1 passed" in capfd.readouterr().out.splitlines()[-1]


@pytest.mark.usefixtures("steps")
def test_the_images_that_tests_made_go_with_them(small_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([{"looplab-test/older:latest", "1a"}, {"looplab-test/older:latest", "looplab-test/robot:latest", "2b"}])
    removed: list[list[str]] = []
    monkeypatch.setattr(testing, "left_by_tests", lambda: next(seen))
    monkeypatch.setattr(testing, "call", lambda words, **_more: removed.append(words))
    assert testing.test(small_project, True, ["-n0"], lint_alone=False) == 0
    assert removed == [["docker", "rmi", "2b", "looplab-test/robot:latest"]]
