"""The experiment qos-delay: how the latency from publisher to subscriber grows with the delay of the network."""

EXPERIMENT = "qos-delay"
