"""The link emulator: delay, jitter, loss and order of real packets, in either direction."""
