"""The programs of a node of DeviceHive, as the start scripts of its images run them."""

from looplab.experiments.middleware.systems import OWNER, POSTGRES, REDIS, TOKEN_LIFE_S, NodePlace, ServiceProgram
from looplab.experiments.middleware.systems.devicehive import AUTH, FRONTEND, KAFKA, SYSTEM, ZOOKEEPER

DATABASE = "devicehive"
# DeviceHive's default of 120 s is shorter than a load: notifications would expire before they are read back.
KEPT_S = 86_400
BACKEND = 8081


def node(place: NodePlace) -> list[ServiceProgram]:
    """Return the programs of one node in the order in which they start."""
    kafka, zookeeper = f"{place.hosts['kafka']}:{KAFKA}", f"{place.hosts['zookeeper']}:{ZOOKEEPER}"
    every = {
        "spring.datasource.url": f"jdbc:postgresql://{place.hosts['postgres']}:{POSTGRES}/{DATABASE}",
        "spring.datasource.username": OWNER,
        "spring.datasource.password": place.secrets["postgres"],
        "bootstrap.servers": kafka,
        "zookeeper.connect": zookeeper,
        "replication.factor": "1",
        "com.devicehive.log.level": "WARN",
        "root.log.level": "WARN",
    }
    environment = {
        "REDIS_MASTER_HOST": place.hosts["redis"],
        "REDIS_MASTER_PORT": str(REDIS),
        "JWT_SECRET": place.secrets["tokens"],
    }

    def service(name: str, profile: str, port: int, path: str, memory: tuple[str, ...], **own: str) -> ServiceProgram:
        settings = {**every, "server.port": str(port), **({"server.servlet.context-path": path} if path else {}), **own}
        options = [f"-D{key}={value}" for key, value in settings.items()]
        jar = f"{place.programs}/devicehive-{name}-{SYSTEM.version}-boot.jar"
        command = ("java", "-server", *memory, "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", *options, "-jar", jar)
        return ServiceProgram(name, command, {**environment, "SPRING_PROFILES_ACTIVE": profile}, port, folder="/tmp")

    large, small = ("-Xms1g", "-Xmx2g"), ("-Xms128m", "-Xmx256m")
    kept = {"devicehive.cache.notifications.ttl.seconds": str(KEPT_S)}
    tokens = {
        # Two of its configurations define a bean of the same name. Without this option auth ends at its start.
        "spring.main.allow-bean-definition-overriding": "true",
        "jwt.access-token-max-age": str(TOKEN_LIFE_S * 1000),
    }
    auth_url = {"auth.base.url": f"http://127.0.0.1:{AUTH}/auth/rest"}
    return [
        service("backend", "rpc-server", BACKEND, "", large, **kept),
        service("auth", "rpc-client", AUTH, "/auth", small, **tokens),
        service("frontend", "rpc-client", FRONTEND, "/api", large, **auth_url),
    ]
