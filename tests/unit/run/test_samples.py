"""The sample store: what one process writes another reads, and a file that is none is refused."""

import pytest

from looplab.run.samples import HEADER_BYTES, MAGIC, store_columns


@pytest.mark.parametrize(
    "header",
    [b"", MAGIC, MAGIC + b"\1", bytes(HEADER_BYTES), b"LOOPLAB0" + bytes(HEADER_BYTES), MAGIC + bytes(HEADER_BYTES)],
    ids=["empty", "magic alone", "cut header", "zeros", "other version", "no columns"],
)
def test_a_header_of_no_store_is_refused(header: bytes) -> None:
    with pytest.raises(ValueError, match="not a sample store"):
        store_columns(header)
