package looplab.asip;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** The bridge's TCP port: raw bytes, or the frames of {@code writeUTF}, as the published client sent them. */
final class TcpTransport implements Transport {
    private static final int CONNECT_MS = 5_000;

    private final InetSocketAddress address;
    private final boolean noDelay;
    private final boolean frames;
    private final int most;
    private final Socket socket = new Socket();
    private final Thread reader = new Thread(this::read, "tcp");
    private volatile boolean ending;
    private volatile long reads;
    private Sink sink;
    private OutputStream out;

    TcpTransport(Request request, String address) throws Refused {
        this.address = Addresses.host(address);
        this.noDelay = request.on("nodelay");
        this.frames = "utf".equals(request.text("frames", "raw"));
        this.most = "byte".equals(request.text("read", "block")) ? 1 : 4096;
    }

    @Override
    public void open(Sink to) throws Refused {
        sink = to;
        try {
            socket.setTcpNoDelay(noDelay);
            socket.connect(address, CONNECT_MS);
            out = socket.getOutputStream();
        } catch (IOException error) {
            throw new Refused("no connection to " + address + ": " + error.getMessage());
        }
        reader.setDaemon(true);
        reader.start();
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

    private void read() {
        try (InputStream in = socket.getInputStream()) {
            DataInputStream framed = new DataInputStream(in);
            byte[] buffer = new byte[most];
            while (true) {
                byte[] bytes = frames ? framed.readUTF().getBytes(StandardCharsets.US_ASCII) : buffer;
                int length = frames ? bytes.length : in.read(buffer);
                long stampNs = System.nanoTime();
                if (length < 0) {
                    throw new IOException("the bridge closed the connection");
                }
                reads++;
                sink.received(bytes, length, stampNs);
            }
        } catch (IOException error) {
            if (!ending) {
                sink.failed("the connection to the bridge ended: " + error.getMessage());
            }
        }
    }

    @Override
    public long reads() {
        return reads;
    }

    @Override
    public void close() {
        ending = true;
        try {
            socket.close();
        } catch (IOException error) {
            // Closed already.
        }
    }
}
