"""What the exporter's page shows of a run: each sample by its name and labels."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.live import LiveFolder
from looplab.exporter.parts import all_families
from looplab.exporter.stored import StoredRuns
from looplab.metrics.text_format import Texts, page

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def text(parts: Iterable[Texts]) -> str:
    return page(parts, all_families(EXPERIMENTS)).decode()


def samples(parts: Iterable[Texts]) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text(parts))
        for sample in family.samples
    }


def stored(results: Path, *damaged: Path) -> Samples:
    """Return what is shown of finished runs; fails unless just these are damaged."""
    runs = StoredRuns(results, EXPERIMENTS)
    assert runs.refresh()
    assert runs.damaged == {folder.name for folder in damaged}
    return samples(texts for _run_id, texts in runs.newest.values())


def running(live: Path) -> Samples:
    """Return what is shown of the run that is being measured."""
    folder = LiveFolder(live, EXPERIMENTS)
    run = folder.run(frozenset())
    assert run is not None
    return samples([folder.texts(run)])


def at(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]
