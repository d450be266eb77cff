"""Writes grafana/dashboards/*.json and compose/prometheus/published.yml."""
