"""The capture of what a cell sent: tcpdump takes the packets, in a container of its own; MQTT is counted after."""
