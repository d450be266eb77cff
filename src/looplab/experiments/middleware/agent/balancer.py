"""nginx as published: TLS in, plain HTTP to the nodes in turn, 9000 connections and as long a queue."""

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from looplab.experiments.middleware.systems import Program, System, in_turn

PORT = 8443
CONNECTIONS = 9000
CONFIGURATION, KEY, CERTIFICATE = Path("/tmp/nginx.conf"), Path("/tmp/balancer.key"), Path("/tmp/balancer.pem")
# nginx's own worker count would be that of the machine: one for each processor it may use.
_WHOLE = """\
daemon off;
pid /tmp/nginx.pid;
worker_processes 1;
worker_rlimit_nofile {files};
error_log stderr error;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    keepalive_timeout 65;
    keepalive_requests 100000;
{upstreams}
    server {{
        listen {port} ssl backlog={connections};
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
{locations}
    }}
}}
"""


def configuration(system: System, upstreams: Sequence[str]) -> str:
    """Return nginx.conf: each service of each node in turn, by the beginning of a request's path.

    Raises ValueError for an upstream that is no address: other text would be lines of nginx.conf.
    """
    upstreams = [str(ipaddress.IPv4Address(address)) for address in upstreams]
    blocks, locations = [], []
    for path, port in system.ports.items():
        name = f"port_{port}"
        servers = "".join(f"        server {address}:{port} max_conns={CONNECTIONS};\n" for address in upstreams)
        blocks.append(f"    upstream {name} {{\n{servers}        keepalive 64;\n    }}")
        locations.append(f"        location {path or '/'} {{ proxy_pass http://{name}; }}")
    return _WHOLE.format(
        upstreams="\n".join(blocks),
        locations="\n".join(locations),
        port=PORT,
        connections=CONNECTIONS,
        files=2 * CONNECTIONS + 100,
        certificate=CERTIFICATE,
        key=KEY,
    )


def program(system: System, upstreams: Sequence[str]) -> Program:
    """Write configuration, key and certificate, and return nginx; the devices trust this certificate alone."""
    CONFIGURATION.write_text(configuration(system, upstreams))
    make = (
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", str(KEY), "-out", str(CERTIFICATE), "-days", "90"),
        *("-subj", "/CN=balancer", "-addext", "subjectAltName=DNS:balancer"),
    )
    return Program("nginx", in_turn(make, ("nginx", "-c", str(CONFIGURATION), "-e", "stderr")), health=PORT)
