package looplab.asip;

import java.io.FileInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.SocketFactory;
import org.eclipse.paho.client.mqttv3.IMqttDeliveryToken;
import org.eclipse.paho.client.mqttv3.MqttAsyncClient;
import org.eclipse.paho.client.mqttv3.MqttCallback;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttException;
import org.eclipse.paho.client.mqttv3.MqttMessage;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** The board behind the broker: lines to {@code <prefix>/in}, lines from {@code <prefix>/out}, by Eclipse Paho. */
final class MqttTransport extends Incoming implements MqttCallback {
    private static final long WAIT_MS = 5_000;
    private static final int SESSION_QOS = 1;
    private static final String IN_USE = "the board is in use";
    // Paho's own limit is 10: a wave at 300 Hz has more on the way.
    private static final int MOST_IN_FLIGHT = 1_000;

    private final MqttAsyncClient client;
    private final String prefix;
    private final int qos;
    private final boolean noDelay;
    private final BlockingQueue<String> states = new LinkedBlockingQueue<>();
    private volatile boolean opened;

    MqttTransport(Request request, String address) throws Refused {
        int slash = address.indexOf('/');
        if (slash < 1) {
            throw new Refused("expected host:port/topic, not " + address);
        }
        Addresses.host(address.substring(0, slash));
        prefix = address.substring(slash + 1);
        qos = request.number("qos");
        noDelay = request.on("nodelay");
        try {
            String name = "asip-java-" + Long.toHexString(System.nanoTime());
            client = new MqttAsyncClient("tcp://" + address.substring(0, slash), name, new MemoryPersistence());
        } catch (MqttException | IllegalArgumentException error) {
            throw new Refused("no MQTT client for " + address + ": " + error.getMessage());
        }
    }

    @Override
    public void open(Sink to) throws Refused {
        to(to);
        client.setCallback(this);
        try {
            client.connect(options()).waitForCompletion(WAIT_MS);
            client.subscribe(prefix + "/out", qos).waitForCompletion(WAIT_MS);
            client.subscribe(prefix + "/session/state", SESSION_QOS).waitForCompletion(WAIT_MS);
            session("open").waitForCompletion(WAIT_MS);
        } catch (MqttException error) {
            throw new Refused("the broker " + client.getServerURI() + " cannot be used: " + why(error));
        }
        awaitOpened();
    }

    private void awaitOpened() throws Refused {
        try {
            String state = states.poll(WAIT_MS, TimeUnit.MILLISECONDS);
            if (state == null) {
                throw new Refused("the bridge did not open the board's port within " + WAIT_MS / 1000 + " s");
            }
            if (!"opened".equals(state)) {
                throw new Refused("the bridge did not open the board's port: " + state);
            }
            opened = true;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new Refused("stopped while the bridge opened the board's port");
        }
    }

    private MqttConnectOptions options() throws Refused {
        MqttConnectOptions options = new MqttConnectOptions();
        options.setMaxInflight(MOST_IN_FLIGHT);
        options.setSocketFactory(new Sockets(noDelay));
        identify(options);
        options.setWill(prefix + "/session", "close".getBytes(StandardCharsets.US_ASCII), SESSION_QOS, false);
        return options;
    }

    /** A broker with a robot elsewhere asks for a name and a password: BROKER_PAIRING names the file that has them. */
    private static void identify(MqttConnectOptions options) throws Refused {
        String file = System.getenv("BROKER_PAIRING");
        if (file == null || file.isEmpty()) {
            return;
        }
        try (FileInputStream lines = new FileInputStream(file)) {
            Properties found = new Properties();
            found.load(lines);
            options.setUserName(found.getProperty("BROKER_USER"));
            options.setPassword(found.getProperty("BROKER_PASSWORD").toCharArray());
        } catch (IOException | IllegalArgumentException | NullPointerException error) {
            throw new Refused("the pairing file " + file + " cannot be read: " + error.getMessage());
        }
    }

    private IMqttDeliveryToken session(String what) throws MqttException {
        return client.publish(prefix + "/session", what.getBytes(StandardCharsets.US_ASCII), SESSION_QOS, false);
    }

    @Override
    public void write(byte[] message) throws IOException {
        try {
            client.publish(prefix + "/in", message, qos, false);
        } catch (MqttException error) {
            throw new IOException("the message cannot be published: " + why(error));
        }
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        byte[] payload = message.getPayload();
        if (topic.endsWith("/out")) {
            arrived(payload, payload.length);
        } else if (!message.isRetained()) {
            String state = new String(payload, StandardCharsets.UTF_8);
            // Every client hears how the bridge refuses another one.
            if (opened && !IN_USE.equals(state)) {
                failed("the bridge reports: " + state);
            }
            // The end of the session before this one may come late.
            if (opened || !"closed".equals(state)) {
                states.add(state);
            }
        }
    }

    @Override
    public void connectionLost(Throwable cause) {
        failed("the connection to the broker was lost: " + cause.getMessage());
    }

    @Override
    public void deliveryComplete(IMqttDeliveryToken token) {
        // Nobody waits for it.
    }

    @Override
    public void close() {
        end();
        try {
            if (client.isConnected()) {
                session("close").waitForCompletion(WAIT_MS);
                client.disconnect().waitForCompletion(WAIT_MS);
            }
            client.close(true);
        } catch (MqttException error) {
            // The broker is gone; it sends the will.
        }
    }

    private static String why(MqttException error) {
        return error.getCause() == null ? error.getMessage() : error.getCause().getMessage();
    }

    /** Sockets with TCP_NODELAY as wanted: Paho has no option for it. */
    private static final class Sockets extends SocketFactory {
        private final boolean noDelay;

        Sockets(boolean noDelay) {
            this.noDelay = noDelay;
        }

        @Override
        public Socket createSocket() throws IOException {
            Socket socket = new Socket();
            socket.setTcpNoDelay(noDelay);
            return socket;
        }

        @Override
        public Socket createSocket(String host, int port) throws IOException {
            return set(new Socket(host, port));
        }

        @Override
        public Socket createSocket(String host, int port, InetAddress local, int localPort) throws IOException {
            return set(new Socket(host, port, local, localPort));
        }

        @Override
        public Socket createSocket(InetAddress host, int port) throws IOException {
            return set(new Socket(host, port));
        }

        @Override
        public Socket createSocket(InetAddress host, int port, InetAddress local, int localPort) throws IOException {
            return set(new Socket(host, port, local, localPort));
        }

        private Socket set(Socket socket) throws IOException {
            socket.setTcpNoDelay(noDelay);
            return socket;
        }
    }
}
