"""What every report on stored runs shares; it knows no experiment by name."""
