"""Magistrala 0.15.1 with SpiceDB: built from its Go modules, images/magistrala."""

from looplab.experiments.middleware.systems import POSTGRES, REDIS, System

HTTP, THINGS, USERS, AUTH = 8008, 9000, 9002, 8189
NATS = 4222
SYSTEM = System(
    name="magistrala",
    version="0.15.1",
    services=("spicedb", "auth", "users", "things", "http"),
    data={"postgres": POSTGRES, "nats": NATS, "redis": REDIS, "writer": 9010},
    ports={"/channels/": HTTP, "/users/": USERS, "/domains": AUTH, "": THINGS},
)
