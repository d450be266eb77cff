"""The network namespace of this process, which for a sidecar is another container's."""

from pathlib import Path


def devices() -> set[str]:
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}


def ways_out() -> set[str]:
    """Return those that lead out of it; the engine removes them when the container ends whose namespace it is."""
    return devices() - {"lo"}
