"""nginx as published: TLS in, plain HTTP to the nodes in turn, 9000 connections and as long a queue."""

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from looplab.experiments.middleware.systems import ServiceProgram, System, in_turn

PORT = 8443
CONNECTIONS = 9000
CONFIGURATION, KEY, CERTIFICATE = "/tmp/nginx.conf", "/tmp/balancer.key", "/tmp/balancer.pem"
# One worker: `auto` would start one for each processor of the machine, not for each that nginx may use.
_WHOLE = f"""\
daemon off;
pid /tmp/nginx.pid;
worker_processes 1;
worker_rlimit_nofile {2 * CONNECTIONS + 100};
error_log stderr error;
events {{ worker_connections {CONNECTIONS}; }}
http {{
    access_log off;
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    keepalive_timeout 65;
    keepalive_requests 100000;
    %s
    server {{
        listen {PORT} ssl backlog={CONNECTIONS};
        ssl_certificate {CERTIFICATE};
        ssl_certificate_key {KEY};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        %s
    }}
}}
"""
_MAKE_CERTIFICATE = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
    *("-keyout", KEY, "-out", CERTIFICATE, "-days", "90"),
    *("-subj", "/CN=balancer", "-addext", "subjectAltName=DNS:balancer"),
)


def configuration(system: System, upstreams: Sequence[str]) -> str:
    """Return nginx.conf: each service of each node in turn, by the beginning of a request's path.

    Raises ValueError for an upstream that is no address: other text would be lines of nginx.conf.
    """
    upstreams = [str(ipaddress.IPv4Address(address)) for address in upstreams]
    blocks, locations = [], []
    for path, port in system.ports.items():
        servers = " ".join(f"server {address}:{port} max_conns={CONNECTIONS};" for address in upstreams)
        blocks.append(f"upstream port_{port} {{ {servers} keepalive 64; }}")
        locations.append(f"location {path or '/'} {{ proxy_pass http://port_{port}; }}")
    return _WHOLE % ("\n    ".join(blocks), "\n        ".join(locations))


def program(system: System, upstreams: Sequence[str]) -> ServiceProgram:
    """Write the configuration, and return nginx, which starts with a fresh certificate."""
    Path(CONFIGURATION).write_text(configuration(system, upstreams))
    start = ("nginx", "-c", CONFIGURATION, "-e", "stderr")
    return ServiceProgram("nginx", in_turn(_MAKE_CERTIFICATE, start), health=PORT)
