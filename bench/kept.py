#!/usr/bin/env python3
"""Raw data of the benchmarks: rows of a program as compressed JSON lines, and runs of ./lab, compressed.

python3 bench/kept.py FOLDER results/RUN… [--columns sent_ns,overhead_us]      keeps run.json and samples.csv of each
"""

import argparse
import csv
import io
import json
import lzma
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

DATA = Path(__file__).with_name("data")


def options(text: str, theme: str) -> argparse.ArgumentParser:
    """Return the command line that every benchmark has; `theme` is its folder in bench/data."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, default=DATA / theme, metavar="FOLDER", help=f"bench/data/{theme}")
    return parser


def keep(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write `rows` to `file`, a .jsonl.xz, in place of what it held."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(file, "wt", preset=9) as lines:
        lines.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def kept(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file that `keep` wrote."""
    with lzma.open(file, "rt") as lines:
        return [json.loads(line) for line in lines]


def keep_run(folder: Path, run: Path, columns: Sequence[str] = ()) -> None:
    """Compress a run into a folder of its name in `folder`; of the samples all columns, or these."""
    place = folder / run.name
    place.mkdir(parents=True, exist_ok=True)
    text = (run / "samples.csv").read_text()
    if columns:
        trimmed = io.StringIO()
        writer = csv.DictWriter(trimmed, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(csv.DictReader(io.StringIO(text)))
        text = trimmed.getvalue()
    (place / "samples.csv.xz").write_bytes(lzma.compress(text.encode(), preset=9))
    (place / "run.json.xz").write_bytes(lzma.compress((run / "run.json").read_bytes(), preset=9))


def runs(folder: Path) -> Iterator[tuple[dict[str, Any], list[dict[str, str]]]]:
    """Yield document and samples of each run that is kept in `folder`, oldest first."""
    for path in sorted(folder.glob("*/run.json.xz")):
        samples = path.with_name("samples.csv.xz")
        yield document(path), table(samples) if samples.exists() else []


def document(path: Path) -> Any:
    with lzma.open(path, "rt") as file:
        return json.load(file)


def table(path: Path) -> list[dict[str, str]]:
    with lzma.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def show(theme: str, folder: Path) -> int:
    """Print the figures of `theme` from `folder`; return the exit code."""
    return subprocess.run([sys.executable, str(DATA.with_name("data.py")), theme, str(folder)], check=False).returncode


def overheads_ms(samples: Iterable[Mapping[str, str]], qos: str = "0") -> list[float]:
    """Return O of each answered message of a run of the loop at one QoS."""
    mine = (row for row in samples if row["outcome"] == "answered" and row["qos"] == qos)
    return [float(row["overhead_us"]) / 1000 for row in mine]


def share(values: Sequence[float], place: float) -> float:
    """Return a quantile, interpolated between neighbours as the lab's own are."""
    ascending = sorted(values)
    at = place * (len(ascending) - 1)
    low = int(at)
    return ascending[low] + (at - low) * (ascending[min(low + 1, len(ascending) - 1)] - ascending[low])


def middle(values: Sequence[float], digits: int = 2) -> str:
    """Return the median of the runs' values and their range."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def us(values: Sequence[float]) -> str:
    """Return the median, and where the middle 90 % of values lie."""
    cuts = quantiles(values, n=20)
    return f"{median(values):.0f} µs ({cuts[0]:.0f} to {cuts[-1]:.0f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--columns", default="")
    given = parser.parse_args()
    for run in given.runs:
        keep_run(given.folder, run, [name for name in given.columns.split(",") if name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
