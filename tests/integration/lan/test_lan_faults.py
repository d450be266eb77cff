"""What keeps a bridge from its broker: its log says which of these it is, once, and it is back when that is mended."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.lan_broker import LanBroker, Visitor
from support.parts import HOST, Child, free_port, until

from looplab.experiments.loop.protocol import ONLINE, TOPIC_BRIDGE_STATUS
from looplab.lab.credentials import certificates, identities
from looplab.lab.credentials.secret_files import write_secret
from looplab.mqtt.pairing import write_pairing

# From the end of the cause to the retained `online`.
RECOVERY_S = 2.0
StartBridge = Callable[..., Child]


def expired(lan: LanBroker) -> None:
    lan.serve_certificate(days=-1)


def not_yet_valid(lan: LanBroker) -> None:
    """openssl's x509 command of Debian 12 signs from today on only; its `ca` command can do otherwise."""
    folder = lan.root / "authority"
    folder.mkdir()
    (folder / "index.txt").touch()
    authority = lan.root / identities.LAN
    (folder / "configuration").write_text(
        f"[ca]\ndefault_ca=own\n[own]\ndatabase={folder}/index.txt\nnew_certs_dir={folder}\nrand_serial=yes\n"
        "default_md=sha256\npolicy=any\n[any]\ncommonName=optional\n"
        f"[server]\nsubjectAltName=IP:{HOST}\n"
    )
    names = {name: str(folder / name) for name in ("key", "request", "crt", "configuration")}
    for words in (
        f"req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=later -keyout {names['key']} "
        f"-out {names['request']}",
        f"ca -batch -notext -config {names['configuration']} -extensions server -startdate 20900101000000Z "
        f"-enddate 20910101000000Z -cert {authority}/ca.crt -keyfile {authority}/ca.key -in {names['request']} "
        f"-out {names['crt']}",
    ):
        subprocess.run(["openssl", *words.split()], check=True, capture_output=True, timeout=30)
    lan.install(Path(names["key"]).read_text(), Path(names["crt"]).read_text())


def other_name(lan: LanBroker) -> None:
    lan.serve_certificate(names=("192.0.2.1", "elsewhere.example"))


def other_identity(lan: LanBroker) -> None:
    lan.install(*certificates.make_server(certificates.make_authority(), [HOST]))


BAD_CERTIFICATES = {
    "expired": (expired, "the broker's certificate has expired"),
    "not yet valid": (not_yet_valid, "the broker's certificate is not valid yet"),
    "other name": (other_name, "the broker's certificate is for another name"),
    "other identity": (other_identity, "the broker's identity is not the one this machine was paired with"),
}


def await_return(lan: LanBroker, bridge: Child, repair: Callable[[], None]) -> None:
    """The bridge is online within RECOVERY_S of the moment when `repair` has done its work."""
    repair()
    mended_s = time.monotonic()
    # Somebody who arrives later than the bridge finds the retained word.
    insider = Visitor.inside(lan, TOPIC_BRIDGE_STATUS)
    until(lambda: (TOPIC_BRIDGE_STATUS, ONLINE) in insider.messages, f"the bridge is back: {bridge.said()}")
    took_s = time.monotonic() - mended_s
    insider.close()
    assert took_s < RECOVERY_S
    until(lambda: "bridge: broker: connected to" in bridge.said(), "the bridge says so")


def troubles(bridge: Child) -> list[str]:
    return [line for line in bridge.said().splitlines() if line.startswith("bridge: broker: ")]


def hear_once(bridge: Child, words: str) -> None:
    """The cause is told, and not again with each of the next attempts."""
    until(lambda: words in bridge.said(), f"{words!r}: {bridge.said()}")
    # Attempts come five times a second.
    time.sleep(0.6)
    assert [words in line for line in troubles(bridge)].count(True) == 1, bridge.said()


@pytest.mark.parametrize("kind", BAD_CERTIFICATES)
def test_a_certificate_that_is_not_good(lan: LanBroker, start_bridge: StartBridge, kind: str) -> None:
    spoil, words = BAD_CERTIFICATES[kind]
    spoil(lan)
    lan.restart()
    bridge = start_bridge(BROKER_PAIRING=str(lan.pairing_file()))
    hear_once(bridge, words)

    def repair() -> None:
        lan.serve_certificate()
        lan.restart()

    await_return(lan, bridge, repair)


def test_a_wrong_password_is_told_and_the_right_one_taken_without_a_restart(
    lan: LanBroker, start_bridge: StartBridge
) -> None:
    file = lan.pairing_file(password="guessed")
    bridge = start_bridge(BROKER_PAIRING=str(file))
    hear_once(bridge, "wrong user or password for bridge")
    await_return(lan, bridge, lambda: write_secret(file, write_pairing(lan.pairing())))
    assert "guessed" not in bridge.said()


def test_a_renewal_here_is_told_there_and_pairing_again_mends_it(lan: LanBroker, start_bridge: StartBridge) -> None:
    file = lan.pairing_file()
    bridge = start_bridge(BROKER_PAIRING=str(file))
    until(lambda: "as bridge-" in lan.said(), "the bridge has come")
    lan.renew()
    lan.serve_certificate()
    lan.restart()
    hear_once(bridge, "the broker's identity is not the one this machine was paired with")
    await_return(lan, bridge, lambda: write_secret(file, write_pairing(lan.pairing())))


def test_a_plain_client_on_the_tls_port_is_told_so(lan: LanBroker, start_bridge: StartBridge) -> None:
    bridge = start_bridge(BROKER_HOST=HOST, BROKER_PORT=str(lan.tls_port))
    until(lambda: troubles(bridge), "a word")
    # Some versions of TLS send an alert, some a reset, some just close.
    assert "TLS port" in troubles(bridge)[0] or "reset by peer" in troubles(bridge)[0], bridge.said()


def test_tls_on_the_plain_port_is_told_so(lan: LanBroker, start_bridge: StartBridge) -> None:
    bridge = start_bridge(BROKER_PAIRING=str(lan.pairing_file(port=lan.port)))
    hear_once(bridge, "is this the port without TLS?")


def test_nobody_there_is_not_taken_for_a_wrong_broker(lan: LanBroker, start_bridge: StartBridge) -> None:
    lan.stop()
    bridge = start_bridge(BROKER_PAIRING=str(lan.pairing_file()))
    hear_once(bridge, "Connection refused")
    await_return(lan, bridge, lan.start)


def test_a_pairing_file_that_is_damaged_ends_the_bridge_with_the_remedy(
    tmp_path: Path, start_child: StartBridge
) -> None:
    file = tmp_path / "pairing.env"
    file.write_text("BROKER_HOST=x\nBROKER_PORT=1\nBROKER_USER=b\nBROKER_PASSWORD=hush\nBROKER_CA_BASE64=eA==\n")
    bridge = start_child(
        "looplab.experiments.loop.bridge.program", BROKER_PAIRING=str(file), SERIAL_URL=f"socket://{HOST}:{free_port()}"
    )
    assert bridge.wait() == 2
    assert "is damaged" in bridge.said()
    assert "./lab pair" in bridge.said()
    assert "hush" not in bridge.said()
