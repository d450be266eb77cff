"""The link emulator: delay, jitter, loss, duplication, order and rate of real packets, in either direction."""
