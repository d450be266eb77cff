"""Which edges of a wave were copied, from what an oscilloscope saw."""

from looplab.experiments.asip.edges import copied, settle
from looplab.experiments.asip.oscilloscope import Oscilloscope, Scope

WAVE, COPY = 2, 13


def rows(*seen: tuple[int, int, int]) -> list[tuple[int, int, int, int]]:
    """Edges of step 0 from (pin, level, cycle)."""
    return [(0, *edge) for edge in seen]


def test_each_edge_has_its_copy_even_where_several_are_on_their_way() -> None:
    seen = rows((WAVE, 1, 0), (WAVE, 0, 10), (COPY, 1, 15), (WAVE, 1, 20), (COPY, 0, 25), (COPY, 1, 35))
    assert copied(seen, WAVE) == [(0, 15), (10, 25), (20, 35)]


def test_an_edge_without_a_copy_is_found() -> None:
    seen = rows((WAVE, 1, 0), (COPY, 1, 5), (WAVE, 0, 10), (WAVE, 1, 20), (WAVE, 0, 30), (COPY, 0, 36))
    assert copied(seen, WAVE) == [(0, 5), (10, None), (20, None), (30, 36)]


def test_as_many_edges_of_other_levels_are_no_copies() -> None:
    assert copied(rows((WAVE, 1, 0), (COPY, 0, 5)), WAVE) == [(0, None)]


def test_no_copy_of_anything() -> None:
    assert copied(rows((WAVE, 1, 0), (WAVE, 0, 10)), WAVE) == [(0, None), (10, None)]
    assert copied([], WAVE) == []


class Slow(Oscilloscope):
    """Its generator ends, and the copies come later still."""

    def __init__(self, states: list[tuple[int, int]]) -> None:
        super().__init__("")
        self.states = states

    def state(self) -> Scope:
        count, left = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return Scope(count, 0, left, 0, 0)


def test_settling_waits_for_the_generator_and_for_late_copies() -> None:
    scope = Slow([(0, 4), (2, 2), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)])
    settle(scope, 0, 1)
    assert scope.states == [(8, 0)]
