"""./lab test: which tests it runs after which set-up, with the linters before or beside them."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.waiting import until

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
    (tmp_path / "page.md").write_text(page)
    assert not lint(tmp_path, programs, [chosen])
    assert found in capsys.readouterr().out
    (tmp_path / "page.md").write_text("# Here\n\n[there](#here)\n")
    assert lint(tmp_path, programs, [chosen])


def no_set_up(taken: list[str], lint: Callable[[Path, Path], bool] = lambda _root, _programs: True) -> testing.Steps:
    """Return steps that set nothing up; each is noted in `taken`."""
    return testing.Steps(
        make_ready=lambda _root: taken.append("machine"),
        make_environment=lambda _root: taken.append("environment"),
        python=lambda _root: Path(sys.executable),
        lint=lint,
    )


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    (tmp_path / "tests/unit/test_good.py").write_text("def test_good():\n    pass\n")
    (tmp_path / "tests/test_bad.py").write_text("def test_bad():\n    assert False\n")
    return tmp_path


@pytest.mark.parametrize(
    ("unit", "rest", "steps", "code"),
    [
        (True, ["-n0"], ["environment"], 0),
        (False, ["-n0"], ["machine"], EXIT_INVALID),
        (False, ["tests/unit/test_good.py"], ["environment"], 0),
        (False, ["tests/unit/test_good.py", "tests/test_bad.py"], ["machine"], EXIT_INVALID),
        (True, ["-n0", "-k", "nothing"], ["environment"], EXIT_INVALID),
    ],
)
def test_which_tests_are_run_and_what_they_need(
    small_project: Path, unit: bool, rest: list[str], steps: list[str], code: int
) -> None:
    taken: list[str] = []
    assert testing.run_tests(no_set_up(taken), small_project, unit, rest, lint_alone=False) == code
    assert taken == steps


def test_the_linters_run_alone(small_project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    taken: list[str] = []
    assert testing.run_tests(no_set_up(taken), small_project, False, [], lint_alone=True) == 0
    assert taken == ["environment"]
    assert "passed" not in capfd.readouterr().out


def test_lint_and_tests_both_count(small_project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    steps = no_set_up([], lint=lambda _root, _programs: False)
    assert testing.run_tests(steps, small_project, True, ["-n0"], lint_alone=False) == EXIT_INVALID
    assert "1 passed" in capfd.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("unit", [True, False])
def test_the_linters_run_beside_unit_tests_printed_first(
    small_project: Path, capfd: pytest.CaptureFixture[str], unit: bool
) -> None:
    begun = small_project / "begun"
    (small_project / "tests/test_bad.py").unlink()
    (small_project / "tests/unit/test_good.py").write_text(f"def test_good():\n    open({str(begun)!r}, 'w').close()\n")

    def linter(_root: Path, _programs: Path) -> bool:
        if unit:
            until(begun.exists, "the tests beside the linters", 20)
        else:
            # As long as pytest needs to begin, if it were not kept back.
            time.sleep(1)
        print("lint", begun.exists(), flush=True)
        return True

    assert testing.run_tests(no_set_up([], linter), small_project, unit, ["-n0"], lint_alone=False) == 0
    first, *_, last = capfd.readouterr().out.splitlines()
    assert first == f"lint {unit}"
    assert "1 passed" in last
