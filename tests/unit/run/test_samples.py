"""The sample store: what one process writes another reads, and a file that is none is refused."""

from pathlib import Path

import pytest

from looplab.run.samples import ABSENT, ANSWERED, COLUMNS, HEADER_BYTES, MAGIC, SampleStore, store_columns


def read(path: Path, name: str) -> list[int]:
    """A column as another process reads it from the file."""
    content = path.read_bytes()
    count, columns = store_columns(content[:HEADER_BYTES])
    start = HEADER_BYTES + 8 * count * columns.index(name)
    return memoryview(content[start : start + 8 * count]).cast("q").tolist()


def test_another_process_sees_samples_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "samples.bin"
    store = SampleStore(2, path, ("robot_ns",))
    store["sent_ns"][1], store["robot_ns"][0], store["state"][1] = 2**62, 5, ANSWERED
    assert store_columns(path.read_bytes()) == (2, (*COLUMNS, "robot_ns"))
    assert (read(path, "sent_ns"), read(path, "robot_ns")) == ([ABSENT, 2**62], [5, ABSENT])


def test_a_new_run_starts_with_a_clean_file(tmp_path: Path) -> None:
    path = tmp_path / "samples.bin"
    SampleStore(4, path)["sent_ns"][3] = 7
    SampleStore(2, path)
    assert read(path, "sent_ns") == [ABSENT, ABSENT]


@pytest.mark.parametrize(
    "header",
    [b"", MAGIC, MAGIC + b"\1", bytes(HEADER_BYTES), b"LOOPLAB0" + bytes(HEADER_BYTES), MAGIC + bytes(HEADER_BYTES)],
    ids=["empty", "magic alone", "cut header", "zeros", "other version", "no columns"],
)
def test_a_header_of_no_store_is_refused(header: bytes) -> None:
    with pytest.raises(ValueError, match="not a sample store"):
        store_columns(header)
