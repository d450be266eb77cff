package looplab.asip;

/** Firmata 2: messages of three bytes, seven bits of data in each but the first. Its ports are of eight pins each. */
final class Firmata extends Protocol {
    private static final int DIGITAL_MESSAGE = 0x90;
    private static final int REPORT_DIGITAL = 0xD0;
    private static final int SET_MODE = 0xF4;
    private static final int SET_DIGITAL = 0xF5;
    private static final int VERSION = 0xF9;
    private static final int SYSEX = 0xF0;
    private static final int END_SYSEX = 0xF7;
    private static final int ERROR_STRING = 0x71;

    private int command;
    private int first = -1;

    @Override
    byte[] mode(int pin, int mode) {
        byte[] set = {(byte) SET_MODE, (byte) pin, (byte) (mode == OUTPUT ? 1 : 0)};
        if (mode == OUTPUT) {
            return set;
        }
        return new byte[] {set[0], set[1], set[2], (byte) (REPORT_DIGITAL | pin / 8), 1};
    }

    @Override
    byte[] digital(int pin, boolean high) {
        return new byte[] {(byte) SET_DIGITAL, (byte) pin, (byte) (high ? 1 : 0)};
    }

    @Override
    byte[] ask() {
        return new byte[] {(byte) VERSION};
    }

    @Override
    void take(byte[] bytes, int count, long stampNs, Listener listener) {
        for (int at = 0; at < count; at++) {
            int value = bytes[at] & 0xFF;
            if (value >= 0x80) {
                command = value;
                first = -1;
            } else if (command == SYSEX) {
                if (first < 0) {
                    first = value;
                    if (value == ERROR_STRING) {
                        listener.error();
                    }
                }
            } else if (command == END_SYSEX || command == 0) {
                continue;
            } else if (first < 0) {
                first = value;
            } else {
                whole(value, stampNs, listener);
                first = -1;
            }
        }
    }

    private void whole(int second, long stampNs, Listener listener) {
        if ((command & 0xF0) == DIGITAL_MESSAGE) {
            listener.port(command & 0x0F, first | second << 7, stampNs);
        } else if (command == VERSION) {
            // The board sends it once it is ready, too.
            listener.ready();
            listener.info();
        }
    }
}
