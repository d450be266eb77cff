"""The programs of DeviceHive: three of a node, as the start scripts of its images run them, and four that all share."""

from looplab.experiments.middleware.systems import OWNER, POSTGRES, REDIS, Place, Program, postgres, redis
from looplab.experiments.middleware.systems.devicehive import AUTH, FRONTEND, SYSTEM

FOLDER, KAFKA_FOLDER = "/opt/devicehive", "/opt/kafka"
DATABASE = "devicehive"
ZOOKEEPER, KAFKA, BACKEND = 2181, 9092, 8081


def node(place: Place) -> list[Program]:
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

    def service(name: str, profile: str, port: int, path: str, memory: tuple[str, ...], **own: str) -> Program:
        settings = {**every, "server.port": str(port), **({"server.servlet.context-path": path} if path else {}), **own}
        options = [f"-D{key}={value}" for key, value in settings.items()]
        jar = f"{FOLDER}/devicehive-{name}-{SYSTEM.version}-boot.jar"
        command = ("java", "-server", *memory, "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", *options, "-jar", jar)
        return Program(name, command, {**environment, "SPRING_PROFILES_ACTIVE": profile}, port, folder=FOLDER)

    large, small = ("-Xms1g", "-Xmx2g"), ("-Xms128m", "-Xmx256m")
    auth_url = f"http://127.0.0.1:{AUTH}/auth/rest"
    return [
        service("backend", "rpc-server", BACKEND, "", large),
        service("auth", "rpc-client", AUTH, "/auth", small),
        service("frontend", "rpc-client", FRONTEND, "/api", large, **{"auth.base.url": auth_url}),
    ]


def data(name: str, place: Place) -> Program:
    """Return the program of the data service `name`."""
    if name == "redis":
        return redis()
    if name == "zookeeper":
        lines = f"dataDir=/data/zookeeper\\nclientPort={ZOOKEEPER}\\nadmin.enableServer=false\\n"
        start = f"{KAFKA_FOLDER}/bin/zookeeper-server-start.sh /tmp/zookeeper.properties"
        return Program(
            name, ("sh", "-c", f"printf '{lines}' >/tmp/zookeeper.properties && exec {start}"), {}, ZOOKEEPER
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
    return Program("kafka", command, {}, KAFKA)
