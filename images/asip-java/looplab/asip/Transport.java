package looplab.asip;

import java.io.IOException;

/** A way to the board. Bytes that arrive go to a sink, on one thread of the transport's own. */
interface Transport extends AutoCloseable {
    /** Takes bytes in the order in which they arrive; {@code stampNs} was read at once after they did. */
    interface Sink {
        void received(byte[] bytes, int length, long stampNs);

        void failed(String why);
    }

    /** Opens the way and starts to read. */
    void open(Sink sink) throws IOException, Refused;

    /** Sends one message as one write. */
    void write(byte[] message) throws IOException;

    @Override
    void close();

    /** How many bytes its end puts on the wire to the board. */
    default int closingBytes() {
        return 0;
    }

    static Transport of(Request request) throws Refused {
        String address = request.text("address");
        return switch (request.text("transport")) {
            case "serial" -> new SerialTransport(address);
            case "tcp" -> new TcpTransport(request, address);
            case "mqtt" -> new MqttTransport(request, address);
            default -> throw new Refused("there is no transport " + request.text("transport"));
        };
    }
}
