"""What the exporter counts of a cell beside latencies."""

from looplab.experiments.loop.metrics import LoopCell

MS = 1_000_000


def test_messages_beyond_an_interval_are_counted_once_their_outcome_is_known() -> None:
    """Of messages each 20 ms: in time, late by its sender alone, lost, answered with an error, and one under way."""
    cell = LoopCell("scenario1", "thesis", 20.0, 0)
    for lateness_ms, total_ms in ((0, 19), (15, 6)):
        cell.add_sent(lateness_ms * MS)
        cell.add_outcome("answered")
        cell.add_latency(total_ms * MS, 4 * MS, 0, (lateness_ms + total_ms) * MS)
    for outcome in ("lost", "robot_error"):
        cell.add_sent(0)
        cell.add_outcome(outcome)
    cell.add_sent(0)
    text = cell.texts()["loop_messages_beyond_interval_total"]
    assert text.rstrip().endswith("} 3")
    assert 'interval_ms="20"' in text
