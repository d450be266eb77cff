"""The sample store: what one process writes another reads, and a file that is none is refused."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from looplab.run.samples import ABSENT, ANSWERED, COLUMNS, HEADER_BYTES, MAGIC, NOT_SENT, SampleStore, read_store


def test_a_fresh_store_knows_nothing() -> None:
    store = SampleStore(3)
    assert store["state"].tolist() == [NOT_SENT] * 3
    assert all(store[name].tolist() == [ABSENT] * 3 for name in COLUMNS if name != "state")


def test_columns_do_not_overlap() -> None:
    store = SampleStore(5)
    for number, name in enumerate(COLUMNS):
        for row in range(5):
            store[name][row] = 100 * number + row
    for number, name in enumerate(COLUMNS):
        assert store[name].tolist() == [100 * number + row for row in range(5)]


def test_another_process_sees_samples_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "samples.bin"
    store = SampleStore(2, path)
    reader = read_store(path)
    store["sent_ns"][1], store["state"][1] = 2**62, ANSWERED
    assert reader["sent_ns"].tolist() == [ABSENT, 2**62]
    program = "import sys, pathlib; from looplab.run.samples import read_store as r;"
    program += "print(r(pathlib.Path(sys.argv[1]))['sent_ns'].tolist())"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"[-1, {2**62}]"


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    SampleStore(1, tmp_path / "samples.bin")
    with pytest.raises(TypeError):
        read_store(tmp_path / "samples.bin")["state"][0] = ANSWERED  # type: ignore[index]


def test_a_new_run_starts_with_a_clean_file(tmp_path: Path) -> None:
    path = tmp_path / "samples.bin"
    SampleStore(4, path)["sent_ns"][3] = 7
    SampleStore(2, path)
    assert read_store(path)["sent_ns"].tolist() == [ABSENT, ABSENT]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        MAGIC,
        MAGIC + b"\1",
        bytes(2 * HEADER_BYTES),
        b"LOOPLAB0" + bytes(2 * HEADER_BYTES),
        MAGIC + struct.pack("<Q", 1000) + bytes(HEADER_BYTES),
    ],
    ids=["empty", "magic alone", "cut header", "zeros", "other version", "too short"],
)
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "samples.bin"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r".+"):
        read_store(path)
