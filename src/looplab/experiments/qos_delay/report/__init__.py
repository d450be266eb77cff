"""The report of the experiment qos-delay: publisher-to-subscriber latency against network delay."""
