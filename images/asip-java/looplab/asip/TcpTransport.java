package looplab.asip;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;

/** The bridge's TCP port. */
final class TcpTransport extends Incoming {
    private static final int CONNECT_MS = 5_000;

    private final InetSocketAddress address;
    private final boolean noDelay;
    private final byte[] buffer = new byte[BLOCK_BYTES];
    private final Socket socket = new Socket();
    private InputStream in;
    private OutputStream out;

    TcpTransport(Request request, String address) throws Refused {
        this.address = Addresses.host(address);
        this.noDelay = request.on("nodelay");
    }

    @Override
    public void open(Sink to) throws Refused {
        to(to);
        try {
            socket.setTcpNoDelay(noDelay);
            socket.connect(address, CONNECT_MS);
            in = socket.getInputStream();
            out = socket.getOutputStream();
        } catch (IOException error) {
            throw new Refused("no connection to " + address + ": " + error.getMessage());
        }
        readAlways("tcp", this::read);
    }

    @Override
    public void write(byte[] message) throws IOException {
        out.write(message);
    }

    private void read() throws IOException {
        try {
            int length = in.read(buffer);
            if (length < 0) {
                throw new IOException("the bridge closed it");
            }
            arrived(buffer, length);
        } catch (IOException error) {
            throw new IOException("the connection to the bridge ended: " + error.getMessage(), error);
        }
    }

    @Override
    public void close() {
        end();
        try {
            socket.close();
        } catch (IOException error) {
            // Closed already.
        }
    }
}
