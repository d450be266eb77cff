package looplab.asip;

import java.time.Duration;

/**
 * What passed between a client and its board: every byte of a session, and what those of the measurement were. Orders
 * set an output, notices are lines of the watched port, reports lines of analog pins that came unasked; whole lines of
 * any other kind are others.
 */
final class Counts {
    private long sent;
    private long received;
    private long orders;
    private long notices;
    private long reports;
    private long reportBytes;
    private long others;
    private long beganNs;
    private Duration cpu = Duration.ZERO;

    /** Counts the measurement from now on. */
    synchronized void begin() {
        orders = notices = reports = reportBytes = others = 0;
        beganNs = System.nanoTime();
        cpu = cpuTime();
    }

    synchronized void sent(int bytes, boolean order) {
        sent += bytes;
        orders += order ? bytes : 0;
    }

    synchronized void received(int bytes) {
        received += bytes;
    }

    synchronized void notice(int bytes) {
        notices += bytes;
    }

    synchronized void report(int bytes) {
        reports++;
        reportBytes += bytes;
    }

    synchronized void other(int bytes) {
        others += bytes;
    }

    /** The counts since begin, with the time and the processor time of this process meanwhile. */
    synchronized String facts() {
        return String.format(
                " orders=%d notices=%d reports=%d report_bytes=%d others=%d elapsed_us=%d cpu_us=%d",
                orders,
                notices,
                reports,
                reportBytes,
                others,
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
