"""A run of asip or asip-throughput as a table of 80 columns."""

from typing import Any

from looplab.run.table import invalid, milliseconds, number, whole

_KEY = f"{'client':<8}{'way':<7}{'place':<7}"
_LATENCY = f"{_KEY}{'tests':>6} {'lost':>5} {'mean':>9} {'p95':>9} {'edge':>9} {'wire':>9}"
_THROUGHPUT = f"{_KEY}{'steps':>6} {'tracked':>9} {'missed':>9} {'limit':>9} {'share':>7}"


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document), no line feed at its end."""
    by_frequency = all("tracked_hz" in cell for cell in run["cells"])
    about = (
        "tracked: highest frequency copied; missed: lowest that was not; in Hz"
        if by_frequency
        else "mean, p95: set to notice, by the client; edge: mean, by the oscilloscope; in ms"
    )
    lines = [
        about,
        "",
        _THROUGHPUT if by_frequency else _LATENCY,
        *(_step_line(cell) if by_frequency else _line(cell) for cell in run["cells"]),
        *(_nothing_tracked(cell) for cell in run["cells"] if by_frequency and _followed_nothing(cell)),
        "",
    ]
    return whole(run, lines)


def _line(cell: dict[str, Any]) -> str:
    latency = cell["latency_us"]
    figures = [milliseconds(latency["avg"]), milliseconds(latency["p95"])]
    figures += [milliseconds(cell["edge_latency_us"]["avg"]), milliseconds(cell["wire_us"])]
    return f"{_key(cell)}{cell['tests']:>6} {cell['lost']:>5} {' '.join(figures)}{invalid(cell)}"


def _step_line(cell: dict[str, Any]) -> str:
    tracked, wire = cell["tracked_hz"], cell["wire_hz"]
    share = tracked / wire if tracked is not None and wire else None
    figures = [number(cell[name], 9, 1) for name in ("tracked_hz", "untracked_hz", "wire_hz")]
    return f"{_key(cell)}{cell['tests']:>6} {' '.join(figures)} {number(share, 7, 2)}{invalid(cell)}"


def _followed_nothing(cell: dict[str, Any]) -> bool:
    return cell["valid"] and cell["tracked_hz"] is None and cell["untracked_hz"] is not None


def _nothing_tracked(cell: dict[str, Any]) -> str:
    """Return a sentence for a cell whose lowest frequency was too high."""
    lowest = f"{cell['untracked_hz']:.1f} Hz"
    return f"{cell['language']}, {cell['transport']}: not even {lowest} was copied whole; set `LOW_HZ` below it."


def _key(cell: dict[str, Any]) -> str:
    return f"{cell['language']:<8}{cell['transport']:<7}{cell['placement']:<7}"
