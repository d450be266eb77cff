"""The programs of a node of Magistrala. All telemetry is off."""

from looplab.experiments.middleware.systems import (
    OWNER,
    POSTGRES,
    REDIS,
    TOKEN_LIFE_S,
    NodePlace,
    ServiceProgram,
    in_turn,
)
from looplab.experiments.middleware.systems.magistrala import AUTH, HTTP, NATS, THINGS, USERS

SPICEDB = 50051
AUTH_GRPC, THINGS_GRPC = 8181, 7000
# The http adapter answers health checks here. Devices reach a proxy in front of it.
HTTP_INNER = 81
# The services of a node call each other at HERE. Those that devices call listen on EVERY address.
HERE, EVERY = "127.0.0.1", "0.0.0.0"


def node(place: NodePlace) -> list[ServiceProgram]:
    """Return the programs of one node in the order in which they start."""
    secrets = place.secrets
    every = {
        "MG_SEND_TELEMETRY": "false",
        "MG_ES_URL": _redis(place),
        "MG_MESSAGE_BROKER_URL": f"nats://{OWNER}:{place.secrets['postgres']}@{place.hosts['nats']}:{NATS}",
        "MG_SPICEDB_HOST": HERE,
        "MG_SPICEDB_PORT": str(SPICEDB),
        "MG_SPICEDB_PRE_SHARED_KEY": secrets["spicedb"],
        "MG_AUTH_GRPC_URL": f"{HERE}:{AUTH_GRPC}",
        "MG_THINGS_AUTH_GRPC_URL": f"{HERE}:{THINGS_GRPC}",
        "MG_THINGS_AUTH_GRPC_TIMEOUT": "10s",
        "MG_AUTH_GRPC_TIMEOUT": "10s",
        # No collector of traces runs.
        "MG_JAEGER_TRACE_RATIO": "0",
        "OTEL_SDK_DISABLED": "true",
    }

    def service(name: str, port: int, *, health: int = 0, marked: str = "", **own: str) -> ServiceProgram:
        prefix = "MG_HTTP_ADAPTER" if name == "http" else f"MG_{name.upper()}"
        level = "info" if marked else "error"
        settings = {f"{prefix}_LOG_LEVEL": level, f"{prefix}_HTTP_PORT": str(port), **every, **own}
        settings.update(_database(place, f"{prefix}_DB_", name))
        return ServiceProgram(
            name,
            (f"{place.programs}/{name}",),
            settings,
            f"http://{HERE}:{health or port}/health",
            marked=marked,
            folder=place.programs,
        )

    return [
        _spicedb(place),
        service(
            "auth",
            AUTH,
            MG_AUTH_HTTP_HOST=EVERY,
            MG_AUTH_GRPC_HOST=HERE,
            MG_AUTH_GRPC_PORT=str(AUTH_GRPC),
            MG_AUTH_SECRET_KEY=secrets["tokens"],
            MG_AUTH_ACCESS_TOKEN_DURATION=f"{TOKEN_LIFE_S}s",
            MG_SPICEDB_SCHEMA_FILE=f"{place.programs}/schema.zed",
        ),
        service(
            "users",
            USERS,
            MG_USERS_HTTP_HOST=EVERY,
            MG_USERS_ADMIN_EMAIL="admin@looplab.invalid",
            MG_USERS_ADMIN_PASSWORD=secrets["admin"],
            MG_EMAIL_TEMPLATE=f"{place.programs}/email.tmpl",
        ),
        service(
            "things",
            THINGS,
            MG_THINGS_HTTP_HOST=EVERY,
            MG_THINGS_AUTH_GRPC_HOST=HERE,
            MG_THINGS_AUTH_GRPC_PORT=str(THINGS_GRPC),
            MG_THINGS_CACHE_URL=_redis(place),
        ),
        service("http", HTTP, health=HTTP_INNER, marked="Publish completed", MG_HTTP_ADAPTER_PORT=str(HTTP)),
    ]


def _redis(place: NodePlace) -> str:
    """Return the address of Redis, which has the database's password."""
    return f"redis://:{place.secrets['postgres']}@{place.hosts['redis']}:{REDIS}/0"


def _database(place: NodePlace, prefix: str, name: str) -> dict[str, str]:
    settings = {"HOST": place.hosts["postgres"], "USER": OWNER, "PASS": place.secrets["postgres"], "NAME": name}
    return {f"{prefix}{key}": value for key, value in settings.items()}


def _spicedb(place: NodePlace) -> ServiceProgram:
    owner, where = f"{OWNER}:{place.secrets['postgres']}", f"{place.hosts['postgres']}:{POSTGRES}"
    options = {
        "SPICEDB_GRPC_PRESHARED_KEY": place.secrets["spicedb"],
        "SPICEDB_GRPC_ADDR": f"{HERE}:{SPICEDB}",
        "SPICEDB_DATASTORE_ENGINE": "postgres",
        "SPICEDB_DATASTORE_CONN_URI": f"postgres://{owner}@{where}/spicedb?sslmode=disable",
        "SPICEDB_TELEMETRY_ENDPOINT": "",
        "SPICEDB_METRICS_ENABLED": "false",
        "SPICEDB_LOG_LEVEL": "error",
        "SPICEDB_SKIP_RELEASE_CHECK": "true",
    }
    command = (f"{place.programs}/spicedb", "serve", "--telemetry-endpoint=")
    migrate = (f"{place.programs}/spicedb", "datastore", "migrate", "head", "--skip-release-check")
    return ServiceProgram("spicedb", in_turn(migrate, command), options, SPICEDB)
