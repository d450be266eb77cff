"""Asks a broker whether it takes a client's messages: MQTT 3.1.1 confirms also those that the broker throws away."""

import contextlib

from looplab.errors import LabError
from looplab.mqtt.dial import CONNECT_TIMEOUT_S, Target
from looplab.mqtt.pairing import Pairing
from looplab.mqtt.stamped_socket import StampedSocket

# Reason codes of MQTT 5.
_SUCCESS, _NOT_AUTHORISED = 0x00, 0x87
_KEEPALIVE = b"\x00\x05"
_NO_PROPERTIES = b"\x00"


def is_refused(target: Target, topic: str, client_id: str) -> bool:
    """Return whether the broker refuses messages on `topic` from this user; False if it cannot be asked.

    Delivers nothing: it begins a message of QoS 2 over MQTT 5, reads the broker's first answer and leaves.
    """
    try:
        sock, pairing = target.dial()
        with contextlib.closing(sock):
            sock.settimeout(CONNECT_TIMEOUT_S)
            if _ask(sock, _connect(client_id, pairing))[3] != _SUCCESS:
                return False
            message = _text(topic) + b"\x00\x01" + _NO_PROPERTIES
            answer = _ask(sock, _packet(0x34, message))
            return answer[4:5] == bytes([_NOT_AUTHORISED])
    except (OSError, LookupError, LabError):
        return False


def _ask(sock: StampedSocket, packet: bytes) -> bytes:
    """Send a packet and return the next one that arrives. Raises OSError if none does."""
    sock.send(packet)
    while not (packets := sock.receive()):
        if sock.ended:
            raise ConnectionError("no answer")
    return packets[0]


def _connect(client_id: str, pairing: Pairing | None) -> bytes:
    flags, names = 0x02, [client_id]
    if pairing is not None:
        flags, names = 0xC2, [client_id, pairing.user, pairing.password]
    head = _text("MQTT") + bytes((5, flags)) + _KEEPALIVE + _NO_PROPERTIES
    return _packet(0x10, head + b"".join(map(_text, names)))


def _text(words: str) -> bytes:
    return len(words.encode()).to_bytes(2, "big") + words.encode()


def _packet(kind: int, body: bytes) -> bytes:
    length, size = bytearray(), len(body)
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes((kind, *length)) + body
