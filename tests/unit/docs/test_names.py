"""Names of tests are read in a list: they are short."""

import re

from support.places import ROOT

MOST = 60


def test_names_of_tests_are_short() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    names = [(file, name) for file, text in texts.items() for name in re.findall(r"^def (test_\w+)\(", text, re.M)]
    assert len(names) > 1000
    assert [name for name in names if len(name[1]) > MOST] == []
