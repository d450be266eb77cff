"""Write grafana/dashboards/*.json."""
