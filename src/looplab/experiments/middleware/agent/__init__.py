"""The agent of a part: starts its programs on chosen processors, and reports what they use."""

PORT = 9200
# Bare metal listens in the network of the first node.
HOST_PORT = 9201
# The secret that every order to a node or to the balancer carries.
TOKEN = "nodes"
# The variable with the token of orders to bare metal, which ./lab starts.
HOST_TOKEN = "HOST_TOKEN"
