package looplab.asip;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** The bridge's TCP port: raw bytes, or the frames of {@code writeUTF}, as the published client sent them. */
final class TcpTransport extends Incoming {
    private static final int CONNECT_MS = 5_000;

    private final InetSocketAddress address;
    private final boolean noDelay;
    private final boolean frames;
    private final byte[] buffer;
    private final Socket socket = new Socket();
    private DataInputStream in;
    private OutputStream out;

    TcpTransport(Request request, String address) throws Refused {
        super(request);
        this.address = Addresses.host(address);
        this.noDelay = request.on("nodelay");
        this.frames = "utf".equals(request.text("frames", "raw"));
        this.buffer = new byte[most];
    }

    @Override
    public void open(Sink to) throws Refused {
        to(to);
        try {
            socket.setTcpNoDelay(noDelay);
            socket.connect(address, CONNECT_MS);
            in = new DataInputStream(socket.getInputStream());
            out = socket.getOutputStream();
        } catch (IOException error) {
            throw new Refused("no connection to " + address + ": " + error.getMessage());
        }
        readAlways("tcp", this::read);
    }

    @Override
    public void write(byte[] message) throws IOException {
        out.write(frames ? framed(message) : message);
    }

    private static byte[] framed(byte[] message) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(message.length + 2);
        new DataOutputStream(bytes).writeUTF(new String(message, StandardCharsets.US_ASCII));
        return bytes.toByteArray();
    }

    private void read() throws IOException {
        try {
            if (frames) {
                byte[] text = in.readUTF().getBytes(StandardCharsets.US_ASCII);
                arrived(text, text.length);
                return;
            }
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
