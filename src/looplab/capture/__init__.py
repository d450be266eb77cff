"""The capture of what a cell sent: Wireshark's own tools take and dissect the packets, in a container of their own."""
