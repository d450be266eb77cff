"""Metrics of a running run, as Prometheus reads them."""
