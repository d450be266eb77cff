"""The parameters of one run of own, read from the environment that params.env and .env give its container."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from looplab.capture.exchange import BY_TOPIC, key_of
from looplab.errors import UsageError
from looplab.experiments.own import OwnCell
from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.spec.cell import Cell
from looplab.spec.parameters import AS, Option, RunParameters, choice, host, integer, matching, number, param, switch
from looplab.spec.reader import Reader
from looplab.spec.roles import BROKER
from looplab.treatments.link import NO_LINK
from looplab.treatments.loads import choose_load, read_settings

WATCH = Option("--watch", "WATCH_S", "S", "how long the application is watched")
DEADLINE = Option("--deadline", "DEADLINE_MS", "MS", "an answer later than this misses its deadline")
# The service of the lab's own broker.
PRIORITISED = "broker-prioritised"
_SERVICE = r"[A-Za-z0-9_.-]{1,63}"
_TOPIC = r"[^\s,\"'?]{1,150}"
_EXPECTED_TOPIC = "an MQTT topic filter without spaces, commas and quotes, e.g. app/+/request"


def _key(get: Reader, name: str) -> str:
    expected = "a regular expression with one group, json:NAME, correlation or order; perhaps topic+ before it"
    text = get.matching(name, "json:n", r"[^\n]{1,200}", expected)
    try:
        key_of(text.removeprefix(BY_TOPIC))
    except (ValueError, re.error):
        get.matching(name, text, r"(?!)", expected)
    return text


def _priorities(get: Reader, name: str) -> dict[str, int]:
    """Return the real-time priority of each service that OWN_PRIORITY names."""

    def one(text: str) -> tuple[str, int]:
        service, colon, priority = text.partition(":")
        if not colon or not re.fullmatch(_SERVICE, service) or not 1 <= int(priority) <= 99:
            raise ValueError(text)
        return service, int(priority)

    expected = "services with priorities from 1 to 99, e.g. mqtt:90,controller:80"
    return dict(get.list(name, "", one, expected)) if get.given(name) else {}


@dataclass(frozen=True, kw_only=True)
class OwnParameters(RunParameters):
    """What one run does. `messages` is the number of requests that it has room for."""

    cell = OwnCell
    lower = "MESSAGES"
    watches = True
    messages: int = integer(100_000, 10, 2_000_000)
    watch_s: int = integer(20, 1, 3600, option=WATCH, quick="6")
    warmup_s: int = integer(2, 0, 600)
    deadline_ms: int = integer(100, 1, 60_000, option=DEADLINE)
    request_topic: str = matching("app/request", _TOPIC, _EXPECTED_TOPIC)
    answer_topic: str = matching("app/answer", _TOPIC, _EXPECTED_TOPIC)
    key: str = param(_key, "json:n")
    application: str = matching("", r"[^\s?]{0,150}", "a Compose file", variable="OWN_APPLICATION")
    broker: str = choice(DEFAULT, tuple(BROKERS), factor=True)
    broker_service: str = host("broker", variable="OWN_BROKER_SERVICE")
    broker_port: int = integer(1883, 1, 65535, variable="OWN_BROKER_PORT", matters=False)
    priorities: Mapping[str, int] = param(_priorities, "", variable="OWN_PRIORITY")
    link: str = matching(NO_LINK, _SERVICE, "a service of your Compose file", variable="OWN_LINK", factor=True)
    link_delay_ms: float = number(10, 0, 500, factor=True)
    link_jitter_ms: float = number(0, 0, 500, factor=True)
    link_loss_percent: float = number(0, 0, 50, factor=True)
    tcp_nodelay: bool = switch({"thesis": False, "corrected": True})
    load: str = choose_load()
    load_settings: Mapping[str, str] = param(read_settings, matters=False)
    as_scenario: str = matching("", r"[a-z]{0,20}", "the name of a load", option=AS, matters=False)

    def checked(self, environment: Mapping[str, str]) -> Self:
        if self.link in (self.broker_service, BROKER.name, PRIORITISED):
            raise UsageError(
                f"OWN_LINK={self.link} is the broker, and a link is between a client and the broker.",
                "Name the service of a client.",
            )
        return self

    @property
    def published_cells(self) -> list[OwnCell]:
        return [OwnCell.keyed(self.request_topic)]

    def left_s(self, done: int) -> float:
        return 0.0 if done else float(self.watch_s + self.warmup_s)

    def message_ms(self, _cell: Cell) -> float:
        return 1000 * self.watch_s / self.messages


PARAMETERS = OwnParameters
