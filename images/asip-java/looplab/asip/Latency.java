package looplab.asip;

import java.io.IOException;
import java.io.PrintStream;
import java.util.concurrent.locks.LockSupport;

/** Sets a pin and waits for the change of the pin that is wired to it, test by test. */
final class Latency implements Task {
    private static final long ABSENT = -1;
    private static final long SETTLE_MS = 50;
    // Tests without an answer for this long, or for five deadlines: the way to the board is gone.
    private static final long SILENCE_NS = 10_000_000_000L;

    private final Request request;
    private final PrintStream out;
    private volatile long arrivedNs;
    private volatile boolean high;
    private volatile Thread driver;

    Latency(Request request, PrintStream out) {
        this.request = request;
        this.out = out;
    }

    @Override
    public String run(Board board) throws IOException, Refused, InterruptedException {
        int pin = request.number("out");
        board.modes(pin, request.number("in"));
        byte[] rise = board.digital(pin, true);
        byte[] fall = board.digital(pin, false);
        driver = Thread.currentThread();
        board.onChange(this::changed);
        // The last client may have left the pin high.
        board.write(fall);
        Thread.sleep(SETTLE_MS);
        board.begin();
        // Made before, so that nothing is allocated while tests run.
        long[][] times = new long[request.number("tests")][3];
        measure(board, times, rise, fall);
        String counts = board.silence();
        for (long[] test : times) {
            out.println(test[0] + " " + test[1] + " " + test[2]);
        }
        return counts;
    }

    private void changed(boolean isHigh, long stampNs) {
        arrivedNs = stampNs;
        // Written last: it vouches for the stamp.
        high = isHigh;
        LockSupport.unpark(driver);
    }

    /** Makes a test for each of {@code times}, which get when it was due, sent and received. */
    private void measure(Board board, long[][] times, byte[] rise, byte[] fall) throws IOException, Refused {
        long intervalNs = request.number("interval_us") * 1_000L;
        long deadlineNs = request.number("deadline_us") * 1_000L;
        long silenceNs = Math.max(SILENCE_NS, 5 * deadlineNs);
        long startNs = System.nanoTime();
        long heardNs = startNs;
        for (int test = 0; test < times.length; test++) {
            long dueNs = startNs + test * intervalNs;
            parkUntil(dueNs, board);
            // What the board says from now on counts: it may never have been heard to fall.
            high = false;
            long sentNs = System.nanoTime();
            board.write(rise);
            boolean answered = await(true, sentNs + deadlineNs, board);
            times[test][0] = dueNs;
            times[test][1] = sentNs;
            times[test][2] = answered ? arrivedNs : ABSENT;
            heardNs = answered ? arrivedNs : heardNs;
            if (sentNs - heardNs > silenceNs) {
                throw new Refused("no test was answered for " + silenceNs / 1_000_000_000 + " s");
            }
            parkUntil(dueNs + intervalNs / 2, board);
            long fallNs = System.nanoTime();
            board.write(fall);
            await(false, fallNs + deadlineNs, board);
        }
    }

    private boolean await(boolean wanted, long untilNs, Board board) throws Refused {
        while (high != wanted) {
            long leftNs = untilNs - System.nanoTime();
            if (leftNs <= 0) {
                return false;
            }
            LockSupport.parkNanos(this, leftNs);
            board.check();
        }
        return true;
    }

    private void parkUntil(long untilNs, Board board) throws Refused {
        long leftNs;
        while ((leftNs = untilNs - System.nanoTime()) > 0) {
            LockSupport.parkNanos(this, leftNs);
            board.check();
        }
    }
}
