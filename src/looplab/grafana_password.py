"""Makes Grafana's administrator password once, in a file that only Grafana's container mounts."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

# Grafana's image runs as user 472 in group 0: readable for the group, writable for nobody.
MODE = 0o440


def ensure(path: Path) -> bool:
    """Write a fresh random password to `path` unless one is there; tells whether it did."""
    if path.exists() and path.stat().st_size:
        return False
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(24))
    fresh.replace(path)
    return True


def main() -> int:
    """`python -m looplab.grafana_password FILE`"""
    ensure(Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
