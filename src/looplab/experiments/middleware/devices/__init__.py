"""The simulated devices: a process for each processor that drives them, on as many machines as needed."""

PORT = 9210
PROCESS = "lab-devices"
