"""The exporter: what runs, for Prometheus."""
