"""A test double of a network link: it sits in an MQTT stream and injects impairments that are known exactly.

The lab's own report can then be compared with the truth: which message was delayed by how much, lost,
duplicated, reordered, stalled or cut off. What it is, and what it is not:

- It is one link between clients and broker, with two directions: `to_broker` and `to_client`.
  Every connection through it shares the direction's rules, counts and stalls.
- Rules judge PUBLISH packets by topic. Index 0 is the first PUBLISH that matches the rule; counting goes on
  across reconnects. `every: N` picks each Nth: indexes N-1, 2N-1, ...
  What was sent into a connection that a rule had cut already is in the ledger as undelivered, not counted.
- A delayed or stalled link delays everything in its direction, also CONNECT and PINGREQ, as a real one does.
  Loss, duplicates and reordering touch single QoS 0 messages. TCP repairs those below MQTT, so on a real link
  they arise in clients, brokers and bridges; a QoS 1 or 2 packet that is picked is therefore forwarded as it
  is and counted as not applied.
- A packet is forwarded when it has arrived whole (store and forward), and each side has a TCP connection of
  its own, with TCP_NODELAY. How Nagle's algorithm and delayed acknowledgements of the two ends interact is
  therefore not what it is without the proxy.

As a library: `with ImpairmentProxy(to, rules) as proxy: ...` and then `proxy.truth`.
As a command: `python -m support.mqtt_proxy --listen 127.0.0.1:1884 --to 127.0.0.1:1883 --rules rules.json
--ledger ledger.json`; SIGTERM or SIGINT writes the ledger.
"""

from support.mqtt_proxy.process import ImpairmentProxy
from support.mqtt_proxy.rules import Direction, Impairment, Rule, Scope, load_rules, parse_rules
from support.mqtt_proxy.truth import Truth

__all__ = [
    "Direction",
    "Impairment",
    "ImpairmentProxy",
    "Rule",
    "Scope",
    "Truth",
    "load_rules",
    "parse_rules",
]
