"""CLIENTS=printed: publisher and subscriber of the thesis, programs of their own (images/printed), watched by packets.

The controller starts them as its children and measures T and O by its own packets, which the kernel stamps: a program
that spins stamps late. What the programs stamp is kept beside it.
"""

PUBLISHER, SUBSCRIBER = "publisher", "subscriber"
# The sample store's columns of their own stamps, in ns of the controller's monotonic clock.
COLUMNS = ("client_sent_ns", "client_received_ns")
