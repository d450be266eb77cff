"""What is done to the system that a run measures: wanted, applied, found."""

# The load of a run that has none.
NO_LOAD = "none"
