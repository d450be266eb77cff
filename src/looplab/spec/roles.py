"""What a container's process is in a run, by which name the kernel knows it, and which secrets it has."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Secret:
    """A file that `prepare` makes for a part: a password that stays, or `each_start` a new token.

    `reader` is the user who may open it, None for the controller's; `group` may too, -1 for none. The last word of a
    password's `name` says which one it is: files that share this word hold the same password.
    """

    name: str
    reader: int | None = None
    group: int = -1
    each_start: bool = False


@dataclass(frozen=True)
class Role:
    """`comms` are the names in /proc/<pid>/comm; `fifo` is the SCHED_FIFO priority it always gets, 0 for none.

    A run may ask for another one up to `most_fifo`, and for a role without it never.

    One that is `optional` need not be there in every run. `files` are patterns, relative to the root of its container:
    a scan names those that exist. A role with an `address` is every process of the container that has it, whatever its
    name.
    """

    name: str
    comms: tuple[str, ...]
    fifo: int = 0
    most_fifo: int = 0
    optional: bool = False
    files: tuple[str, ...] = ()
    address: str = ""

    def question(self, fifo: int = 0) -> dict[str, object]:
        """Return what the treatments service is asked about this role; `fifo` where a run gives it a priority."""
        files = {"files": list(self.files)} if self.files else {}
        where = {"address": self.address} if self.address else {}
        return {"comm": list(self.comms), "fifo": fifo or self.fifo, **files, **where}


BROKER = Role("broker", ("mosquitto",), most_fifo=99)
CONTROLLER = Role("controller", ("lab-controller",), most_fifo=99)
# An emulated link takes the place of a network elsewhere: if the kernel allows, the host's load must not reach it.
LINK = Role("link", ("lab-link",), fifo=97, optional=True)
