"""Every path that a page, a Compose file or a script names exists; lychee follows the links (./lab test --lint)."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from support.places import ROOT

# Made by the lab: absent from a fresh checkout.
MADE = ("results/", "report/", "answers/", "rpi/.env", "rpi/secrets/")
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
FILES = [Path(name) for name in TRACKED]
FOLDERS = sorted({name.partition("/")[0] for name in TRACKED if "/" in name})
# The new experiment's pages name places of the copy that a test puts them into.
PAGES = [
    name
    for name in TRACKED
    if (name.endswith((".md", ".yaml", ".yml", ".sh")) or name.startswith(("scripts/", ".ci/")))
    and not name.startswith("tests/support/counter_experiment/")
]
# A reference to an image or a name with a variable in it is no path.
_NAMED = re.compile(rf"(?<![\w./$}}{{<@-])(?:\./)?((?:{'|'.join(map(re.escape, FOLDERS))})/[\w./*-]++)(?![:$@{{])")
_MODULE = re.compile(r"(?<![\w./*-])[\w/*-]+\.py\b")


def named(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    # In a page of prose only code names a path: `path`, or an indented line.
    if page.endswith(".md"):
        text = "\n".join([*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4}.*$", text, re.MULTILINE)])
    paths = {path.rstrip("./") for path in _NAMED.findall(text)}
    modules = {f"**/{path}" for path in _MODULE.findall(text) if path.partition("/")[0] not in FOLDERS}
    return paths | modules


@cache
def exists(pattern: str) -> bool:
    return any(path.match(pattern.removeprefix("**/")) for path in FILES) or any(ROOT.glob(pattern))


@pytest.mark.parametrize("page", PAGES)
def test_the_paths_of_a_page_exist(page: str) -> None:
    assert not [path for path in sorted(named(page)) if not path.startswith(MADE) and not exists(path)]


def test_the_services_whose_logs_are_to_be_read_are_in_compose() -> None:
    composed = "\n".join((ROOT / name).read_text() for name in TRACKED if re.match(r"compose/.*\.ya?ml$", name))
    texts = [(page, (ROOT / page).read_text(encoding="utf-8")) for page in PAGES]
    log = re.compile(r"docker compose logs (?:of the service )?([\w-]+)")
    read = {(page, service) for page, text in texts for service in log.findall(text)}
    assert {service for _, service in read} >= {"flood", "bridge"}
    assert [one for one in sorted(read) if not re.search(rf"^  {one[1]}:", composed, re.MULTILINE)] == []


def test_no_link_leads_out_of_the_checkout() -> None:
    # A link named .venv, once checked out, replaced the environment that it led to.
    assert not [name for name in FILES if (ROOT / name).is_symlink() and (ROOT / name).readlink().is_absolute()]
