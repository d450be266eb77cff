"""./lab: the one command of the lab."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_GOOD, EXIT_INVALID, EXIT_MACHINE, LabError
from looplab.lab.run_options import add_arguments, variables

IDENTITIES = ("bridge", "observer", "flood", "controller")


def main(arguments: Sequence[str] | None = None) -> int:
    """Dispatch one command; errors become one message with its remedy, and their exit code."""
    options = parser().parse_args(arguments)
    root = Path(os.environ.get("LAB_ROOT") or Path(__file__).resolve().parents[3])
    try:
        return _dispatch(root, options)
    except LabError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nlab: interrupted", file=sys.stderr)
        return EXIT_INVALID
    except BrokenPipeError:
        # Somebody closed the pipe (| head): no more to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_GOOD
    except OSError as error:
        if not error.filename:
            raise
        _tell(LabError(f"{error.filename}: {error.strerror}.", _remedy(error, root)))
        return EXIT_MACHINE


def _tell(error: LabError) -> None:
    from looplab.system.terminal import fitted

    print(fitted(f"lab: {error}", sys.stderr), file=sys.stderr)


def _remedy(error: OSError, root: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "Free some disk space, then run this again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"This folder must be yours to write: sudo chown -R $USER {root}"
    return "If it belongs to the lab, bring it back: git status names what is missing, git checkout FILE restores it."


def _dispatch(root: Path, options: argparse.Namespace) -> int:
    command = options.command
    if command == "run":
        from looplab.lab.commands.run import run

        return run(
            root, options.scenario, variables(root, options), as_json=options.json, allow_invalid=options.allow_invalid
        )
    if command == "setup":
        from looplab.lab.commands.setup import setup

        return setup(root)
    if command == "doctor":
        from looplab.lab.commands.doctor import doctor

        return doctor(root, as_json=options.json)
    if command == "down":
        from looplab.lab.checkout import Lab

        return Lab(root).down()
    if command == "pair":
        from looplab.lab.commands.pair import pair

        return pair(root, options.file, identity=options.identity, address=options.address, renew=options.renew)
    if command == "new":
        from looplab.lab.commands.new import new

        folder = new(root, options.name)
        print(f"{folder.relative_to(root)} is there: edit params.env and compose.yaml, then ./lab run {options.name}")
        return EXIT_GOOD
    if command == "report":
        from looplab.lab.commands.report import report

        return report(root, options.run, options.out)
    if command == "check":
        from looplab.lab.commands.check import check

        return check(root, options.exercise, options.run)
    if command == "bundle":
        from looplab.lab.commands.bundle import bundle, read_pythons

        return bundle(root, options.file, options.scenario, read_pythons(options.pythons))
    if command == "load":
        from looplab.lab.commands.bundle import load

        return load(root, options.file)
    if command == "watch":
        from looplab.lab.commands.watch import watch

        return watch()
    from looplab.lab.commands.test import test

    return test(root, options.unit, options.rest)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./lab",
        description="Measure the response time of a robot controlled over MQTT.",
        epilog="Exit codes: 0 good; 1 invalid run or failed check; 2 wrong use; 3 the machine lacks something.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run scenarios and show their tables")
    add_arguments(run)
    doctor = commands.add_parser("doctor", help="what this machine can and cannot do")
    doctor.add_argument("--json", action="store_true", help="one JSON document")
    commands.add_parser("setup", help="install, pull and build what a run needs")
    commands.add_parser("down", help="stop and remove all containers; results stay")
    pair = commands.add_parser("pair", help="one file with all that a Raspberry Pi needs to reach this broker")
    pair.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the file to write, for its owner alone")
    pair.add_argument("--address", metavar="ADDRESS", help="this machine's address or name, as the Pi sees it")
    pair.add_argument("--identity", choices=IDENTITIES, default="bridge", help="whose (default: bridge)")
    pair.add_argument("--renew", action="store_true", help="all certificates and passwords anew; pair every Pi again")
    new = commands.add_parser("new", help="a scenario of your own from the template")
    new.add_argument("name", metavar="NAME")
    commands.add_parser("watch", help="live view in this terminal")
    check = commands.add_parser("check", help="an exercise's bands, orderings and answers against runs: a score")
    check.add_argument("exercise", metavar="SCENARIO", help="a scenario, or an exercise of docs/exercises")
    check.add_argument("run", nargs="?", metavar="RUN", help="a run, or a folder with one folder for each student")
    report = commands.add_parser("report", help="published and measured side by side: a page, tables, figures")
    report.add_argument("run", nargs="*", metavar="RUN", help="run ids or folders; else the newest of each scenario")
    report.add_argument("--out", type=Path, metavar="DIR", help="where to write it (default: report/)")
    bundle = commands.add_parser("bundle", help="images and packages in one file, for a room without a network")
    bundle.add_argument("file", type=Path, metavar="FILE", help="the archive to write")
    bundle.add_argument("scenario", nargs="*", metavar="SCENARIO", help="what must run there; else every scenario")
    bundle.add_argument("--pythons", metavar="3.11,…", help="Python versions of the other machines (default: this one)")
    load = commands.add_parser("load", help="make this machine ready from such a file")
    load.add_argument("file", type=Path, metavar="FILE", help="the archive to read")
    test = commands.add_parser("test", help="lint and tests")
    test.add_argument("--unit", action="store_true", help="only what needs no engine")
    test.add_argument("rest", nargs="*", metavar="-- PYTEST ARGUMENTS", help="handed to pytest")
    return parser


if __name__ == "__main__":
    sys.exit(main())
