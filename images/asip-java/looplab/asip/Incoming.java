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
    // Whether the last byte ended a line.
    private boolean whole = true;
    private Sink sink;

    final void to(Sink wanted) {
        sink = wanted;
    }

    /** Hands bytes on that a read has just returned. */
    final void arrived(byte[] bytes, int length) {
        long stampNs = System.nanoTime();
        whole = bytes[length - 1] == '\n';
        sink.received(bytes, length, stampNs);
    }

    /** Starts a thread that reads until the transport ends, to the end of the line that it is in. */
    final Thread readAlways(String name, Read read) {
        Thread reader = new Thread(() -> untilTheEnd(read), name);
        reader.setDaemon(true);
        reader.start();
        return reader;
    }

    private void untilTheEnd(Read read) {
        try {
            while (!ending || !whole) {
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
        ending = true;
    }
}
