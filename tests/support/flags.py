"""The flags of tests that take long or need much, which are left out unless the environment sets one to 1.

The values of a flag that has others stand behind its minutes.
"""

FLAGS = {
    "LAB_ALL_HANDOUTS": "11 min: every handout typed, not only one",
    "LAB_FLASH": "1 min: avrdude from Debian's archive",
    "LAB_FROM_REGISTRY": "5 min: docker-registry from Debian's archive; a scenario from its images",
    "LAB_MANY_HOSTS": "8 min: root, two more engines; the loop with its parts on several hosts",
    "LAB_MIDDLEWARE_FAULTS": "20 min: root, dead services, a full disk, too little memory, bad input",
    "LAB_NETEM_VM": "10 min: qemu-system-x86, busybox-static, a kernel package; netem of the kernel",
    "LAB_OWN_LONG": "6 min: root, tcpdump, a quiet machine; 100,000 requests, what the capture costs",
    "LAB_PI_VM": "10-60 min: root, qemu-system-x86, debootstrap, openssh-client; a virtual Raspberry Pi",
    "LAB_SOAK": "60 min: 1, or another number of seconds; scenario5 beside reports, restarts and other callers",
    "LAB_SWARM": "15 min: root, three further engines; the stack files on a Swarm over VXLAN",
    "LAB_TWO_HOSTS": "15 min: 1 or plain; root, a second engine; the bridge on another host",
    "LAB_USB_VM": "3 min: qemu-system-x86, busybox-static, a kernel package; asip's board on a virtual USB",
    "LAB_UNPLUGGED": "20 min: root, a second engine; a bundle in a room without a network",
    "LAB_VM": "40 min: debian13, debian12 or ubuntu2404; root, qemu-system-x86, debootstrap, openssh-client, 20 GB",
}
