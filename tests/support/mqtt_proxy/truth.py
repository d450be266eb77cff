"""Reads a ledger back, to compare a report with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looplab.errors import LabError
from support.mqtt_proxy.ledger import SCHEMA

Entry = dict[str, Any]


@dataclass(frozen=True)
class Truth:
    """What the proxy really did; `document` is the whole ledger."""

    document: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> Truth:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            remedy = "end the proxy with SIGTERM"
            raise LabError(f"no ledger of the proxy in {path}: {error}", remedy) from error
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise LabError(f"{path} is no ledger of schema {SCHEMA}", "use the proxy of this version")
        return cls(document)

    def injections(self, impairment: str, rule: int | None = None) -> list[Entry]:
        """Entries of one impairment, of all rules or of one, in order of arrival, applied or not."""
        return [
            entry
            for entry in self.document["injections"]
            if entry["impairment"] == impairment and rule in (None, entry["rule"])
        ]

    def applied(self, impairment: str, rule: int | None = None) -> list[Entry]:
        """Those that really happened."""
        return [entry for entry in self.injections(impairment, rule) if entry["applied"]]

    def sequences(self, impairment: str, rule: int | None = None) -> list[int]:
        """Sequence numbers of the messages it really happened to."""
        return [entry["sequence"] for entry in self.applied(impairment, rule)]

    def undelivered(self, direction: str) -> list[Entry]:
        """Messages that came in and could not go out because their connection ended."""
        return [entry for entry in self.document["undelivered"] if entry["direction"] == direction]

    def events(self, what: str) -> list[Entry]:
        return [entry for entry in self.document["events"] if entry["event"] == what]

    def matched(self, rule: int) -> int:
        """How many messages the rule has seen."""
        return int(self.document["rules"][rule]["matched"])
