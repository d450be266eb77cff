"""Frames of Java's `writeUTF`, as the published client sends them: two bytes of length, then text."""

_HEAD_BYTES = 2
_LONGEST = 65535


def framed(data: bytes) -> bytes:
    """Return `data`, at most 65535 bytes of ASCII, as one frame. Raises OSError for what fits in none."""
    if len(data) > _LONGEST or not data.isascii():
        raise OSError("these bytes are no text for a frame: set `FRAMES=raw`")
    return len(data).to_bytes(_HEAD_BYTES, "big") + data


class Frames:
    """Takes bytes as they come, in pieces of any size; one object a connection."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        """Return the text of all frames that are whole by now."""
        self._rest += data
        found = b""
        while len(self._rest) >= _HEAD_BYTES:
            end = _HEAD_BYTES + int.from_bytes(self._rest[:_HEAD_BYTES], "big")
            if len(self._rest) < end:
                break
            found += self._rest[_HEAD_BYTES:end]
            self._rest = self._rest[end:]
        return found
