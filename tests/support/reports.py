"""Stored runs as a report sees them, and the report itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.analysis import analysed
from looplab.report.samples import MeasuredRuns, measure
from looplab.report.shell import page_text, write_reports
from looplab.report.stored import Selection, StoredRun, read_run, run_folders
from looplab.report.verdicts import Verdict

EMPTY_TAGS = {"meta", "link", "img", "br", "input"}


@dataclass(frozen=True)
class Shown:
    """What an experiment's report makes of the runs in a folder."""

    measured: Sequence[MeasuredRuns]
    selection: Selection
    verdicts: Mapping[str, Mapping[str, Verdict]]
    context: Mapping[str, Any]
    page: Callable[[], str]

    @cached_property
    def text(self) -> str:
        """The page without figures."""
        return self.page()

    def verdict(self, claim: str, fidelity: str = "thesis") -> Any:
        return self.verdicts[claim][fidelity]


def shown(results: Path, experiment: str = "loop", *named: str) -> Shown:
    """Measure and analyse the runs in `results`, all or those `named`, which are of one experiment."""
    selection = Selection()
    for folder in run_folders(results, named):
        run = read_run(folder, EXPERIMENTS)
        if isinstance(run, StoredRun):
            selection.runs.append(run)
        else:
            selection.unusable.append(run)
    measured = measure(selection)
    one = EXPERIMENTS[experiment]
    analysis = analysed(one, measured)
    verdicts = {claim.name: by_fidelity for claim, by_fidelity in analysis.verdicts}
    page = partial(page_text, one, analysis, measured, selection)
    return Shown(measured, selection, verdicts, analysis.context, page)


def write(results: Path, out: Path, *named: str) -> int:
    """Write the reports as `./lab report` does; returns the exit code."""
    return write_reports(results, named, out, EXPERIMENTS)


class Page(HTMLParser):
    """Tags with their attributes and the text; every tag must be closed, every link lead to a place on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(self.text)
        assert self._open == []
        ids = {attributes["id"] for _, attributes in self.tags if "id" in attributes}
        links = [value or "" for _, held in self.tags for name, value in held.items() if name in ("src", "href")]
        assert links
        assert all(link.startswith("data:") or link[1:] in ids for link in links)
        assert not any(word in self.text for word in ("url(", "@import", "<script src"))

    @property
    def alternatives(self) -> list[str]:
        return [attributes.get("alt") or "" for tag, attributes in self.tags if tag == "img"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY_TAGS:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
