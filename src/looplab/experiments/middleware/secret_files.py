"""The passwords of the middleware's parts, as Compose mounts them."""

from pathlib import Path

from looplab.errors import MachineError

FOLDER = Path("/run/secrets")


def read_secrets() -> dict[str, str]:
    """Return each mounted secret by its name. Raises LabError (exit code 3) if there is none."""
    secrets = {path.name: path.read_text().strip() for path in sorted(FOLDER.glob("*"))}
    if not secrets:
        raise MachineError(f"No secret is mounted in {FOLDER}.", "Run ./lab setup middleware.")
    return secrets
