"""What an experiment is, written once: key, parameters, columns. Every face of it is derived from here."""
