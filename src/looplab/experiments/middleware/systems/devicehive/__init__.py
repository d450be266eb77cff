"""DeviceHive 4.1.0, the middleware that the paper measured, out of its published images.

Its adapter was driven against the real programs. Their images could not be pulled, so the tests use a double.
`Dockerfile` and `compose.yaml` are beside this file.
"""

from looplab.experiments.middleware.systems import POSTGRES, REDIS, System

FRONTEND, AUTH = 8080, 8090
ZOOKEEPER, KAFKA = 2181, 9092
SYSTEM = System(
    name="devicehive",
    version="4.1.0",
    services=("backend", "auth", "frontend"),
    data={"postgres": POSTGRES, "redis": REDIS, "zookeeper": ZOOKEEPER, "kafka": KAFKA},
    ports={"/auth/": AUTH, "": FRONTEND},
    start_s=60.0,
    start_timeout_s=240.0,
)
