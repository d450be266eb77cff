"""Read env files as Docker Compose reads them, and the values in them: standard library only."""

import re
from collections.abc import Mapping
from pathlib import Path

from looplab.errors import UsageError

_LINE = re.compile(r"""\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(?:"([^"]*)".*|'([^']*)'.*|(.*?)(?:\s+#.*)?)\s*""")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::?-((?:[^{}]|\$\{[^{}]*\})*))?\}")


def read_env(path: Path) -> dict[str, str]:
    """Return the `NAME=value` lines of an env file, without quotes and comments.

    LabError (exit code 2) if the file is not UTF-8 text or a line sets nothing; raises FileNotFoundError.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        number = path.read_bytes()[: error.start].count(b"\n") + 1
        wrong = f"{path}, line {number}: a character that is not UTF-8."
        raise UsageError(wrong, "Save the file as UTF-8.") from error
    settings = {}
    for number, line in enumerate(text.splitlines(), 1):
        if setting := _LINE.fullmatch(line):
            settings[setting[1]] = setting[2] or setting[3] or setting[4] or ""
        elif line.strip() and not line.strip().startswith("#"):
            wrong = f"{path}, line {number}: {line.strip()!r} sets no variable."
            raise UsageError(wrong, "Write NAME=value, or # before a comment.")
    return settings


def expand(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` with each `${NAME:-default}` replaced, as Compose does; a default may hold another one."""

    def value(match: re.Match[str]) -> str:
        return environment.get(match[1], "") or _REFERENCE.sub(value, match[2] or "")

    return {name: _REFERENCE.sub(value, text) for name, text in settings.items()}


def read_port(settings: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return the port that variable `name` holds, `default` if it is empty; LabError (exit code 2) if it is no port."""
    text = settings.get(name, "").strip()
    if not text and default is not None:
        return default
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        remedy = f"Set {name} to a number from 1 to 65535, in .env or the shell."
        raise UsageError(f"`{name}={text}` is not a port.", remedy)
    return int(text)
