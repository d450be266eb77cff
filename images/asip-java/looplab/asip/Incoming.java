package looplab.asip;

import java.io.IOException;

/** What all transports do with what arrives: stamp it, hand it on; and end without a false alarm. */
abstract class Incoming implements Transport {
    /** One blocking read, which hands on what it got. */
    interface Read {
        void once() throws IOException;
    }

    /** The most bytes that one read asks for. */
    static final int BLOCK_BYTES = 4_096;

    private volatile boolean ending;
    // How many lines have arrived, and how many there will be.
    private volatile long lines;
    private volatile long last = Long.MAX_VALUE;
    private Sink sink;

    final void to(Sink wanted) {
        sink = wanted;
    }

    /** Hands bytes on that a read has just returned. */
    final void arrived(byte[] bytes, int length) {
        long stampNs = System.nanoTime();
        long ends = 0;
        for (int at = 0; at < length; at++) {
            ends += bytes[at] == '\n' ? 1 : 0;
        }
        lines += ends;
        sink.received(bytes, length, stampNs);
    }

    /** Starts a thread that reads until the transport ends, and then one more line. */
    final Thread readAlways(String name, Read read) {
        Thread reader = new Thread(() -> untilTheEnd(read), name);
        reader.setDaemon(true);
        reader.start();
        return reader;
    }

    private void untilTheEnd(Read read) {
        try {
            while (lines < last) {
                read.once();
            }
        } catch (IOException error) {
            failed(error.getMessage());
        }
    }

    /** Reports why the way is gone, unless it is being closed. */
    final void failed(String why) {
        if (!ending && sink != null) {
            sink.failed(why);
        }
    }

    final void end() {
        last = lines + 1;
        ending = true;
    }
}
