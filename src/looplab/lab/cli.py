"""./lab: the one command of the lab."""

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple, NoReturn

from looplab.errors import EXIT_GOOD, EXIT_INVALID, EXIT_MACHINE, LabError
from looplab.lab import run_options
from looplab.lab.owner import give_back, take_over
from looplab.system.remedies import NO_SPACE, READ_ONLY
from looplab.system.terminal import fitted

# The image of the report sets this variable.
INSIDE = "LOOPLAB_INSIDE"
IDENTITIES = ("bridge", "observer", "flood", "controller")


class Command(NamedTuple):
    """`call` is a function of looplab.lab.commands (imported when called), which takes the checkout's root and the
    parsed arguments by their names, and returns the exit code. With `packaged` it runs in the image of the report."""

    help: str
    call: str
    add_arguments: Callable[[argparse.ArgumentParser], None] = lambda _parser: None
    packaged: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one message with its remedy."""
    words = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    _Parser.typed = words
    options = vars(parser().parse_args(words))
    root = Path(os.environ.get("LAB_ROOT") or Path(__file__).resolve().parents[3])
    chosen = COMMANDS[options.pop("command")]
    module, _, function = chosen.call.partition(":")
    try:
        if chosen.packaged and INSIDE not in os.environ:
            take_over(root, int(os.environ.get("LAB_UID") or 1000))
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
        if error.errno == errno.ENOSPC and not error.filename:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            error.filename = "standard output"
        if not error.filename:
            raise
        _report(LabError(f"{error.filename}: {error.strerror}.", _remedy(error, root)))
        return EXIT_MACHINE
    finally:
        give_back(root)


class _Formatter(argparse.HelpFormatter):
    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, break_on_hyphens=False)


class _Parser(argparse.ArgumentParser):
    """Names the option, or the choice of an option, that was probably meant."""

    typed: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        options = {option for parser in (self, *_subparsers(self)) for option in parser._option_string_actions}
        if wrong := re.search(r"invalid choice: '(.*?)' (\(choose from .*\))", message):
            near = get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
            message = message.replace(wrong[2], "") if near else message
        else:
            strange = [word for word in self.typed if word.startswith("--") and word.partition("=")[0] not in options]
            near = [one for word in strange for one in get_close_matches(word, options, 1)]
        super().error(message.strip() + "".join(f" (did you mean {one}?)" for one in near))


def _subparsers(parser: argparse.ArgumentParser) -> Iterable[argparse.ArgumentParser]:
    actions = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return [command for action in actions for command in action.choices.values()]


def parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="./lab",
        description="Measure the response time of a robot controlled over MQTT.",
        epilog="Exit codes: 0 good; 1 invalid run or failed check; 2 wrong use; 3 the machine lacks something.",
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        description = f"{command.help[0].upper()}{command.help[1:]}."
        command.add_arguments(
            commands.add_parser(name, help=command.help, description=description, formatter_class=_Formatter)
        )
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
    "run": Command("run scenarios and print what they measured", "run:run", run_options.add_arguments),
    "study": Command(
        "repeat both sides of a claim in random order, until there are enough runs for a verdict",
        "study:study",
        run_options.add_study_arguments,
    ),
    "show": Command(
        "print all of a stored run",
        "show:show",
        _arguments(
            _one("run", "its id, folder or scenario (default: the newest)", nargs="?", default="", metavar="RUN"),
            _flag("--treatments", "only what was done to the system: wanted, found"),
        ),
    ),
    "list": Command("print what there is: scenarios, experiments, exercises", "list_all:list_all"),
    "inspect": Command(
        "print the running parts: image, address, ports, scheduling, limits, treatments",
        "inspect_parts:inspect",
        _arguments(
            _one("scenario", "if it does not run: the parts that it would start", nargs="?", metavar="SCENARIO"),
            _flag("--json", "one JSON document", dest="as_json"),
        ),
    ),
    "doctor": Command(
        "print what this machine can and cannot do",
        "doctor:doctor",
        _arguments(_flag("--json", "one JSON document", dest="as_json")),
    ),
    "setup": Command(
        "install, pull and build what a run needs",
        "setup:setup",
        _arguments(_one("scenarios", "also prepare images that only these need", nargs="*", metavar="SCENARIO")),
    ),
    "hosts": Command(
        "list, add or remove the hosts of a run: Docker contexts (docs/many-hosts.md)",
        "hosts:hosts",
        _arguments(
            _one("action", "what to do (default: list them)", nargs="?", choices=("add", "remove")),
            _one("name", "of the host", nargs="?", default="", metavar="NAME"),
            _one("endpoint", "where its engine listens", nargs="?", default="", metavar="ssh://…"),
            _one("--address", "its IPv4 address for other hosts (default: that of ssh)", default=""),
        ),
    ),
    "down": Command("stop and remove all containers; results stay", "setup:down"),
    "pair": Command(
        "write one file with all that a Raspberry Pi needs to reach this broker",
        "pair:pair",
        _arguments(
            _file("file", "the file to write, for its owner alone"),
            _one("--address", "this machine's address or name, as the Pi sees it", metavar="ADDRESS"),
            _one("--identity", "the part that uses it (default: bridge)", choices=IDENTITIES, default="bridge"),
        ),
    ),
    "new": Command(
        "make a scenario of your own; `new own NAME`: an application to measure",
        "new:command",
        _arguments(
            _one("name", "its name, e.g. scenario9", metavar="NAME"),
            _one("application", "behind `own`: name of your application", nargs="?", default="", metavar="APPLICATION"),
            _one("--from", "the one that it is like (scenario1)", dest="source", default="scenario1", metavar="NAME"),
        ),
    ),
    "watch": Command("show the running scenario live in this terminal", "watch:watch", packaged=True),
    "check": Command(
        "mark your runs and answers of an exercise",
        "check:check",
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
        "predict:predict",
        _arguments(
            _one("name", "a scenario, or an exercise of docs/exercises", metavar="NAME"),
            _one("answer", "the letter (default: it is asked for)", nargs="?", default="", metavar="LETTER"),
        ),
    ),
    "answers": Command(
        "print the questions of an exercise with their answers",
        "answers:answers",
        _arguments(_one("name", "a scenario, or an exercise of docs/exercises", metavar="NAME")),
    ),
    "hand-in": Command(
        "pack the runs that count and the filled form into NAME.zip",
        "check:hand_in",
        _arguments(
            _one("scenario", "a scenario, or an exercise of docs/exercises", metavar="SCENARIO"),
            _one("--name", "who hands it in, e.g. ada", required=True, metavar="NAME"),
        ),
        packaged=True,
    ),
    "report": Command(
        "compare your runs with the published figures: a page, tables, figures",
        "report:report",
        _arguments(
            _one("runs", "run ids or folders (default: the newest run of each scenario)", nargs="*", metavar="RUN"),
            _one("--out", "where to write it (default: report/)", type=Path, metavar="DIR"),
            _flag("--open", "then open the page in a browser", dest="show"),
        ),
        packaged=True,
    ),
    "bundle": Command(
        "write all images to one file, for a room without a network",
        "bundle:bundle",
        _arguments(
            _file("file", "the archive to write"),
            _one("scenarios", "what must run there (default: every scenario)", nargs="*", metavar="SCENARIO"),
            _flag("--students", "also archive this checkout, without answers and marking"),
        ),
    ),
    "load": Command(
        "make this machine ready from a file of ./lab bundle",
        "bundle:load",
        _arguments(
            _file("file", "the archive to read"),
            _one("--sha256", "what its maker read when it was made: any other file is refused", default=""),
        ),
    ),
    "test": Command(
        "run lint and tests",
        "test:test",
        _arguments(
            _flag("--unit", "only lint and the tests that need no engine"),
            _flag("--lint", "the linters alone, no test", dest="lint_alone"),
            _one("rest", "passed to pytest", nargs="*", metavar="-- PYTEST ARGUMENTS"),
        ),
    ),
}


if __name__ == "__main__":
    sys.exit(main())
