"""The exporter's page as `./lab watch` and `./lab inspect` read it. Standard library only."""

import re
from collections import defaultdict
from collections.abc import Mapping

from looplab.system.json_client import open_direct

TIMEOUT_S = 3.0
_SAMPLE = re.compile(r"([a-z0-9_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')

Labels = dict[str, str]
Page = Mapping[str, list[tuple[Labels, float]]]


def fetch(address: str) -> str:
    """Return the text at an address. Raises OSError if nothing answers."""
    with open_direct(address, timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode("utf-8", "replace"))


def parse(text: str) -> Page:
    """Return the samples of an exporter's page by family."""
    page: dict[str, list[tuple[Labels, float]]] = defaultdict(list)
    for line in text.splitlines():
        if sample := _SAMPLE.fullmatch(line):
            name, labels, value = sample.groups()
            page[name].append((dict(_LABEL.findall(labels or "")), float(value)))
    return page
