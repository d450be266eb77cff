// The part of Firmata 2.5 that sets and reads digital pins, over the pins of asip.ino, which includes this file.
// Messages have three bytes, of seven bits but the first; a byte above 127 begins a message.

// Firmata's ports are of eight pins each, whatever the processor's are.
static const uint8_t FIRMATA_PORTS = (NUM_DIGITAL_PINS + 7) / 8;
static uint8_t wanted_ports[FIRMATA_PORTS];

static void write_port(uint8_t port)
{
    for (uint8_t number = 0; number < FIRMATA_PORTS; number++) {
        uint8_t bits = 0;
        bool concerned = false;
        for (uint8_t pin = 8 * number; pin < 8 * number + 8 && pin < NUM_DIGITAL_PINS; pin++) {
            const uint8_t where = digitalPinToPort(pin), mask = digitalPinToBitMask(pin);
            if (!(watched[where] & mask))
                continue;
            concerned |= where == port;
            if (*portInputRegister(where) & mask)
                bits |= 1 << (pin - 8 * number);
        }
        if (concerned && wanted_ports[number]) {
            Serial.write(0x90 | number);
            Serial.write(bits & 0x7F);
            Serial.write(bits >> 7);
        }
    }
}
static void report_analog()
{
}

static void protocol_reset()
{
    memset(wanted_ports, 0, sizeof wanted_ports);
}

static void write_version()
{
    static const uint8_t version[] = {0xF9, 2, 5};
    Serial.write(version, sizeof version);
}

static void take_command(uint8_t command, uint8_t first, uint8_t second)
{
    if (command == 0xF4 && second <= 2)
        set_mode(first, second == 0 ? MODE_INPUT : second == 1 ? MODE_OUTPUT : MODE_ANALOG);
    else if (command == 0xF5)
        write_digital(first, second);
}

static void take_report_request(uint8_t number, bool on)
{
    if (number >= FIRMATA_PORTS)
        return;
    wanted_ports[number] = on;
    if (on)
        for (uint8_t port = 1; port < PORTS; port++)
            if (watched[port])
                write_port(port);
}

// A command's bytes, until they are as many as it has. A byte above 127 begins the next one.
static void take_byte(uint8_t byte)
{
    static uint8_t command, first, count;
    if (byte >= 0x80) {
        command = byte;
        count = 0;
        if (command == 0xF9)
            write_version();
        else if (command == 0xFF)
            reset_pins();
    } else if ((command & 0xF0) == 0xD0) {
        take_report_request(command & 0x0F, byte);
        command = 0;
    } else if (count++ == 0) {
        first = byte;
    } else {
        take_command(command, first, byte);
        count = 0;
    }
}

static void write_ready()
{
    write_version();
}
