"""An MQTT flood through the broker under test, by the lab's own flood or inovex/mqtt-stresser."""

from collections.abc import Sequence
from itertools import pairwise

from looplab.treatments.judgement import Treatment
from looplab.treatments.loads.load import COUNT, Load, Rule, strength
from looplab.treatments.looks import Look

# Beside the run's own; the published options make about 100 messages a second.
LEAST_PER_S = 20
# The broker renews its count once a second: over less time a rate means little.
SPAN_S = 10.0
# As Go reads them.
_DURATION: Rule = (r"([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+", "a time with its unit, e.g. 100s")


class Flood(Load):
    """Pauses between its rounds, so that some looks may miss it; the broker's count of messages says more."""

    def judge_rate(self, looks: Sequence[Look], own_messages: int) -> list[Treatment]:
        """Judge whether the broker received more than `own_messages` in every cell; [] where no cell is long enough."""
        spans = [strength(self.name, before, after) for before, after in pairwise(looks)]
        rates = [
            span["broker_publish_per_s"] - own_messages / span["seconds"]
            for span in spans
            if "broker_publish_per_s" in span and span["seconds"] >= SPAN_S
        ]
        if not rates:
            return []
        wanted, found = (f"{rate:.0f} messages/s at least" for rate in (LEAST_PER_S, min(rates)))
        return [Treatment(f"{self.name} in every cell", wanted, found, min(rates) >= LEAST_PER_S)]


LOAD = Flood(
    "flood",
    ("mqtt-stresser", "flood"),
    order=2,
    steady=False,
    counted=True,
    settings={
        **dict.fromkeys(("FLOOD_CLIENTS", "FLOOD_MESSAGES", "FLOOD_RAMPUP_SIZE"), COUNT),
        **dict.fromkeys(("FLOOD_RAMPUP_DELAY", "FLOOD_GLOBAL_TIMEOUT", "FLOOD_TIMEOUT"), _DURATION),
    },
)
