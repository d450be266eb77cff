"""The lab's own authority and the broker's certificate, made and read by the program openssl."""

import ipaddress
import secrets
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from looplab.errors import MachineError
from looplab.lab.programs import Outcome, call

# The authority outlives many certificates of the broker: a Pi trusts it, not them.
AUTHORITY_DAYS = 3650
# About a school year and a month; what browsers take at most for a server.
SERVER_DAYS = 397
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make_authority() -> tuple[str, str]:
    """Make an authority; return its private key and its certificate (PEM)."""
    with tempfile.TemporaryDirectory(prefix="looplab-") as place:
        folder = Path(place)
        # A random name: with an equal one an unknown authority would look like a forged signature to a client.
        subject = f"/O=Looplab/CN=Looplab authority {secrets.token_hex(4)}"
        _openssl(
            *("req", "-x509", *_NEW_KEY, "-days", str(AUTHORITY_DAYS), "-subj", subject),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", str(folder / "key"), "-out", str(folder / "crt")),
        )
        return (folder / "key").read_text(), (folder / "crt").read_text()


def make_server(authority: tuple[str, str], names: Sequence[str], days: int = SERVER_DAYS) -> tuple[str, str]:
    """Return private key and certificate (PEM) of a server with these names, signed by `authority`."""
    extensions = (
        f"subjectAltName={','.join(_alternative(name) for name in names)}\n"
        "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
    )
    with tempfile.TemporaryDirectory(prefix="looplab-") as place:
        folder = Path(place)
        for name, text in (("ca.key", authority[0]), ("ca.crt", authority[1]), ("extensions", extensions)):
            (folder / name).write_text(text)
        key, request, certificate = (str(folder / name) for name in ("key", "request", "crt"))
        _openssl("req", "-new", *_NEW_KEY, "-subj", "/O=Looplab/CN=Looplab broker", "-keyout", key, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key")),
            *("-set_serial", f"0x{secrets.token_hex(16)}", "-days", str(days)),
            *("-extfile", str(folder / "extensions"), "-out", certificate),
        )
        return Path(key).read_text(), Path(certificate).read_text()


def expiry(certificate: Path) -> datetime:
    """Return the end of a certificate (UTC)."""
    said = _openssl("x509", "-noout", "-enddate", "-in", str(certificate)).stdout
    end = datetime.strptime(said.strip().removeprefix("notAfter="), "%b %d %H:%M:%S %Y GMT")
    return end.replace(tzinfo=UTC)


def names_of(certificate: Path) -> list[str]:
    said = _openssl("x509", "-noout", "-ext", "subjectAltName", "-in", str(certificate)).stdout
    entries = [entry.strip() for line in said.splitlines()[1:] for entry in line.split(",")]
    names = [entry.removeprefix("DNS:") for entry in entries if entry.startswith("DNS:")]
    addresses = [entry.removeprefix("IP Address:") for entry in entries if entry.startswith("IP Address:")]
    return [*names, *(str(ipaddress.ip_address(address)) for address in addresses)]


def _alternative(name: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"


def _openssl(*words: str) -> Outcome:
    done = call(["openssl", *words])
    if not done.found:
        raise MachineError("The program openssl is not installed.", "sudo apt-get install openssl")
    if not done.good:
        raise MachineError(f"openssl {words[0]} failed: {done.said}", "It needs openssl 1.1.1 or later.")
    return done
