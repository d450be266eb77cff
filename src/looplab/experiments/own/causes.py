"""What the packets of an application show: why it cannot be measured, and what delays its messages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from looplab.experiments.own.parameters import OwnParameters

# Of the requests, so many must be held before it counts as a cause.
LEAST_SHARE = 0.05
# A host with more clients than this connects for each request: a cause names the host instead.
FEW_CLIENTS = 4
NAGLE = "Nagle's algorithm with delayed ACK"
NODELAY = "Set `set_tcp_nodelay true` in mosquitto.conf (here: TCP_NODELAY=on), or TCP_NODELAY in another broker."
OWN_NODELAY = "Set TCP_NODELAY on that client's socket (paho: on_socket_open, setsockopt)."
# Who held, where, and what cures it. How long a client held is known at most.
_HOLDERS = (
    ("held", "in {broker}, to {client}", NODELAY),
    ("held_by", "in {client}, to {broker}, at most", OWN_NODELAY),
)
# One segment that was sent again may be a probe, on a machine whose acknowledgements are late.
LEAST_SENT_AGAIN = 0.01
_OF_AN_END = (
    ("zero_windows", "full receive buffer (zero window)", "This end reads too slowly."),
    ("sent_again", "segments sent again", "The network lost packets of this end, or they were acknowledged late."),
)
UNREADABLE = {
    "TLS": "the connections are encrypted (TLS), and the capture reads no encrypted packet: measure before the TLS "
    "end, on a plain listener or behind a proxy that ends TLS",
    "WebSocket": "MQTT comes in WebSockets: have the clients use the plain listener",
}


def refusals(found: Mapping[str, Any], parameters: OwnParameters) -> list[str]:
    """Return why the packets of a capture cannot be read."""
    port = f"port {parameters.broker_port} of {parameters.broker_service}"
    return [
        UNREADABLE.get(what, f"{number} connections to {port} cannot be read as MQTT: {what}")
        for what, number in found["foreign"].items()
    ]


def causes(found: Mapping[str, Any], requests: int, broker: str, clients: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what delays messages: what, where, how many messages, how long each, the remedy; the worst hold first.

    `clients` are those of the application, each with its host: what happens to others is none of its causes.
    """
    names = _names_of(clients)
    least = max(1.0, LEAST_SHARE * requests)
    held = [
        _cause(NAGLE, where.format(client=client, broker=broker), number, total_ns / number / 1e6, remedy)
        for name, where, remedy in _HOLDERS
        for client, (number, total_ns) in _by_name(found[name], names).items()
        if number >= least
    ]
    held.sort(key=lambda one: -one["mean_ms"] * one["messages"])
    together = found["counts"].get("together", 0)
    rare = max(1.0, LEAST_SENT_AGAIN * requests)
    by_end = [
        _cause(what, name, number, 0.0, remedy)
        for kind, what, remedy in _OF_AN_END
        for name, (number,) in _by_name({one: (n,) for one, n in found[kind].items()}, names).items()
        if number >= rare and name in {"broker", *names.values()}
    ]
    waited = "They waited for each other in the broker."
    in_bunches = [_cause("answers that left together", broker, together, 0.0, waited)] if together >= least else []
    return [*held, *in_bunches, *by_end]


def _names_of(clients: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each client in a cause: its own, or that of a host with many."""
    of_host = Counter(clients.values())
    return {
        client: f"{of_host[host]} clients of {host}" if of_host[host] > FEW_CLIENTS else client
        for client, host in clients.items()
    }


def _by_name(counted: Mapping[str, Sequence[int]], names: Mapping[str, str]) -> dict[str, list[int]]:
    """Return numbers by client with those of one name added up."""
    made: dict[str, list[int]] = {}
    for client, values in counted.items():
        name = names.get(client, client)
        made[name] = [sum(pair) for pair in zip(values, made.get(name, [0] * len(values)), strict=True)]
    return made


def _cause(cause: str, where: str, messages: int, mean_ms: float, remedy: str) -> dict[str, Any]:
    return {"cause": cause, "where": where, "messages": messages, "mean_ms": round(mean_ms, 3), "remedy": remedy}
