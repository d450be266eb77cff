"""Tests that need a flag: virtual machines, two hosts, a registry, no network."""

from support.lab_fixtures import lab, own_lab, session_lab  # noqa: F401
