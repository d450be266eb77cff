package looplab.asip;

import java.nio.charset.StandardCharsets;

/**
 * ASIP, lines of text: requests to the board, and what the board's bytes mean. A pin's change is
 * {@code @I,d,<port>,<mask of the port in hex>}. One object a connection.
 */
final class Asip {
    static final int OUTPUT = 3;
    static final int INPUT = 1;
    static final int UNALLOCATED = 0;

    /** What a line of the board means; called on the thread that read it. */
    interface Listener {
        void ready();

        void info();

        void port(int port, int mask, long stampNs);

        /** Every line, before what it means; a report is of analog pins and came unasked. */
        void line(int bytes, boolean report);
    }

    /** Asks the board for an answer that {@link Listener#info} gets. */
    static final byte[] ASK = ascii("#,?\n");
    /** Every pin unallocated: none reports unasked. */
    static final byte[] RESET = ascii("#,R\n");
    /** No analog reports from now on. */
    static final byte[] SILENCE = ascii("I,A,0\n");
    private static final int LONGEST = 2_000;
    private static final byte[] CHANGE = ascii("@I,d,");
    private static final byte[] REPORT = ascii("@I,a,");
    private static final byte[] INFO = ascii("@#,?");

    private final byte[] line = new byte[LONGEST];
    private int length;

    static byte[] mode(int pin, int mode) {
        return ascii("I,P," + pin + "," + mode + "\n");
    }

    static byte[] digital(int pin, boolean high) {
        return ascii("I,d," + pin + "," + (high ? 1 : 0) + "\n");
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** Takes bytes of the board. */
    void take(byte[] bytes, int count, long stampNs, Listener listener) {
        for (int at = 0; at < count; at++) {
            if (bytes[at] == '\n') {
                whole(stampNs, listener);
                length = 0;
            } else if (length < LONGEST) {
                line[length++] = bytes[at];
            }
        }
    }

    private void whole(long stampNs, Listener listener) {
        // With its line feed.
        listener.line(length + 1, begins(REPORT));
        if (begins(CHANGE)) {
            change(stampNs, listener);
        } else if (begins(INFO)) {
            listener.info();
        } else if (holds('!')) {
            // Not only at its start: what is left of a session before may come first.
            listener.ready();
        }
    }

    private boolean holds(char wanted) {
        for (int at = 0; at < length; at++) {
            if (line[at] == wanted) {
                return true;
            }
        }
        return false;
    }

    private void change(long stampNs, Listener listener) {
        int port = 0;
        int at = CHANGE.length;
        for (; at < length && line[at] != ','; at++) {
            int digit = Character.digit(line[at], 10);
            if (digit < 0) {
                return;
            }
            port = 10 * port + digit;
        }
        int mask = 0;
        for (at++; at < length && line[at] != '\r'; at++) {
            int digit = Character.digit(line[at], 16);
            if (digit < 0) {
                return;
            }
            mask = 16 * mask + digit;
        }
        listener.port(port, mask, stampNs);
    }

    private boolean begins(byte[] head) {
        if (length < head.length) {
            return false;
        }
        for (int at = 0; at < head.length; at++) {
            if (line[at] != head[at]) {
                return false;
            }
        }
        return true;
    }
}
