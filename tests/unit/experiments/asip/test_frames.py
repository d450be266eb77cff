"""Frames of writeUTF: whole texts out of pieces of any size."""

import random

import pytest

from looplab.errors import UsageError
from looplab.experiments.asip.frames import Frames, framed
from looplab.experiments.asip.parameters import read_parameters

# What `new DataOutputStream(bytes).writeUTF("I,d,13,1\n")` writes.
WRITTEN_BY_JAVA = bytes.fromhex("0009492c642c31332c310a")


def test_a_frame_is_the_one_that_java_writes() -> None:
    assert framed(b"I,d,13,1\n") == WRITTEN_BY_JAVA


def test_frames_cut_anywhere_give_their_text() -> None:
    chance = random.Random(16)
    texts = [bytes(chance.randrange(128) for _ in range(chance.randrange(300))) for _ in range(200)]
    stream, frames, found = b"".join(map(framed, texts)), Frames(), b""
    while stream:
        size = chance.randrange(1, 40)
        found += frames.take(stream[:size])
        stream = stream[size:]
    assert found == b"".join(texts)


@pytest.mark.parametrize("data", [b"\xf9\x02\x05", b"a" * 65536])
def test_what_is_no_text_of_a_frame_is_refused(data: bytes) -> None:
    with pytest.raises(OSError, match="FRAMES=raw"):
        framed(data)


@pytest.mark.parametrize("other", [{"READ": "byte"}])
def test_frames_with_what_they_cannot_carry_are_wrong_use(other: dict[str, str]) -> None:
    assert read_parameters({"FRAMES": "utf"}).frames == "utf"
    with pytest.raises(UsageError):
        read_parameters({"FRAMES": "utf", **other})
