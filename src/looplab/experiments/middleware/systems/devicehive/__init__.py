"""DeviceHive 4.1.0, the middleware that the paper measured, out of its published images; untested against the real one.

Its adapter is tested against its published API. `Dockerfile` and `compose.yaml` are beside this file.
"""

from looplab.experiments.middleware.systems import System

FRONTEND, AUTH = 8080, 8090
SYSTEM = System(
    name="devicehive",
    version="4.1.0",
    services=("backend", "auth", "frontend"),
    data=("postgres", "redis", "zookeeper", "kafka"),
    ports={"/auth/": AUTH, "": FRONTEND},
)
