"""The lab under test: copied and made ready once, cleared before and after each test."""

import pytest
from support.e2e_lab import RATIONED, Lab, lab, own_lab, session_lab  # noqa: F401
from support.flags import WITHOUT_BUDGET


@pytest.fixture(scope="module", autouse=True)
def budget(request: pytest.FixtureRequest, session_lab: Lab) -> None:  # noqa: F811
    """Have no container of the runs without priority ask for real-time budget."""
    if request.path.stem.removeprefix("test_e2e_") in WITHOUT_BUDGET:
        session_lab.environment[RATIONED] = ""
    else:
        session_lab.environment.pop(RATIONED, None)
