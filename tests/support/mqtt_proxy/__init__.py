"""Inject exactly known faults into an MQTT stream, and record each one.

    with ImpairmentProxy(("127.0.0.1", 1883), [Rule(impairment="loss", direction=TO_BROKER, every=20)]) as proxy:
        ...  # clients connect to proxy.port
    proxy.record.sequences("loss")

- The proxy stands between clients and broker; all connections share the rules and counts of a direction.
- Rules judge PUBLISH packets by topic. Index 0 is the first match; counting continues across reconnects.
- Delay and stall hold everything in their direction, as a slow network does. Loss, duplicate and reorder touch only
  QoS 0: below QoS 1 and 2, TCP repairs them. A QoS 1 or 2 packet that was picked passes, recorded as not applied.
- Each side has its own TCP connection with TCP_NODELAY, and packets are forwarded whole: Nagle's algorithm and
  delayed acknowledgements of the two ends do not meet through the proxy.
"""

from support.mqtt_proxy.process import ImpairmentProxy
from support.mqtt_proxy.record import Record
from support.mqtt_proxy.rules import TO_BROKER, TO_CLIENT, Rule

__all__ = ["TO_BROKER", "TO_CLIENT", "ImpairmentProxy", "Record", "Rule"]
