"""The agent of a part: starts its programs on chosen processors, and reports what they use.

Compose cannot: each cell of a run has other nodes and processors, and no container may reach the engine.
"""

PORT = 9200
# Bare metal listens in the network of the first node.
HOST_PORT = 9201
# The secret that every order to a node or to the balancer carries.
TOKEN = "nodes"
# The variable with the token of orders to bare metal, which ./lab starts.
HOST_TOKEN = "HOST_TOKEN"
# An agent gives up after the system's own time, and then stops what it has started.
STOP_TIMEOUT_S = 60.0
