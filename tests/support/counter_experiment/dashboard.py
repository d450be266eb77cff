"""The counter, while it sleeps."""

from generator.dashboard import Dashboard, dashboard
from generator.panels import graph


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboard by its file name."""
    sleeps = graph("Sleeps", "How many so far.", {"{{sleep_ms}} ms": "counter_messages_sent_total"}, label="sleeps")
    return {
        "counter.json": dashboard(
            "looplab-counter", "Counter", "A counter that sleeps.", [(8, [(24, sleeps)])], [], refresh="5s", since="1h"
        )
    }
