"""Sentences are short, for readers of another language: 18 words in the mean, and few of more than 20."""

import re
from collections.abc import Iterator
from statistics import mean

from support.places import ROOT
from unit.docs.test_paths import TRACKED

MEAN, LONG, LONG_SHARE = 18, 20, 0.05
# Code in fences or after an empty line or heading, comments, tables and headings hold no sentences.
_NO_PROSE = re.compile(r"^```[\s\S]*?^```$|<!--[\s\S]*?-->|^(?:#.*)?\n(?: {4}.*\n|\n)+|^[|#].*$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+[.:]) )")
_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)[\"”)*]*\s+")


def sentences(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence; a piece of code is one word, of a link its text counts."""
    for paragraph in _PARAGRAPH.split(_NO_PROSE.sub("\n\n", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "CODE", paragraph))
        for sentence in _END.split(plain):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > 2:
                yield words


def test_sentences_are_short() -> None:
    found = [words for name in TRACKED if name.endswith(".md") for words in sentences((ROOT / name).read_text())]
    too_long = sorted((" ".join(words) for words in found if len(words) > LONG), key=len, reverse=True)
    assert len(found) > 1000
    assert mean(map(len, found)) <= MEAN
    assert len(too_long) <= LONG_SHARE * len(found), "\n".join(too_long[:20])
