"""What one cell of the experiment is: where the middleware runs, on how much, and how many devices load it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One condition; `cores` are the processors of one node, `balancer` says whether nginx is in front."""

    container: bool
    balancer: bool
    nodes: int
    cores: int
    devices: int

    def __str__(self) -> str:
        return f"{self.devices} devices, {placement(self.container, self.balancer, self.nodes, self.cores)}"


def placement(container: bool, balancer: bool, nodes: int, cores: int) -> str:
    """Return where the middleware runs, in words: "2 cores, container", "5 nodes x 4 cores, balancer"."""
    size = f"{cores} core{'s' if cores > 1 else ''}"
    where = f"{nodes} nodes x {size}" if nodes > 1 else size
    return f"{where}, {'balancer' if balancer else 'container' if container else 'bare metal'}"
