"""The doctor's trial of the scheduler: what counts as a stall, and when it is made again; without an engine."""

from pathlib import Path

import pytest

from looplab.lab.machine import stalls
from looplab.lab.machine.stalls import Bystander, Lateness, Stalls, milder, try_stalls

IMAGES = {"stress": "s", "treatments": "t"}


class Scripted(Bystander):
    """A bystander whose samples have these maxima; None: it never woke."""

    def __init__(self, *longest_ms: float | None) -> None:
        self.left = list(longest_ms)

    def sample(self, _seconds: float) -> Lateness | None:
        longest_ms = self.left.pop(0)
        return None if longest_ms is None else Lateness(1.0, 2.0, longest_ms)


@pytest.mark.parametrize(
    ("longest_ms", "found_ms", "left"),
    [((7, 99), 7, 1), ((140, 6), 6, 0), ((140, 90), 90, 0), ((None, 7), None, 1), ((140, None), None, 0)],
)
def test_a_stall_counts_if_it_comes_again(
    longest_ms: tuple[float | None, ...], found_ms: float | None, left: int
) -> None:
    bystander = Scripted(*longest_ms)
    found = milder(bystander)
    assert (found and found.max_ms) == found_ms
    assert len(bystander.left) == left


def test_a_trial_is_made_once_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, str]] = []
    made = Stalls(Lateness(0.2, 0.4, 3.0), Lateness(20.0, 40.0, 150.0))
    monkeypatch.setattr(stalls, "_try", lambda *images: tried.append(images) or made)
    cache = tmp_path / "new" / "stalls.json"
    assert try_stalls(IMAGES, cache) == try_stalls(IMAGES, cache) == made
    assert tried == [("s", "t")]
    monkeypatch.setattr(stalls, "boot_id", lambda: "another boot")
    assert try_stalls(IMAGES, cache) == made
    cache.write_text("no JSON")
    try_stalls(IMAGES, cache)
    assert len(tried) == 3


def test_a_trial_that_could_not_be_made_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "_try", lambda *_images: None)
    assert try_stalls(IMAGES, tmp_path / "stalls.json") is None
    assert not (tmp_path / "stalls.json").exists()
