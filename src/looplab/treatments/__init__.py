"""treatments."""
