"""Find the requests of an application and their answers among the messages at its broker."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from looplab.capture import Application
from looplab.capture.connections import ABSENT, Connection, Connections, Message

if TYPE_CHECKING:
    from looplab.capture.segments import Segment

# A request's four times, the numbers of both clients, its QoS.
COLUMNS = ("in_ns", "out_ns", "back_ns", "received_ns", "requester", "device", "qos")
OTHER_TOPICS, MOST_TOPICS = "(other topics)", 200
# The broker had a message for so long before an acknowledgement let it go: it was held.
HELD_NS = 1_000_000
CORRELATION, ORDER, JSON, BY_TOPIC = "correlation", "order", "json:", "topic+"
# Returns what a request and its answer have in common, None for a message that has none.
KeyOf = Callable[[Message], object]


def topic_pattern(topic_filter: str) -> re.Pattern[str]:
    """Return what an MQTT filter matches; its groups are what its wildcards stand for."""
    shared = re.sub(r"^\$share/[^/]+/", "", topic_filter)
    words = ["([^/]*)" if word == "+" else "(.*)" if word == "#" else re.escape(word) for word in shared.split("/")]
    return re.compile("/".join(words).replace("/(.*)", "(?:/(.*))?"), re.DOTALL)


def key_of(text: str) -> KeyOf:
    """Return how a key is read: by a regular expression with one group, json:NAME, correlation or order.

    Raises ValueError for anything else.
    """
    if text == ORDER:
        return lambda _message: ()
    if text == CORRELATION:
        return lambda message: message.publication.correlation or None
    if text.startswith(JSON):
        names = text.removeprefix(JSON).split(".")
        return lambda message: _of_json(message.publication.payload, names)
    pattern = re.compile(text.encode())
    if pattern.groups != 1:
        raise ValueError(f"a regular expression has one group, not {pattern.groups}")
    return lambda message: found[1] if (found := pattern.search(message.publication.payload)) else None


def _of_json(payload: bytes, names: list[str]) -> object:
    try:
        value = json.loads(payload)
        for name in names:
            value = value[name]
        return value if isinstance(value, str | int | float) else json.dumps(value)
    except (ValueError, KeyError, TypeError):
        return None


class Exchange:
    """Follows the messages in the order of capture, and holds one row for each request."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._request, self._answer = map(topic_pattern, (application.request_topic, application.answer_topic))
        self._by_topic = application.key.startswith(BY_TOPIC)
        self._key = key_of(application.key.removeprefix(BY_TOPIC))
        self._since_ns, self._until_ns = round(application.since_s * 1e9), round(application.until_s * 1e9)
        self._limit_ns = round(application.limit_s * 1e9)
        self.columns = {name: array("q") for name in COLUMNS}
        self.counts: Counter[str] = Counter()
        # By topic: messages and bytes to the broker, then from it.
        self.topics: dict[str, list[int]] = {}
        self.clients: list[Connection] = []
        # By the client for which the broker held messages: their number, and for how long in all.
        self.held: dict[str, list[int]] = {}
        # The same of messages that a client held, at most.
        self.held_by: dict[str, list[int]] = {}
        self._numbers: dict[str, int] = {}
        self._rows: dict[object, deque[int]] = {}
        # By row: when the broker passed a request on, to each client.
        self._passed: dict[int, dict[int, tuple[int, int]]] = {}
        self._last: dict[int, int] = {}
        self._hears_requests: set[int] = set()
        self._hears_answers: set[int] = set()

    def take(self, message: Message) -> None:
        """Take the next message."""
        watched = self._is_watched(message)
        # What the broker says of itself is no part of the application.
        if watched and not message.topic.startswith("$"):
            self._count(message)
        for pattern, act in ((self._request, self._requested), (self._answer, self._answered)):
            if found := pattern.fullmatch(message.topic):
                key = self._key(message)
                if key is None:
                    self.counts["without_key"] += watched and message.inbound
                else:
                    act(message, (found.groups(), key) if self._by_topic else key)

    @classmethod
    def of(cls, application: Application, segments: Iterable[Segment], port: int) -> dict[str, Any]:
        """Return what captured segments show of an application whose broker has this port."""
        exchange, connections = cls(application), Connections(port)
        for segment in segments:
            for message in connections.messages(segment):
                exchange.take(message)
        counted = ("packets", "foreign", "sent_again", "zero_windows")
        return {**exchange.result(), **{name: dict(getattr(connections, name)) for name in counted}}

    def result(self) -> dict[str, Any]:
        """Return columns, clients and counts as JSON has them."""
        for row in list(self._passed):
            self._close(row)
        return {
            "columns": {name: column.tolist() for name, column in self.columns.items()},
            "clients": [
                {"client": one.name, "host": one.host, "version": _version(one.version)} for one in self.clients
            ],
            "topics": self.topics,
            "held": self.held,
            "held_by": self.held_by,
            "counts": dict(self.counts),
        }

    def _is_watched(self, message: Message) -> bool:
        return self._since_ns <= message.time_ns <= self._until_ns

    def _count(self, message: Message) -> None:
        known = message.topic in self.topics or len(self.topics) < MOST_TOPICS
        counted = self.topics.setdefault(message.topic if known else OTHER_TOPICS, [0, 0, 0, 0])
        at = 0 if message.inbound else 2
        counted[at] += 1
        counted[at + 1] += message.size

    def _requested(self, message: Message, key: object) -> None:
        client, rows = self._number(message.connection), self._open(key, message.time_ns)
        if message.inbound:
            self._begin(message, key, client, rows)
            return
        self._hears_requests.add(client)
        known = any(client in self._passed[one] for one in rows)
        row = next((one for one in rows if client not in self._passed[one]), None)
        if row is None or (known and message.again):
            self.counts["duplicates"] += known
        else:
            self._passed[row][client] = (message.time_ns, message.released_ns)

    def _begin(self, message: Message, key: object, client: int, rows: deque[int]) -> None:
        """Open the row of a request, if it is the first of its kind and there is room."""
        columns, row = self.columns, len(self.columns["in_ns"])
        if message.again and any(columns["requester"][one] == client for one in rows):
            self.counts["duplicates"] += 1
            return
        if not self._is_watched(message):
            return
        if row == self._application.most:
            self.counts["without_room"] += 1
            return
        waited_ns = message.waited_since_ns
        if ABSENT not in (waited_ns, message.released_ns):
            _hold(self.held_by, message, waited_ns)
        self.counts["key_in_use"] += bool(rows) and self._application.key != ORDER
        known = {"in_ns": message.time_ns, "requester": client, "qos": message.qos}
        for name, column in columns.items():
            column.append(known.get(name, ABSENT))
        self._rows.setdefault(key, deque()).append(row)
        self._passed[row] = {}

    def _answered(self, message: Message, key: object) -> None:
        client, rows = self._number(message.connection), self._open(key, message.time_ns)
        if not message.inbound:
            self._deliver(message, key, rows, client)
            return
        for row in rows:
            reached = self._reached(row, client)
            if self.columns["back_ns"][row] == ABSENT and reached:
                break
        else:
            # One that came before may answer a request that is no part of the run.
            self.counts["duplicates" if rows else "unasked"] += bool(rows) or self._is_watched(message)
            return
        out_ns, released_ns = reached
        for name, value in {"out_ns": out_ns, "back_ns": message.time_ns, "device": client}.items():
            self.columns[name][row] = value
        came_ns = self.columns["in_ns"][row]
        _hold(self.held, message._replace(time_ns=out_ns, released_ns=released_ns), came_ns)
        # What released this answer was sent after its request: it answers nothing that came with it.
        _hold(self.held_by, message, out_ns)

    def _deliver(self, message: Message, key: object, rows: deque[int], client: int) -> None:
        """Note that the broker delivered an answer, if it did so to the one that asked."""
        self._hears_answers.add(client)
        back_ns = self.columns["back_ns"]
        row = next((one for one in rows if back_ns[one] != ABSENT and self._asked(one, client)), None)
        if row is None:
            return
        self.columns["received_ns"][row] = message.time_ns
        _hold(self.held, message, back_ns[row])
        self.counts["together"] += self._last.get(client) == message.segment
        self._last[client] = message.segment
        rows.remove(row)
        self._close(row)
        if not rows:
            del self._rows[key]

    def _reached(self, row: int, client: int) -> tuple[int, int] | None:
        """Return when a request was passed on to a device; one may publish by another connection than it hears by."""
        passed = self._passed[row]
        if client in passed or client in self._hears_requests:
            return passed.get(client)
        return next((one for other, one in passed.items() if self._beside(other, client)), None)

    def _asked(self, row: int, client: int) -> bool:
        """Return whether a client asked, by this connection or by one that hears no answers itself."""
        requester = self.columns["requester"][row]
        return requester == client or (requester not in self._hears_answers and self._beside(requester, client))

    def _beside(self, one: int, other: int) -> bool:
        return self.clients[one].host == self.clients[other].host

    def _open(self, key: object, now_ns: int) -> deque[int]:
        """Return the rows of a key that still wait, oldest first; those that have waited too long are closed."""
        rows = self._rows.get(key)
        while rows and now_ns - self.columns["in_ns"][rows[0]] > self._limit_ns:
            self._close(rows.popleft())
        if not rows:
            self._rows.pop(key, None)
        return rows or deque()

    def _close(self, row: int) -> None:
        passed = self._passed.pop(row)
        if passed and self.columns["out_ns"][row] == ABSENT:
            self.columns["out_ns"][row] = min(time_ns for time_ns, _released_ns in passed.values())

    def _number(self, connection: Connection) -> int:
        if connection.name not in self._numbers:
            self._numbers[connection.name] = len(self.clients)
            self.clients.append(connection)
        return self._numbers[connection.name]


def _hold(held: dict[str, list[int]], message: Message, came_ns: int) -> None:
    """Count a message that waited for long before an acknowledgement let it go, by its client, and for how long."""
    if message.released_ns != ABSENT and message.released_ns - came_ns > HELD_NS:
        counted = held.setdefault(message.connection.name, [0, 0])
        counted[0] += 1
        counted[1] += message.time_ns - came_ns


def _version(level: int) -> str:
    return {3: "3.1", 4: "3.1.1", 5: "5"}.get(level, "unknown")
