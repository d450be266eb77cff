"""Magistrala with SpiceDB: built from its Go modules, images/magistrala."""
