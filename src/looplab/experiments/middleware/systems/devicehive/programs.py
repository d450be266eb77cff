"""The programs of DeviceHive: three of a node, as the start scripts of its images run them, and four that all share."""

from looplab.experiments.middleware.systems import OWNER, POSTGRES, REDIS, Place, Program, postgres, redis
from looplab.experiments.middleware.systems.devicehive import AUTH, FRONTEND, SYSTEM

KAFKA_FOLDER = "/opt/kafka"
DATABASE = "devicehive"
# Long enough to be read back: its own 120 s end within a load.
KEPT_S = 86_400
# The scripts of Kafka log into their own folder, which is read-only.
LOGS = {"LOG_DIR": "/tmp/kafka"}
ZOOKEEPER, KAFKA, BACKEND = 2181, 9092, 8081


def node(place: Place) -> list[Program]:
    """Return the programs of one node in the order in which they start."""
    kafka, zookeeper = f"{place.hosts['kafka']}:{KAFKA}", f"{place.hosts['zookeeper']}:{ZOOKEEPER}"
    # As the start scripts of its images.
    ports = {"zookeeper": ZOOKEEPER, "kafka": KAFKA, "postgres": POSTGRES, "redis": REDIS}
    needed = tuple((place.hosts[name], port) for name, port in ports.items())
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

    def service(name: str, profile: str, port: int, path: str, memory: tuple[str, ...], **own: str) -> Program:
        settings = {**every, "server.port": str(port), **({"server.servlet.context-path": path} if path else {}), **own}
        options = [f"-D{key}={value}" for key, value in settings.items()]
        jar = f"{place.programs}/devicehive-{name}-{SYSTEM.version}-boot.jar"
        command = ("java", "-server", *memory, "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", *options, "-jar", jar)
        return Program(
            name, command, {**environment, "SPRING_PROFILES_ACTIVE": profile}, port, after=needed, folder="/tmp"
        )

    large, small = ("-Xms1g", "-Xmx2g"), ("-Xms128m", "-Xmx256m")
    kept = {"devicehive.cache.notifications.ttl.seconds": str(KEPT_S)}
    tokens = {
        # Two of its own configurations name a bean alike: else auth ends at its start.
        "spring.main.allow-bean-definition-overriding": "true",
        "jwt.access-token-max-age": str(place.token_life_s * 1000),
    }
    auth_url = {"auth.base.url": f"http://127.0.0.1:{AUTH}/auth/rest"}
    return [
        service("backend", "rpc-server", BACKEND, "", large, **kept),
        service("auth", "rpc-client", AUTH, "/auth", small, **tokens),
        service("frontend", "rpc-client", FRONTEND, "/api", large, **auth_url),
    ]


def data(name: str, place: Place) -> Program:
    """Return the program of the data service `name`."""
    if name == "redis":
        return redis()
    if name == "zookeeper":
        lines = f"dataDir=/data/zookeeper\\nclientPort={ZOOKEEPER}\\nadmin.enableServer=false\\n"
        start = f"{KAFKA_FOLDER}/bin/zookeeper-server-start.sh /tmp/zookeeper.properties"
        return Program(
            name, ("sh", "-c", f"printf '{lines}' >/tmp/zookeeper.properties && exec {start}"), LOGS, ZOOKEEPER
        )
    if name == "kafka":
        return _kafka(place)
    return postgres(place, [DATABASE])


def _kafka(place: Place) -> Program:
    settings = {
        "zookeeper.connect": f"{place.hosts['zookeeper']}:{ZOOKEEPER}",
        "listeners": f"PLAINTEXT://0.0.0.0:{KAFKA}",
        "advertised.listeners": f"PLAINTEXT://{place.hosts['kafka']}:{KAFKA}",
        "log.dirs": "/data/kafka",
        "offsets.topic.replication.factor": "1",
    }
    overrides = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    command = (f"{KAFKA_FOLDER}/bin/kafka-server-start.sh", f"{KAFKA_FOLDER}/config/server.properties", *overrides)
    return Program("kafka", command, LOGS, KAFKA)
