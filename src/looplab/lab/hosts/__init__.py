"""The loop on several hosts, each a Docker context; nothing here schedules (docs/many-hosts.md)."""
