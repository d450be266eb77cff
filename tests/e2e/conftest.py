"""The lab under test: copied and made ready once, cleared before and after each test."""

from support.lab_fixtures import lab, own_lab, session_lab  # noqa: F401
