"""A run of middleware as a table of 80 columns."""

from typing import Any

from looplab.experiments.middleware.cells import placement
from looplab.run.table import milliseconds, number, whole

_HEAD = "devices   done/s  failed  unfin.  resp p50  resp p99   cpu/req    MiB"


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document), times in milliseconds, no line feed at its end."""
    lines = [
        "done/s: requests that succeeded in each second of the load",
        "resp: from due to answered, in ms; - if too many requests had no good answer",
        "cpu/req: processor ms of a request in the middleware; MiB: its memory at start",
    ]
    where = ""
    for cell in run["cells"]:
        place = placement(*(cell[name] for name in ("container", "balancer", "nodes", "cores")))
        if place != where:
            lines += ["", f"{place}:", _HEAD]
            where = place
        lines.append(_line(cell))
    return whole(run, [*lines, ""])


def _line(cell: dict[str, Any]) -> str:
    response, used_s, memory = cell["response_us"], cell["cpu_s_per_request"], cell["memory_bytes_at_start"]
    seconds = sum(one["seconds"] for one in cell["by_repetition"])
    done = number(cell.get("processed", cell["succeeded"]) / seconds, 8, 1)
    counts = f"{cell['devices']:>7} {done} {cell['failed']:>7} {cell['unfinished']:>7}"
    figures = [
        milliseconds(response["p50"]),
        milliseconds(response["p99"]),
        milliseconds(None if used_s is None else used_s * 1e6),
        f"{'-' if memory is None else round(memory / 2**20):>6}",
    ]
    marks = " !" if not cell["valid"] else " no memory" if cell["out_of_memory"] else ""
    return f"{counts} {' '.join(figures)}{marks}"
