"""The control loop: one dashboard while a scenario runs, one to compare finished runs."""

from generator.dashboard import Dashboard
from generator.experiments.loop.compare import compare_scenarios
from generator.experiments.loop.live import live_loop
from generator.experiments.loop.thesis import rules as published

__all__ = ["dashboards", "published"]


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboards by file name."""
    return {"live-loop.json": live_loop(), "compare-scenarios.json": compare_scenarios()}
