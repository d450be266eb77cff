"""Why there is no connection to the broker, in words for the person who must mend it."""

from __future__ import annotations

import errno
import os
import socket
import ssl

from looplab.mqtt.pairing import Pairing
from looplab.mqtt.stamped_socket import StampedSocket

# X509_V_ERR_… of OpenSSL's x509_vfy.h.
_NOT_YET_VALID = 9
_EXPIRED = 10
_OTHER_NAME = (62, 64)
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
_REFUSALS = ("Not authorized", "Bad user name or password")
PAIR = "./lab pair"
_NO_WAY = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT)


def connecting(error: OSError) -> str:
    """For what went wrong before MQTT began: no way there, no TLS there, or the wrong broker there."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate(error)
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return f"closed before TLS began: the broker is just going, or is this the port without TLS? ({error})"
    if isinstance(error, ssl.SSLError):
        return f"no TLS handshake: {error.reason or error}; is this the broker's TLS port?"
    return _way(error)


def _way(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        why = "the broker is not running, there is no network yet, or give an address instead"
        return f"nobody knows that name ({error.strerror}); {why}"
    if isinstance(error, TimeoutError) or error.errno in _NO_WAY:
        return "no answer: the network is cut, that machine is off, or the address is wrong"
    if error.errno == errno.ECONNREFUSED:
        return f"{os.strerror(errno.ECONNREFUSED)}: that machine is there, but no run is going on, or the port is wrong"
    return str(error)


def _certificate(error: ssl.SSLCertVerificationError) -> str:
    code, said = error.verify_code, error.verify_message
    if code == _EXPIRED:
        return f"the broker's certificate has expired ({said}); ./lab setup renews it there; is this clock right?"
    if code == _NOT_YET_VALID:
        return f"the broker's certificate is not valid yet ({said}); is this machine's clock right?"
    if code in _OTHER_NAME:
        return f"the broker's certificate is for another name ({said}); {PAIR} --address ADDRESS makes one for this"
    return (
        f"the broker's identity is not the one this machine was paired with ({said}); was the lab's renewed, or is "
        f"this another broker? Pair again ({PAIR})"
    )


def refused(reason: str, pairing: Pairing | None) -> str:
    """For a broker that answered, and said no."""
    if reason not in _REFUSALS:
        return f"refused: {reason}"
    if pairing is None:
        return f"refused: {reason}; it wants a user and a password: pair this machine ({PAIR})"
    return f"refused: {reason}; wrong user or password for {pairing.user}: pair again ({PAIR})"


def ended(sock: StampedSocket, pairing: Pairing | None) -> str:
    """For a connection that ended before the broker said yes or no."""
    if pairing is None and sock.first.startswith(_TLS_RECORDS):
        return f"this is a TLS port; pair this machine ({PAIR})"
    if sock.first:
        return "what is there speaks no MQTT"
    if pairing is None:
        return f"closed without a word; is this the broker's TLS port? Then pair this machine ({PAIR})"
    return "closed without a word; is this an MQTT broker?"
