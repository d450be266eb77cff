"""What is done to the system that a run measures: wanted, applied, found."""

# A run without any load has this one.
NO_LOAD = "none"
