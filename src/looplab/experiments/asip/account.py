"""What passed between a client and its board: every byte of a session, and what those of the measurement were."""

from time import perf_counter_ns, process_time_ns


class Account:
    """`sent` and `received` count the bytes of the whole session, the others what came since `begin`.

    `orders` set an output, `notices` are lines of the watched port, `reports` lines of analog pins that came unasked
    (`report_bytes`); whole lines of any other kind are `others`.
    """

    def __init__(self) -> None:
        self.sent = self.received = 0
        self.begin()

    def begin(self) -> None:
        """Count the measurement from now on."""
        self.orders = self.notices = self.reports = self.report_bytes = self.others = 0
        self._began_ns, self._cpu_ns = perf_counter_ns(), process_time_ns()

    def facts(self) -> dict[str, int]:
        """Return the counts since `begin`, with the time and the processor time of this process meanwhile."""
        names = ("orders", "notices", "reports", "report_bytes", "others")
        times = {"elapsed_us": perf_counter_ns() - self._began_ns, "cpu_us": process_time_ns() - self._cpu_ns}
        return {name: getattr(self, name) for name in names} | {name: ns // 1000 for name, ns in times.items()}
