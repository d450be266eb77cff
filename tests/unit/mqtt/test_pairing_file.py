"""A pairing file that is wrong is refused with the remedy; a right one: tests/unit/run/test_identities.py."""

from pathlib import Path

import pytest

from looplab.errors import UsageError
from looplab.mqtt.pairing import read_pairing

CUT = "BROKER_HOST=x\nBROKER_PORT=1883\nBROKER_USER=b\nBROKER_PASSWORD=hush\nBROKER_CA_BASE64="
WRONG = {
    "no such file": (None, "cannot be read: No such file or directory"),
    "another encoding": (CUT.encode("utf-16"), "is damaged: .* line 1: a character that is not UTF-8"),
    "only an address": (b"BROKER_HOST=x\n", "has no BROKER_PORT, BROKER_USER, BROKER_PASSWORD, BROKER_CA_BASE64"),
    "no port": (CUT.replace("1883", "mqtt").encode() + b"eA==", r"is damaged \(`BROKER_PORT=mqtt` is not a port"),
    "cut before the authority": (CUT.encode(), "has no BROKER_CA_BASE64"),
    "no base64": (CUT.encode() + b"eA", r"is damaged \(.*padding"),
    "no certificate": (CUT.encode() + b"eA==", r"is damaged \("),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_with_the_remedy(tmp_path: Path, case: str) -> None:
    content, message = WRONG[case]
    if content is not None:
        (tmp_path / "pi.env").write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        read_pairing(tmp_path / "pi.env")
    assert "./lab pair FILE" in caught.value.remedy
    assert "hush" not in caught.value.message
