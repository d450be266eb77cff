"""Facts of this machine, and what its engine grants."""
