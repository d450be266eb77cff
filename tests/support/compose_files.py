"""Compose files as Compose puts them together, without Compose: include lists, files that change others, anchors."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from looplab.system.env_files import expand, read_env
from support.places import ROOT

Service = dict[str, Any]
# These are replaced by a later file; other lists add up.
REPLACED = ("command", "entrypoint", "test")
# The control loop's list, which FIDELITY gives variables.
LIST = "compose/control-loop.yaml"
RESET = object()


class LOADER(yaml.CSafeLoader):
    """Reads `!override`, too: the value that follows replaces the one of the files before; `!reset` removes it."""


class Override(list[Any]):
    pass


def _override(loader: LOADER, node: yaml.Node) -> object:
    if isinstance(node, yaml.SequenceNode):
        return Override(loader.construct_sequence(node, deep=True))
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


LOADER.add_constructor("!override", _override)
LOADER.add_constructor("!reset", lambda _loader, _node: RESET)


def started_conf(
    folder: Path, *, plugins: str = "/usr/lib", secrets: str = "/mosquitto/secrets", **variables: str
) -> str:
    """Return the configuration that compose/mosquitto/start writes into `folder`. Raises ValueError with its exit code.

    `secrets` stands for the volume's folder, `plugins` for that of mosquitto's own.
    """
    script = (ROOT / "compose/mosquitto/start").read_text()
    # In this order: the checkout may itself be below /tmp.
    for path, here in (
        ("/tmp/", f"{folder}/"),
        ("/mosquitto/lab/", f"{ROOT}/compose/mosquitto/"),
        ("/mosquitto/secrets", secrets),
        ("=/usr/lib", f"={plugins}"),
        ("exec /usr/sbin/mosquitto", "exec true"),
    ):
        assert path in script
        script = script.replace(path, here)
    environment = {"PATH": "/usr/bin:/bin", **variables}
    if code := subprocess.run(["sh", "-c", script], env=environment, check=False).returncode:
        raise ValueError(code)
    return (folder / f"{variables.get('PORTS', '1883')}.conf").read_text().replace("/mosquitto/secrets", secrets)


def files_of(root: Path, variables: Mapping[str, str], but: str = "-") -> list[Path]:
    """Return compose.yaml and every file that it includes, in order, except those of a folder `but`."""
    included = [path for group in _groups(root, variables) for path in group if but not in path.parts]
    return [root / "compose.yaml", root / LIST, *dict.fromkeys(included)]


def merged(root: Path, variables: Mapping[str, str], name: str = "compose.yaml") -> dict[str, Service]:
    """Return every service that `name` includes; a file changes the services of those before it in the same list."""
    found: dict[str, Service] = {}
    for group in _groups(root, variables, name):
        services: dict[str, Service] = {}
        for path in group:
            for name, service in (_parsed(path).get("services") or {}).items():
                services[name] = _over(services.get(name, {}), dict(service))
        assert not set(services) & set(found), set(services) & set(found)
        found |= services
    return found


@cache
def _loaded(text: str) -> Any:
    return yaml.load(text, Loader=LOADER)


def _parsed(path: Path) -> Any:
    """Return what a file holds, to be read alone: each text is parsed once."""
    return _loaded(path.read_text(encoding="utf-8"))


def _groups(root: Path, variables: Mapping[str, str], name: str = "compose.yaml") -> Iterator[list[Path]]:
    for entry in _parsed(root / name)["include"]:
        paths = entry["path"] if isinstance(entry, dict) else [entry]
        if paths == LIST:
            by_fidelity = read_env(root / expand({"file": entry["env_file"]}, variables)["file"])
            (inner,) = _parsed(root / LIST)["include"]
            given = {key: value for key, value in variables.items() if value}
            yield [root / _path(path, {**by_fidelity, **given}) for path in inner["path"]]
        else:
            yield [(root / name).parent / _path(path, variables) for path in paths]


def _path(text: str, variables: Mapping[str, str]) -> str:
    """Return a path with `${NAME:+prefix}`, which may hold another one, and `${NAME:-default}` replaced."""
    chosen, inner = text, re.compile(r"\$\{(\w+):\+([^{}]*)\}")
    while inner.search(chosen):
        chosen = inner.sub(lambda match: match[2] if variables.get(match[1]) else "", chosen)
    return expand({"path": chosen}, variables)["path"]


def _over(base: Service, own: Service) -> Service:
    result = {**base, **own}
    for key, value in own.items():
        before = base.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            result[key] = _over(before, value)
        elif isinstance(value, list) and isinstance(before, list) and key not in REPLACED:
            result[key] = list(value) if isinstance(value, Override) else before + value
    return {key: value for key, value in result.items() if value is not RESET}
