package looplab.asip;

import java.nio.charset.StandardCharsets;

/** Messages of a client to the board, and what the board's bytes mean. One object a connection. */
abstract class Protocol {
    static final int OUTPUT = 3;
    static final int INPUT = 1;

    /** What a message of the board means; called on the thread that read it. */
    interface Listener {
        void ready();

        void info();

        void port(int port, int mask, long stampNs);

        void error();
    }

    abstract byte[] mode(int pin, int mode);

    abstract byte[] digital(int pin, boolean high);

    /** What asks the board for an answer that {@link Listener#info} gets. */
    abstract byte[] ask();

    /** Takes bytes of the board. */
    abstract void take(byte[] bytes, int length, long stampNs, Listener listener);

    static Protocol of(Request request) throws Refused {
        return switch (request.text("protocol", "asip")) {
            case "asip" -> new Asip();
            case "firmata" -> new Firmata();
            default -> throw new Refused("there is no protocol " + request.text("protocol"));
        };
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
