"""Experiments on Docker Swarm: a Compose model becomes a file for `docker stack deploy`."""
