"""Explain to a person why there is no connection to the broker."""

import errno
import socket
import ssl
from typing import Any

_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
_REFUSALS = ("Not authorized", "Bad user name or password")
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT)
_PAIR = "pair this machine again (`./lab pair`)"


def describe_dialling(error: OSError) -> str:
    """Return why TCP or TLS could not be set up: no network, no TLS or another broker at that address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's identity is not the one this machine was paired with ({error.verify_message}); {_PAIR}"
    if isinstance(error, ssl.SSLError | ConnectionResetError | BrokenPipeError):
        return f"no TLS handshake ({error}): the broker is stopping, or this is not its TLS port"
    if isinstance(error, socket.gaierror):
        return f"this name has no address ({error.strerror}): the broker is not running, or there is no network yet"
    if isinstance(error, TimeoutError) or error.errno in _UNREACHABLE:
        return "no answer: the network is cut, that machine is off, or the address is wrong"
    if error.errno == errno.ECONNREFUSED:
        return f"{error.strerror}: that machine is on, but no run is active, or the port is wrong"
    return str(error)


def describe_refusal(reason: str, pairing: Any) -> str:
    """Return why the broker answered and refused this client."""
    if reason == "Unsupported protocol version":
        return f"refused: {reason}: this broker knows no MQTT 5; set MQTT_VERSION=3.1.1, or take another BROKER"
    if reason not in _REFUSALS:
        return f"refused: {reason}"
    who = f"wrong user or password for {pairing.user}" if pairing else "the broker requires a user and a password"
    return f"refused: {reason}; {who}: {_PAIR}"


def describe_loss(error: OSError | None, *, ended: bool) -> str:
    """Return why a connection that was there is not; `ended` if the socket reported it, else nothing came any more."""
    if not ended or (error is not None and error.errno in _UNREACHABLE):
        return "the network was cut: nothing came from the broker"
    return f"it was cut ({error.strerror})" if error else "it was closed by the broker, or by something between"


def describe_end(first: bytes) -> str:
    """Return why the connection ended before the broker answered; `first` are the first bytes that arrived."""
    if not first or first.startswith(_TLS_RECORDS):
        return f"closed without an answer; if this is the broker's TLS port, {_PAIR}"
    return "the program there speaks no MQTT"
