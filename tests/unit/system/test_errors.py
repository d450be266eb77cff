"""An error's class gives the exit code."""

import pytest

from looplab.errors import LabError, MachineError, UsageError


@pytest.mark.parametrize(("kind", "code"), [(LabError, 1), (UsageError, 2), (MachineError, 3)])
def test_each_kind_of_error_has_its_exit_code(kind: type[LabError], code: int) -> None:
    error = kind("It failed.", "Do this.")
    assert (error.exit_code, error.message, error.remedy) == (code, "It failed.", "Do this.")
    assert str(error) == "It failed.\n  Do this."
    assert str(kind("It failed.")) == "It failed."
