"""Which tests need a flag, and which tests of the whole lab need no real-time budget.

A test that takes long or needs much is left out unless the environment sets its flag to 1. The values of a flag that
has others stand behind its minutes.
"""

# tests/e2e/test_e2e_NAME.py: no run of these has priority, so their lab may run beside another, which has the budget.
WITHOUT_BUDGET = (
    "asip", "faults", "look_inside", "middleware", "own_programs", "qos_delay", "secrets", "study", "table_added",
    "twin", "two_runs", "wrong_use",
)  # fmt: skip
FLAGS = {
    "LAB_ALL_HANDOUTS": "11 min: every handout typed, not only one",
    "LAB_FLASH": "1 min: avrdude from Debian's archive",
    "LAB_FROM_REGISTRY": "5 min: docker-registry from Debian's archive; a scenario from its images",
    "LAB_MANY_HOSTS": "8 min: root, two more engines; the loop with its parts on several hosts",
    "LAB_MIDDLEWARE_FAULTS": "20 min: root, dead services, a full disk, too little memory, bad input",
    "LAB_NETEM_VM": "10 min: root, qemu-system-x86, debootstrap; netem of the kernel",
    "LAB_OWN_LONG": "6 min: root, tcpdump, a quiet machine; 100,000 requests, what the capture costs",
    "LAB_PI_VM": "10-60 min: root, qemu-system-x86, debootstrap, openssh-client; a virtual Raspberry Pi",
    "LAB_SOAK": "60 min: 1, or another number of seconds; scenario5 beside reports, restarts and other callers",
    "LAB_SWARM": "15 min: root, three further engines; the stack files on a Swarm over VXLAN",
    "LAB_UNPLUGGED": "20 min: root, a second engine; a bundle in a room without a network",
    "LAB_VM": "40 min: debian13, debian12 or ubuntu2404; root, qemu-system-x86, debootstrap, openssh-client, 20 GB",
}
