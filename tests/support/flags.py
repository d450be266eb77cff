"""The flags of tests that take long or need much: set in the environment, listed at the end of a session."""

import os
from dataclasses import dataclass

from support.vm_disk import SYSTEMS


@dataclass(frozen=True)
class Flag:
    """An environment variable; `values` are those that run its tests, `needs` what they use beside root."""

    name: str
    minutes: str
    needs: str
    values: tuple[str, ...] = ("1",)

    @property
    def value(self) -> str:
        return os.environ.get(self.name, "")

    def is_set(self) -> bool:
        return self.value in self.values

    def refusal(self) -> str:
        """Why the value runs nothing, "" if it does or if none is set."""
        known = self.value in ("", "0", *self.values)
        return "" if known else f"{self.name}={self.value} is not known: {' or '.join(self.values)}"

    def line(self, tests: int) -> str:
        """Return the flag's line in the summary."""
        count = f"{tests} test{'' if tests == 1 else 's'}"
        return f"{self.name + '=' + '|'.join(self.values):<36}{count:>9}{self.minutes:>12}  {self.needs}"


FLAGS = {
    flag.name: flag
    for flag in (
        Flag("LAB_ALL_HANDOUTS", "11 min", "every handout typed, not only two"),
        Flag("LAB_FLASH", "1 min", "avrdude from Debian's archive"),
        Flag("LAB_FROM_REGISTRY", "5 min", "docker-registry from Debian's archive; a scenario from its images"),
        Flag("LAB_MANY_HOSTS", "8 min", "root, two more engines; the loop with its parts on several hosts"),
        Flag(
            "LAB_MIDDLEWARE_FAULTS",
            "20 min",
            "root, the middleware with dead services, a full disk, too little memory, bad input, a second host",
        ),
        Flag("LAB_NETEM_VM", "10 min", "qemu-system-x86, busybox-static, a kernel package; netem of the kernel"),
        Flag("LAB_PI_VM", "10-60 min", "root, qemu-system-x86, debootstrap, openssh-client; a virtual Raspberry Pi"),
        Flag("LAB_SWARM", "20 min", "root, three further engines; the stack files on a Swarm over VXLAN"),
        Flag("LAB_TWO_HOSTS", "15 min", "root, a second engine; the bridge on another host", ("1", "plain")),
        Flag("LAB_USB_VM", "3 min", "qemu-system-x86, busybox-static, a kernel package; asip's board on a virtual USB"),
        Flag("LAB_UNPLUGGED", "20 min", "root, a second engine; a bundle in a room without a network"),
        Flag(
            "LAB_VM",
            "40 min",
            "root, qemu-system-x86, debootstrap, openssh-client, 20 GB; the lab on a virtual machine of that system",
            tuple(name for name in SYSTEMS if name != "pi"),
        ),
    )
}
