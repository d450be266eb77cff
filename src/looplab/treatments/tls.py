"""TLS as a treatment: wanted on a connection or not, and the version that was really negotiated."""

from looplab.treatments.judgement import Treatment

OFF = "off"
ON = "TLS 1.2 or later"
ACCEPTED = ("TLSv1.2", "TLSv1.3")


def judge_tls(role: str, wanted: bool, version: str) -> Treatment:
    """Judge the `version` on the connection of `role`: "" without TLS, "unknown" if nobody reported one."""
    verified = version in ACCEPTED if wanted else version == ""
    note = "" if verified else "the bridge goes by its pairing file (./lab pair), the controller by BROKER_TLS"
    return Treatment(f"{role} TLS", ON if wanted else OFF, version or OFF, verified, note=note)
