#!/usr/bin/env python3
"""The raw data of the benchmarks: each bench/data/*.tar.xz has a folder a theme, with whole runs or a program's rows.

python3 bench/kept.py THEME results/RUN…     keep these runs, and the studies that they are of, in place of the theme's
tar -xf bench/data/loop.tar.xz -C /tmp && ./lab report /tmp/claims/2*     report on the runs of a theme
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from looplab.run import accounting

DATA = Path(__file__).with_name("data")
# What the lab's report code reads, of any experiment.
RUN_FILES = ("run.json", "*.csv")


def archives() -> list[Path]:
    return sorted(DATA.glob("*.tar.xz"))


def unpack(folder: Path, archive: Path | None = None) -> None:
    """Unpack one archive, or all of bench/data, into `folder`, which then has a folder a theme."""
    for path in [archive] if archive else archives():
        with tarfile.open(path) as packed:
            packed.extractall(folder)


def pack(folder: Path, archive: Path) -> None:
    """Pack all files of `folder` in place of `archive`; the same files give the same bytes."""
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                packed.addfile(entry, file)


def archive_of(theme: str) -> Path:
    """Return the archive that has a theme, or the path of a new one."""
    for path in archives():
        with tarfile.open(path) as packed:
            if any(name.startswith(f"{theme}/") for name in packed.getnames()):
                return path
    return DATA / f"{theme}.tar.xz"


@contextmanager
def keeping(theme: str, folder: Path | None = None) -> Iterator[Path]:
    """Yield a folder for raw data; then print its figures, and put it in place of the theme's in bench/data.

    With a `folder` of the caller's, the data stay there.
    """
    with TemporaryDirectory() as name:
        place = folder or Path(name, theme)
        archive = archive_of(theme)
        if not folder and archive.exists():
            unpack(Path(name), archive)
            shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True, exist_ok=True)
        yield place
        subprocess.run([sys.executable, str(Path(__file__).with_name("data.py")), theme, str(place)], check=True)
        if not folder:
            pack(Path(name), archive)


def options(text: str) -> argparse.ArgumentParser:
    """Return the command line that every benchmark has."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the raw data there, not in bench/data")
    return parser


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON line a row."""
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def read_rows(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def keep_run(folder: Path, run: Path) -> None:
    """Copy what the report code reads of a run into a folder of its name in `folder`."""
    place = folder / run.name
    place.mkdir()
    for pattern in RUN_FILES:
        for file in run.glob(pattern):
            shutil.copyfile(file, place / file.name)


def runs(folder: Path) -> Iterator[tuple[dict[str, Any], list[dict[str, str]]]]:
    """Yield run.json and samples.csv of each run in `folder`, oldest first."""
    for path in sorted(folder.glob("*/run.json")):
        yield json.loads(path.read_text(encoding="utf-8")), read_csv(path.with_name("samples.csv"))


def overheads_ms(samples: Iterable[Mapping[str, str]], qos: str = "0") -> list[float]:
    """Return O of each answered message of a run of the loop at one QoS."""
    mine = (row for row in samples if row["outcome"] == "answered" and row["qos"] == qos)
    return [float(row["overhead_us"]) / 1000 for row in mine]


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile, interpolated between neighbours as the lab's own are (type 7)."""
    return accounting.quantile(sorted(values), share)


def middle(values: Sequence[float], digits: int = 2) -> str:
    """Return the median of the runs' values and their range."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def us(values: Sequence[float]) -> str:
    """Return the median, and where the middle 90 % of values lie."""
    return f"{median(values):.0f} µs ({quantile(values, 0.05):.0f} to {quantile(values, 0.95):.0f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("theme")
    parser.add_argument("runs", type=Path, nargs="+")
    given = parser.parse_args()
    with keeping(given.theme) as folder:
        for run in given.runs:
            keep_run(folder, run)
        for study in {file for run in given.runs for file in run.resolve().parent.glob("*.study.json")}:
            if any(run.resolve().name in study.read_text(encoding="utf-8") for run in given.runs):
                shutil.copyfile(study, folder / study.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
