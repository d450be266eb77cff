"""Causes of lost messages: each lost one has exactly one, and what was put in is found."""

import random

import pytest

from looplab.experiments.loop.losses import CAUSES, Losses
from looplab.experiments.loop.protocol import parse_merged
from looplab.run.samples import ANSWERED, FAILED, LATE, NOT_SENT, WAITING, SampleStore

MS = 1_000_000


def sent_every_10_ms(lost: set[int], count: int = 100) -> SampleStore:
    """Message k leaves at 10 k ms and is answered 5 ms later unless it is lost."""
    store = SampleStore(count)
    for row in range(count):
        store["sent_ns"][row] = 10 * row * MS
        store["state"][row] = WAITING if row in lost else ANSWERED
        if row not in lost:
            store["received_ns"][row] = (10 * row + 5) * MS
    return store


def count(store: SampleStore, returns_ns: list[int]) -> dict[str, int]:
    """The causes that were found, those of no message left out."""
    every = range(store.count)
    found = Losses(store, every, [], [], returns_ns).count(every)
    assert list(found) == list(CAUSES)
    return {cause: number for cause, number in found.items() if number}


@pytest.mark.parametrize("seed", range(20))
def test_causes_add_up_to_what_was_lost(seed: int) -> None:
    dice = random.Random(seed)
    store = SampleStore(200)
    for row in range(200):
        store["state"][row] = state = dice.choice((NOT_SENT, WAITING, ANSWERED, LATE, FAILED))
        if state != NOT_SENT:
            store["sent_ns"][row] = row * MS
        if state not in (NOT_SENT, WAITING):
            store["received_ns"][row] = (row + dice.randrange(1, 50)) * MS
    merged, expired = ({dice.randrange(200) for _ in range(40)} for _ in range(2))
    returns_ns = sorted(dice.randrange(200) * MS for _ in range(3))
    found = Losses(store, range(200), merged, expired, returns_ns).count(range(200))
    assert sum(found.values()) == store["state"].tolist().count(WAITING)


def test_what_was_lost_before_an_answer_is_not_of_the_connection() -> None:
    """The connection went after the last answer before its return, however late the broker noticed."""
    store = sent_every_10_ms({10, 20, 21})
    assert count(store, [215 * MS]) == {"unknown": 1, "disconnected": 2}


def test_two_returns_without_an_answer_between_them() -> None:
    store = sent_every_10_ms(set(range(40, 60)))
    assert count(store, [455 * MS, 598 * MS]) == {"disconnected": 20}
    assert count(store, [455 * MS]) == {"disconnected": 6, "unknown": 14}


@pytest.mark.parametrize("payload", [b"", b"ab12", b"ab12 ", b"ab12 x", b"ab12 1,2", b"ab12 1234567890", b"\xff 1"])
def test_what_is_no_report_of_merged_requests(payload: bytes) -> None:
    assert parse_merged(payload) is None
