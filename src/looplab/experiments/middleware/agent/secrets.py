"""Secrets of one lab: made once, in a volume that only its parts mount; the balancer's key and certificate beside."""

import json
import secrets
import subprocess
from pathlib import Path

FILE, KEY, CERTIFICATE = "secrets.json", "balancer.key", "balancer.pem"
NAMES = ("postgres", "spicedb", "tokens", "admin")
DAYS = 30


def make(folder: Path) -> None:
    """Make what is missing in `folder`."""
    if (folder / FILE).exists():
        return
    certificate(folder, DAYS)
    fresh = folder / f"{FILE}.new"
    fresh.write_text(json.dumps({name: secrets.token_hex(16) for name in NAMES}))
    fresh.replace(folder / FILE)


def certificate(folder: Path, days: int) -> None:
    """Make a key and a certificate for the name `balancer`, valid for `days`."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(folder / KEY), "-out", str(folder / CERTIFICATE), "-days", str(days)),
            *("-subj", "/CN=balancer", "-addext", "subjectAltName=DNS:balancer,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
