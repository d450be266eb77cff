"""Write grafana/dashboards/*.json and compose/prometheus/published.yml."""
