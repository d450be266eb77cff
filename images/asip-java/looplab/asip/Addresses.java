package looplab.asip;

import java.net.InetSocketAddress;

/** Addresses as the controller writes them. */
final class Addresses {
    private Addresses() {}

    /** The socket address of {@code host:port}. */
    static InetSocketAddress host(String text) throws Refused {
        int colon = text.lastIndexOf(':');
        try {
            return new InetSocketAddress(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
        } catch (IllegalArgumentException | StringIndexOutOfBoundsException error) {
            throw new Refused("expected host:port, not " + text);
        }
    }
}
