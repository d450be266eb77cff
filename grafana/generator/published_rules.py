"""Published figures as Prometheus recording rules, so that panels can draw them beside what is measured."""

import json
from collections.abc import Iterable

# Record, value, labels.
Rule = tuple[str, float, dict[str, str]]

_HEAD = """# Written by grafana/generate.py from src/looplab/experiments/*/report/published: change the figures there.
groups:
  - name: published
    # Constants; looked up seldom, well within the five minutes Prometheus remembers a value.
    interval: 15s
    rules:
"""


def rules_text(rules: Iterable[Rule]) -> str:
    """Return the whole rules file."""
    return _HEAD + "".join(_rule(*rule) for rule in rules)


def _rule(record: str, value: float, labels: dict[str, str]) -> str:
    quoted = ", ".join(f"{name}: {json.dumps(text)}" for name, text in labels.items())
    return f"      - record: {record}\n        expr: vector({value:.10g})\n        labels: {{{quoted}}}\n"
