"""The agent of a part: starts its programs on chosen processors, watches them, and reports what they used."""

PORT = 9200
# The agent of bare metal, in the network of the first node.
HOST_PORT = 9201
# Whose token the orders to nodes and balancer carry (SECRETS of the experiment).
TOKEN = "nodes"
