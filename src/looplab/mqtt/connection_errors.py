"""Explain to a person why there is no connection to the broker; docs/problems.md lists these messages."""

import errno
import os
import socket
import ssl
from typing import Any

_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
_REFUSALS = ("Not authorized", "Bad user name or password")
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT)


def describe_dialling(error: OSError) -> str:
    """Return why TCP or TLS could not be set up: no network, no TLS or another broker at that address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the broker's identity is not the one this machine was paired with ({error.verify_message}); was it made "
            "again, or is this another broker? Pair again (`./lab pair`)"
        )
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return f"closed before TLS began: the broker is stopping, or is this the port without TLS? ({error})"
    if isinstance(error, ssl.SSLError):
        return f"no TLS handshake: {error.reason or error}; is this the broker's TLS port?"
    if isinstance(error, socket.gaierror):
        return (
            f"this name has no address ({error.strerror}): the broker is not running, there is no network yet, or "
            "give an address instead"
        )
    if isinstance(error, TimeoutError) or error.errno in _UNREACHABLE:
        return "no answer: the network is cut, that machine is off, or the address is wrong"
    if error.errno == errno.ECONNREFUSED:
        return f"{os.strerror(errno.ECONNREFUSED)}: that machine is on, but no run is active, or the port is wrong"
    return str(error)


def describe_refusal(reason: str, pairing: Any) -> str:
    """Return why the broker answered and refused this client."""
    if reason == "Unsupported protocol version":
        return f"refused: {reason}: this broker knows no MQTT 5; set MQTT_VERSION=3.1.1, or take another BROKER"
    if reason not in _REFUSALS:
        return f"refused: {reason}"
    if pairing is None:
        return f"refused: {reason}; the broker requires a user and a password: pair this machine (`./lab pair`)"
    return f"refused: {reason}; wrong user or password for {pairing.user}: pair again (`./lab pair`)"


def describe_loss(error: OSError | None, *, ended: bool) -> str:
    """Return why a connection that was there is not; `ended` if the socket reported it, else nothing came any more."""
    if not ended or (error is not None and error.errno in _UNREACHABLE):
        return "the network was cut: nothing came from the broker"
    if error is not None:
        return f"it was cut ({error.strerror})"
    return "it was closed by the broker, which stopped or gave its name to another client, or by something between"


def describe_end(first: bytes, pairing: Any) -> str:
    """Return why the connection ended before the broker answered; `first` are the first bytes that arrived."""
    if pairing is None and first.startswith(_TLS_RECORDS):
        return "this is a TLS port; pair this machine (`./lab pair`)"
    if first:
        return "the program there speaks no MQTT"
    if pairing is None:
        return "closed without an answer; is this the broker's TLS port? Then pair this machine (`./lab pair`)"
    return "closed without an answer; is this an MQTT broker?"
