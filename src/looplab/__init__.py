"""Looplab: what containers, load and priority do to a robot controlled over MQTT."""

__version__ = "0.1.0"
