"""The lab under test: copied and made ready once, cleared before and after each test."""

import pytest
from support.e2e_lab import RATIONED, Lab
from support.lab_fixtures import lab, own_lab, session_lab  # noqa: F401

# Their labs may run beside another, which has the kernel's real-time budget: see TOGETHER.
WITHOUT_BUDGET = ("test_e2e_asip", "test_e2e_middleware", "test_e2e_qos_delay", "test_e2e_twin")


@pytest.fixture(scope="module", autouse=True)
def budget(request: pytest.FixtureRequest, session_lab: Lab) -> None:  # noqa: F811
    """Have no container of these experiments ask for real-time budget."""
    if request.path.name.startswith(WITHOUT_BUDGET):
        session_lab.environment[RATIONED] = ""
    else:
        session_lab.environment.pop(RATIONED, None)
