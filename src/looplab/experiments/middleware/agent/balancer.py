"""The balancer: nginx with the configuration beside this file, and the services of the nodes of a cell."""

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from looplab.experiments.middleware.systems import ServiceProgram, System

PORT = 8443
NGINX = "nginx"
CONFIGURATION = Path(__file__).with_name("nginx.conf")
_START = f"""\
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout balancer.key -out balancer.pem \
    -days 90 -subj /CN=balancer -addext subjectAltName=DNS:balancer
exec nginx -c {CONFIGURATION} -e stderr
"""


def upstreams(system: System, nodes: Sequence[str]) -> dict[str, str]:
    """Return the files that nginx.conf includes: each service of each node in turn, by the beginning of a path.

    Raises ValueError for a node that is no address: other text would be lines of the configuration.
    """
    nodes = [str(ipaddress.IPv4Address(address)) for address in nodes]
    blocks, locations = "", ""
    for path, port in system.ports.items():
        servers = " ".join(f"server {address}:{port} max_conns=9000;" for address in nodes)
        blocks += f"upstream port_{port} {{ {servers} keepalive 64; }}\n"
        locations += f"location {path or '/'} {{ proxy_pass http://port_{port}; }}\n"
    return {"upstreams.conf": blocks, "locations.conf": locations}


def program(system: System, nodes: Sequence[str]) -> ServiceProgram:
    """Write what nginx.conf includes, and return nginx, which starts with a fresh certificate."""
    for name, text in upstreams(system, nodes).items():
        Path("/tmp", name).write_text(text)
    return ServiceProgram(NGINX, ("sh", "-ec", _START), port=PORT, folder="/tmp")
