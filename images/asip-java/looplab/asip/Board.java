package looplab.asip;

import java.io.IOException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** A board behind a transport: connect, set modes, write pins, hear of changes. */
final class Board implements AutoCloseable, Transport.Sink, Asip.Listener {
    /** Hears of the changes of one pin, on the thread that read them. */
    interface Listener {
        void changed(boolean high, long stampNs);
    }

    // A boot loader takes up to 2 s.
    private static final long START_MS = 3_000;
    private static final long ANSWER_MS = 5_000;
    private static final int UNKNOWN = -1;

    private final Transport transport;
    private final Asip asip = new Asip();
    private final Counts counts;
    private final boolean reporting;
    private final int port;
    private final int bit;
    private final Semaphore readies = new Semaphore(0);
    private final Semaphore infos = new Semaphore(0);
    private volatile Listener listener = (high, stampNs) -> {};
    private volatile String failure;
    private int level = UNKNOWN;

    Board(Transport transport, int port, int bit, boolean reporting, Counts counts) {
        this.transport = transport;
        this.port = port;
        this.bit = bit;
        this.reporting = reporting;
        this.counts = counts;
    }

    /**
     * Opens the way to the board and waits until the board is ready. One that runs already, because opening its port
     * does not reset it, says nothing before it is asked.
     */
    void connect() throws IOException, Refused, InterruptedException {
        transport.open(this);
        await(readies, START_MS);
        synchronise();
        if (!reporting) {
            write(Asip.RESET);
            synchronise();
        }
    }

    /** Sets the mode of the pins, and waits until the board did. */
    void modes(int out, int in) throws IOException, Refused, InterruptedException {
        write(Asip.mode(out, Asip.OUTPUT));
        write(Asip.mode(in, Asip.INPUT));
        synchronise();
    }

    void synchronise() throws IOException, Refused, InterruptedException {
        infos.drainPermits();
        write(Asip.ASK);
        if (!await(infos, ANSWER_MS)) {
            throw new Refused("the board did not answer within " + ANSWER_MS / 1000 + " s");
        }
    }

    byte[] digital(int pin, boolean high) {
        return Asip.digital(pin, high);
    }

    /** Sets a pin aside: it reports no more. */
    void free(int pin) throws IOException {
        write(Asip.mode(pin, Asip.UNALLOCATED));
    }

    void write(byte[] message) throws IOException {
        counts.sent(message.length);
        transport.write(message);
    }

    /** Counts the bytes of the measurement from now on. */
    void begin() {
        counts.begin();
    }

    /** Returns the bytes of the measurement; ends the session so that nothing more comes, and every byte counts. */
    String silence() throws IOException, Refused, InterruptedException {
        String facts = counts.facts();
        write(Asip.SILENCE);
        synchronise();
        return facts;
    }

    void onChange(Listener to) {
        listener = to;
    }

    /** Throws what went wrong on the transport's thread. */
    void check() throws Refused {
        if (failure != null) {
            throw new Refused(failure);
        }
    }

    private boolean await(Semaphore what, long limitMs) throws Refused, InterruptedException {
        boolean came = what.tryAcquire(limitMs, TimeUnit.MILLISECONDS);
        check();
        return came;
    }

    @Override
    public void received(byte[] bytes, int length, long stampNs) {
        asip.take(bytes, length, stampNs, this);
    }

    @Override
    public void failed(String why) {
        failure = why;
        // Whoever waits finds the failure.
        readies.release();
        infos.release();
    }

    @Override
    public void ready() {
        readies.release();
    }

    @Override
    public void info() {
        infos.release();
    }

    @Override
    public void line(int bytes, boolean report) {
        counts.received(bytes, report);
    }

    @Override
    public void port(int number, int mask, long stampNs) {
        if (number != port) {
            return;
        }
        int now = mask >> bit & 1;
        // The first report of a pin is a state, no change.
        boolean changed = level != UNKNOWN && now != level;
        level = now;
        if (changed) {
            listener.changed(now == 1, stampNs);
        }
    }

    @Override
    public void close() {
        transport.close();
        counts.sent(transport.closingBytes());
    }
}
