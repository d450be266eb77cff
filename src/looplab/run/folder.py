"""A run on disk: results/<run_id>/ with its CSV files and, once whole, run.json."""

import contextlib
import errno
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from looplab.errors import LabError, MachineError
from looplab.system.lock import Held, hold
from looplab.system.remedies import NO_SPACE, OTHER_USER, READ_ONLY

SCHEMA = 1
# A line of samples.csv and one of transport.csv are at most this long together.
BYTES_PER_SAMPLE = 300
# When a run began, in its id.
STAMP = "%Y%m%dT%H%M%SZ"
# The folders of runs that go on, in results/.
UNFINISHED = ".*.partial"
# The controller holds it in such a folder: if nobody does, the controller of that run was killed.
LOCK = ".lock"
SAMPLES = "samples.csv"


def age(run_id: str) -> tuple[bool, str]:
    """Return a sort key of run ids, the oldest first. Runs of a time to come, made by a wrong clock, come first."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return run_id < f"{tomorrow:{STAMP}}", run_id


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk: without it, a power failure may lose a file that was written and renamed."""
    # Shared folders of a virtual machine refuse it.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class RunFolder:
    """Writes one run under a temporary name; `finish` or `interrupt` gives it its own."""

    def __init__(self, results: Path, run_id: str = "") -> None:
        self.results = results
        self.run_id = run_id
        self.path = results / f".{run_id}.partial" if run_id else results

    @classmethod
    def begun(
        cls, results: Path, scenario: str, samples: int, headers: Mapping[str, str], started: datetime | None = None
    ) -> Self:
        """Return a new folder; `headers` are the first lines of its files by name.

        Raises LabError (exit code 3) if the disk does not take them.
        """
        folder = cls(results)
        with folder._storing():
            folder._check_space(samples)
            folder._make(scenario, started or datetime.now(UTC))
            for name, header in headers.items():
                folder._write(name, [header])
            sync_folder(folder.path)
            sync_folder(results)
        return folder

    @classmethod
    def abandoned(cls, results: Path) -> Iterator[Self]:
        """Yield the folders whose controllers were killed, each held. Raises OSError for one of another user."""
        for path in sorted(results.glob(UNFINISHED)):
            folder = cls(results, path.name.removeprefix(".").removesuffix(".partial"))
            # Another process may name it meanwhile.
            with contextlib.suppress(Held, FileNotFoundError):
                folder._lock = hold(path / LOCK, "recovery")
                if path.is_dir():
                    yield folder

    def append(self, name: str, lines: Iterable[str]) -> None:
        """Append lines to one of its files and have them on disk when this returns."""
        with self._storing(name):
            self._write(name, lines)

    def rewrite(self, name: str, header: str, lines: Iterable[str]) -> None:
        """Replace one of its files as a whole."""
        with self._storing(name):
            self._replace(name, itertools.chain([header], lines))

    def finish(self, run: dict[str, Any]) -> Path:
        """Store run.json and give the folder its final name, which is returned."""
        return self._close("run.json", run)

    def interrupt(self, why: str) -> int:
        """Keep what was measured: a folder without run.json, with interrupted.json saying why; nothing if nothing was.

        Return how many messages it holds.
        """
        if samples := count_samples(self.path):
            scenario = self.run_id.partition("-")[2]
            what = {"scenario": scenario, "interrupted_because": why, "run_id": self.run_id, "samples": samples}
            self._close("interrupted.json", what)
        else:
            shutil.rmtree(self.path, ignore_errors=True)
        return samples

    def _close(self, name: str, document: dict[str, Any]) -> Path:
        with self._storing():
            try:
                self._replace(name, [json.dumps(document, indent=1)])
            finally:
                (self.path / LOCK).unlink(missing_ok=True)
                # A full disk still lets a folder be renamed: its samples are found where runs are looked for.
                self.path = self.path.rename(self.results / self.run_id)
                sync_folder(self.results)
        return self.path

    def _make(self, scenario: str, started: datetime) -> None:
        """The folder; a run that started within the same second as another takes the next free one."""
        while True:
            self.run_id = f"{started:{STAMP}}-{scenario}"
            self.path = self.results / f".{self.run_id}.partial"
            if not (self.results / self.run_id).exists():
                # Held: another lab took the new folder for one that a killed controller left.
                with contextlib.suppress(FileExistsError, Held):
                    self.path.mkdir()
                    # A file system without locks only lets the lab's pages be rendered beside the run.
                    with contextlib.suppress(OSError):
                        self._lock = hold(self.path / LOCK, self.run_id)
                    return
            started += timedelta(seconds=1)

    def _replace(self, name: str, lines: Iterable[str]) -> None:
        """Whole or not at all: a disk that fills up leaves the file as it was."""
        fresh = self.path / f".{name}.new"
        try:
            fresh.unlink(missing_ok=True)
            self._write(fresh.name, lines)
            fresh.replace(self.path / name)
            sync_folder(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise

    def _write(self, name: str, lines: Iterable[str]) -> None:
        with (self.path / name).open("a", encoding="ascii", newline="\n") as file:
            file.writelines(line + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())

    def _check_space(self, samples: int) -> None:
        self.results.mkdir(parents=True, exist_ok=True)
        room = os.statvfs(self.results)
        needed = samples * BYTES_PER_SAMPLE + 1_000_000
        free = room.f_bavail * room.f_frsize
        if free < needed:
            raise OSError(errno.ENOSPC, f"no space left, {needed / 1e6:.1f} MB needed and {free / 1e6:.1f} MB free")

    @contextlib.contextmanager
    def _storing(self, name: str = "") -> Iterator[None]:
        """Raise LabError for an error of the disk, with the path as the host has it."""
        try:
            yield
        except OSError as error:
            raise _disk_error(Path("results") / (self.path / name).relative_to(self.results), error) from error


def count_samples(folder: Path) -> int:
    """Return how many messages the samples.csv of a run's folder holds."""
    with contextlib.suppress(OSError), (folder / SAMPLES).open("rb") as file:
        return max(0, sum(1 for _line in file) - 1)
    return 0


def _disk_error(path: Path, error: OSError) -> LabError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = NO_SPACE.do
    elif error.errno == errno.EROFS:
        remedy = READ_ONLY.do
    elif error.errno in (errno.EACCES, errno.EPERM):
        remedy = f"This is user {os.getuid()}. {OTHER_USER.do}"
    else:
        remedy = "See that results/ is a folder on a disk that can be written."
    return MachineError(f"Cannot store the run in {path}: {error.strerror}.", remedy)
