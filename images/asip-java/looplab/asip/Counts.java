package looplab.asip;

import java.time.Duration;

/** What passed between a client and its board: bytes of a session, and those since the measurement began. */
final class Counts {
    private long sent;
    private long received;
    private long reports;
    private long reportBytes;
    private long sentBefore;
    private long receivedBefore;
    private long beganNs;
    private Duration cpu = Duration.ZERO;

    /** Counts the measurement from now on. */
    synchronized void begin() {
        reports = reportBytes = 0;
        sentBefore = sent;
        receivedBefore = received;
        beganNs = System.nanoTime();
        cpu = cpuTime();
    }

    synchronized void sent(int bytes) {
        sent += bytes;
    }

    /** Counts a whole line; a report is of analog pins and came unasked. */
    synchronized void received(int bytes, boolean report) {
        received += bytes;
        if (report) {
            reports++;
            reportBytes += bytes;
        }
    }

    /** The counts since begin, with the time and the processor time of this process meanwhile. */
    synchronized String facts() {
        return String.format(
                " orders=%d notices=%d reports=%d report_bytes=%d elapsed_us=%d cpu_us=%d",
                sent - sentBefore,
                received - receivedBefore - reportBytes,
                reports,
                reportBytes,
                (System.nanoTime() - beganNs) / 1_000,
                cpuTime().minus(cpu).toNanos() / 1_000);
    }

    /** The bytes of the whole session. */
    synchronized String whole() {
        return String.format(" sent=%d received=%d", sent, received);
    }

    private static Duration cpuTime() {
        return ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO);
    }
}
