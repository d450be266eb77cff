"""The commands that repeat stored runs: a page names them beside its figures."""

from collections.abc import Iterable

from looplab.report.samples import Measured


def run_commands(measured: Iterable[Measured]) -> list[str]:
    """Return the command lines that made these runs, each once."""
    commands = (one.run.document.get("command_line") for m in measured for one in m.runs)
    return [command for command in dict.fromkeys(commands) if command]
