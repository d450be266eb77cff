package looplab.asip;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import jssc.SerialPort;
import jssc.SerialPortException;

/** A serial port by jSSC, 57600 8N1. Its event thread polls, so bytes are read by a thread that blocks. */
final class SerialTransport extends Incoming {
    private static final int BAUD = 57_600;
    private static final int END_MS = 1_000;

    private final SerialPort port;
    private Thread reader;

    SerialTransport(String address) throws Refused {
        this.port = new SerialPort(device(Path.of(address)).toString());
    }

    /** The device of a path, or the one in a folder of pseudo-terminals. */
    private static Path device(Path address) throws Refused {
        if (!Files.isDirectory(address)) {
            return address;
        }
        try (Stream<Path> entries = Files.list(address)) {
            List<Path> found = entries.filter(entry -> !entry.getFileName().toString().equals("ptmx")).toList();
            if (found.size() != 1) {
                throw new Refused("there are " + found.size() + " devices in " + address + ", expected one");
            }
            return found.get(0);
        } catch (IOException error) {
            throw new Refused("the folder " + address + " cannot be read: " + error.getMessage());
        }
    }

    @Override
    public void open(Sink to) throws Refused {
        to(to);
        try {
            port.openPort();
            // False, although it was set, where a port has no modem lines: a pseudo-terminal.
            port.setParams(BAUD, SerialPort.DATABITS_8, SerialPort.STOPBITS_1, SerialPort.PARITY_NONE);
        } catch (SerialPortException error) {
            throw new Refused("the port " + port.getPortName() + " cannot be opened: " + error.getExceptionType());
        }
        reader = readAlways("serial", this::read);
    }

    @Override
    public void write(byte[] message) throws IOException {
        try {
            if (!port.writeBytes(message)) {
                throw new IOException("the serial port took only a part of a message");
            }
        } catch (SerialPortException error) {
            throw new IOException("the serial port cannot be written: " + error.getExceptionType());
        }
    }

    private void read() throws IOException {
        try {
            arrived(port.readBytes(1), 1);
            int more = Math.min(port.getInputBufferBytesCount(), BLOCK_BYTES);
            if (more > 0) {
                arrived(port.readBytes(more), more);
            }
        } catch (SerialPortException error) {
            throw new IOException("the serial port cannot be read: " + error.getExceptionType());
        }
    }

    /** Its last question. */
    @Override
    public int closingBytes() {
        return Asip.ASK.length;
    }

    @Override
    public void close() {
        end();
        if (!port.isOpened()) {
            return;
        }
        try {
            // The board's answer wakes the reader, which nothing else can.
            write(Asip.ASK);
            reader.join(END_MS);
        } catch (IOException error) {
            // The port is gone: the check of the reader below decides.
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        try {
            port.closePort();
        } catch (SerialPortException error) {
            // Closed already.
        }
        if (reader.isAlive()) {
            // jSSC reads a port that hung up for ever, at full speed: only a new process ends that.
            Main.restart("the serial port hung up");
        }
    }
}
