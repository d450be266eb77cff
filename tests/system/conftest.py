"""Tests that need a flag: virtual machines, two hosts, a registry, no network."""

from support.e2e_lab import lab, own_lab, session_lab  # noqa: F401
