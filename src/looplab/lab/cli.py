"""./lab: the one command of the lab."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from looplab.errors import EXIT_GOOD, EXIT_INVALID, EXIT_MACHINE, LabError
from looplab.lab import run_options
from looplab.lab.owner import give_back
from looplab.run.identities import USERS
from looplab.system.remedies import NO_SPACE, READ_ONLY
from looplab.system.terminal import fitted

# The image of the report sets this variable.
INSIDE = "LOOPLAB_INSIDE"


class Command(NamedTuple):
    """`call` is a function of looplab.lab.commands (imported when called), by default that of the command's name. It
    takes the checkout's root and the parsed arguments by their names, and returns the exit code.

    With `packaged` it runs in the image of the report.
    """

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None] = lambda _parser: None
    call: str = ""
    packaged: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one message with its remedy."""
    words = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    options = vars(parser().parse_args(words))
    root = Path(os.environ.get("LAB_ROOT") or Path(__file__).resolve().parents[3])
    chosen = COMMANDS[name := options.pop("command")]
    module, _, function = (chosen.call or f"{name}:{name}").partition(":")
    try:
        if chosen.packaged and INSIDE not in os.environ:
            inside = import_module("looplab.lab.report_container")
            return int(inside.run_inside(root, words, options))
        command: Callable[..., int] = getattr(import_module(f"looplab.lab.commands.{module}"), function)
        code = command(root, **options)
        # What standard output does not take is an error of this command, not of the interpreter's end.
        sys.stdout.flush()
        return code
    except LabError as error:
        _report(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nlab: interrupted", file=sys.stderr)
        return EXIT_INVALID
    except BrokenPipeError:
        # The reader of the pipe, e.g. `head`, has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_GOOD
    except OSError as error:
        if not error.filename:
            raise
        _report(LabError(f"{error.filename}: {error.strerror}.", _remedy(error, root)))
        return EXIT_MACHINE
    finally:
        give_back(root)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="./lab",
        description="Measure the response time of a robot controlled over MQTT.",
        epilog="Exit codes: 0 good; 1 invalid run or failed check; 2 wrong use; 3 the machine lacks something.",
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        description = f"{command.help[0].upper()}{command.help[1:]}."
        command.add_arguments(commands.add_parser(name, help=command.help, description=description))
    return made


def _report(error: LabError) -> None:
    print(fitted(f"lab: {error}", sys.stderr), file=sys.stderr)


def _remedy(error: OSError, root: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NO_SPACE.do
    if error.errno == errno.EROFS:
        return READ_ONLY.do
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"This folder must be yours to write: sudo chown -R $USER {root}"
    return "If it belongs to the lab, restore it: git status names what is missing, git checkout FILE brings it back."


def _arguments(*given: tuple[str, dict[str, Any]]) -> Callable[[argparse.ArgumentParser], None]:
    """Return a function that adds these arguments, each a name and what argparse takes of it."""

    def add(command: argparse.ArgumentParser) -> None:
        for name, form in given:
            command.add_argument(name, **form)

    return add


def _one(name: str, text: str, **form: Any) -> tuple[str, dict[str, Any]]:
    return name, {"help": text, **form}


def _flag(name: str, text: str, **form: Any) -> tuple[str, dict[str, Any]]:
    return _one(name, text, action="store_true", **form)


def _file(name: str, text: str, **form: Any) -> tuple[str, dict[str, Any]]:
    return _one(name, text, type=Path, metavar="FILE", **form)


COMMANDS = {
    "run": Command("run scenarios and print what they measured", run_options.add_arguments),
    "study": Command(
        "repeat both sides of a claim in random order, until there are enough runs for a verdict",
        run_options.add_study_arguments,
    ),
    "show": Command(
        "print all of a stored run",
        _arguments(
            _one("run", "its id, folder or scenario (default: the newest)", nargs="?", default="", metavar="RUN"),
            _flag("--treatments", "only what was done to the system: wanted, found"),
        ),
    ),
    "list": Command("print what there is: scenarios, experiments, exercises", call="list_all:list_all"),
    "inspect": Command(
        "print the running parts: image, scheduling, limits, treatments",
        _arguments(
            _one("scenario", "only while this one runs", nargs="?", metavar="SCENARIO"),
            _flag("--json", "one JSON document", dest="as_json"),
        ),
        call="inspect_parts:inspect",
    ),
    "doctor": Command(
        "print what this machine can and cannot do",
        _arguments(_flag("--json", "one JSON document", dest="as_json")),
    ),
    "setup": Command(
        "install, pull and build what a run needs",
        _arguments(_one("scenarios", "also prepare images that only these need", nargs="*", metavar="SCENARIO")),
    ),
    "hosts": Command(
        "list or add the hosts of a run: Docker contexts (docs/many-hosts.md)",
        _arguments(
            _one("action", "what to do (default: list them)", nargs="?", choices=("add",)),
            _one("name", "of the host", nargs="?", default="", metavar="NAME"),
            _one("endpoint", "where its engine listens", nargs="?", default="", metavar="ssh://…"),
            _one("--address", "its IPv4 address for other hosts (default: that of ssh)", default=""),
        ),
    ),
    "down": Command("stop and remove all containers; results stay", call="setup:down"),
    "pair": Command(
        "write one file with all that a Raspberry Pi needs to reach this broker",
        _arguments(
            _file("file", "the file to write, for its owner alone"),
            _one("--address", "this machine's address or name, as the Pi sees it", metavar="ADDRESS"),
            _one("--identity", "the part that uses it (default: bridge)", choices=USERS, default="bridge"),
        ),
    ),
    "new": Command(
        "make a scenario of your own; `new own NAME`: an application to measure",
        _arguments(
            _one("name", "its name, e.g. scenario9", metavar="NAME"),
            _one("application", "behind `own`: name of your application", nargs="?", default="", metavar="APPLICATION"),
            _one("--from", "the one that it is like (scenario1)", dest="source", default="scenario1", metavar="NAME"),
        ),
        call="new:command",
    ),
    "watch": Command("show the running scenario live in this terminal", packaged=True),
    "check": Command(
        "mark your runs and answers of an exercise",
        _arguments(
            _one(
                "names",
                "an exercise and perhaps a run of it; or a class: its folders, or archives of ./lab hand-in",
                nargs="+",
                metavar="SCENARIO [RUN] | FOLDER | ZIP",
            ),
            _flag("--student", "print right or not right, never the figure"),
        ),
        packaged=True,
    ),
    "predict": Command(
        "choose the prediction of an exercise before its runs",
        _arguments(
            _one("name", "a scenario, or an exercise of docs/exercises", metavar="NAME"),
            _one("answer", "the letter (default: it is asked for)", nargs="?", default="", metavar="LETTER"),
        ),
    ),
    "answers": Command(
        "print the questions of an exercise with their answers",
        _arguments(_one("name", "a scenario, or an exercise of docs/exercises", metavar="NAME")),
    ),
    "hand-in": Command(
        "pack the runs that count and the filled form into NAME.zip",
        _arguments(
            _one("scenario", "a scenario, or an exercise of docs/exercises", metavar="SCENARIO"),
            _one("--name", "who hands it in, e.g. ada", required=True, metavar="NAME"),
        ),
        call="check:hand_in",
        packaged=True,
    ),
    "report": Command(
        "compare your runs with the published figures: a page, tables, figures",
        _arguments(
            _one("runs", "run ids or folders (default: the newest run of each scenario)", nargs="*", metavar="RUN"),
            _one("--out", "where to write it (default: report/)", type=Path, metavar="DIR"),
            _flag("--open", "then open the page in a browser", dest="show"),
        ),
        packaged=True,
    ),
    "bundle": Command(
        "write all images to one file, for a room without a network",
        _arguments(
            _file("file", "the archive to write"),
            _one("scenarios", "what must run there (default: every scenario)", nargs="*", metavar="SCENARIO"),
            _flag("--students", "also archive this checkout, without answers and marking"),
        ),
    ),
    "load": Command(
        "make this machine ready from a file of ./lab bundle",
        _arguments(
            _file("file", "the archive to read"),
            _one("--sha256", "what its maker read when it was made: any other file is refused", default=""),
        ),
        call="bundle:load",
    ),
    "test": Command(
        "run lint and tests",
        _arguments(
            _flag("--unit", "only lint and the tests that need no engine"),
            _flag("--lint", "the linters alone, no test", dest="lint_alone"),
            _one("rest", "passed to pytest", nargs="*", metavar="-- PYTEST ARGUMENTS"),
        ),
    ),
}


if __name__ == "__main__":
    sys.exit(main())
