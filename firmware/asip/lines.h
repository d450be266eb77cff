// ASIP's text protocol over the pins of asip.ino, which includes this file.

static const uint16_t REPORT_DEFAULT_MS = 50;

static struct line received;
static uint16_t report_ms = REPORT_DEFAULT_MS;
static uint32_t reported_at_ms;

// A reply's head: `@I,d,`.
static void write_head(char service, char tag)
{
    Serial.write('@');
    Serial.write(service);
    Serial.write(',');
    Serial.write(tag);
    Serial.write(',');
}

static void write_error(const struct request *request, enum error error)
{
    Serial.write('~');
    Serial.write(request->service);
    Serial.write(',');
    Serial.write(request->tag);
    Serial.write(',');
    Serial.print(error);
    Serial.write('{');
    Serial.print(error_name(error));
    Serial.print(F("}\n"));
}

static void write_port(uint8_t port)
{
    write_head(SERVICE_IO, 'd');
    Serial.print(port);
    Serial.write(',');
    Serial.print(reported[port], HEX);
    Serial.write('\n');
}

static uint8_t analog_pins()
{
    uint8_t count = 0;
    for (uint8_t channel = 0; channel < NUM_ANALOG_INPUTS; channel++)
        count += modes[A0 + channel] == MODE_ANALOG;
    return count;
}

static void report_analog()
{
    if (report_ms == 0 || millis() - reported_at_ms < report_ms)
        return;
    reported_at_ms = millis();
    uint8_t left = analog_pins();
    if (left == 0)
        return;
    write_head(SERVICE_IO, 'a');
    Serial.print(left);
    Serial.print(F(",{"));
    for (uint8_t channel = 0; channel < NUM_ANALOG_INPUTS; channel++) {
        if (modes[A0 + channel] != MODE_ANALOG)
            continue;
        Serial.print(channel);
        Serial.write(':');
        Serial.print(analogRead(channel));
        Serial.write(--left ? ',' : '}');
    }
    Serial.write('\n');
}

static enum error write_analog(uint16_t pin, uint16_t value)
{
    if (pin >= NUM_DIGITAL_PINS || !digitalPinHasPWM(pin))
        return ERROR_INVALID_PIN;
    if (modes[pin] != MODE_PWM)
        return ERROR_WRONG_MODE;
    if (value > 255)
        return ERROR_UNKNOWN_REQUEST;
    analogWrite(pin, value);
    return ERROR_NONE;
}

// A list with one entry for each of `count` pins from `first` on: `@I,p,70,{…}`.
static void write_list(const struct request *request, uint8_t first, uint8_t count, void (*write_entry)(uint8_t pin))
{
    write_head(request->service, request->tag);
    Serial.print(count);
    Serial.print(F(",{"));
    for (uint8_t pin = first; pin < first + count; pin++) {
        wdt_reset();
        write_entry(pin);
        Serial.write(pin + 1 < first + count ? ',' : '}');
    }
    Serial.write('\n');
}

static void write_service_of(uint8_t pin)
{
    Serial.write(modes[pin] == MODE_RESERVED ? '@' : SERVICE_IO);
}

static void write_mode_of(uint8_t pin)
{
    Serial.print(modes[pin]);
}

static void write_capabilities_of(uint8_t pin)
{
    Serial.write('0' + 1 + (is_analog(pin) ? 2 : 0) + (digitalPinHasPWM(pin) ? 4 : 0));
}

static void write_port_of(uint8_t pin)
{
    Serial.print(digitalPinToPort(pin));
    Serial.write(':');
    Serial.print(digitalPinToBitMask(pin), HEX);
}

static void write_channel_of(uint8_t pin)
{
    Serial.print(pin);
    Serial.write(':');
    Serial.print(pin - A0);
}

static void answer_system(const struct request *request)
{
    switch (request->tag) {
    case '?':
        write_head(SERVICE_SYSTEM, '?');
        Serial.print(F("1,0," CHIP ","));
        Serial.print(NUM_DIGITAL_PINS);
        Serial.print(F(",AsipIO\n"));
        break;
    case 'N': Serial.print(F("@#,N,1,{I:ASIP core IO}\n")); break;
    case 'S': write_list(request, 0, NUM_DIGITAL_PINS, write_service_of); break;
    case 'R': set_all(MODE_UNALLOCATED, MODE_UNALLOCATED); break;
    }
}

static enum error answer_io(const struct request *request)
{
    const uint16_t *const arguments = request->arguments;
    switch (request->tag) {
    case 'P': return set_mode(arguments[0], arguments[1]);
    case 'd': return write_digital(arguments[0], arguments[1]);
    case 'a': return write_analog(arguments[0], arguments[1]);
    case 'A': report_ms = arguments[0]; break;
    case 'M': write_list(request, 0, NUM_DIGITAL_PINS, write_port_of); break;
    case 'p': write_list(request, 0, NUM_DIGITAL_PINS, write_mode_of); break;
    case 'c': write_list(request, 0, NUM_DIGITAL_PINS, write_capabilities_of); break;
    case 'm': write_list(request, A0, NUM_ANALOG_INPUTS, write_channel_of); break;
    }
    return ERROR_NONE;
}

static void protocol_reset()
{
    report_ms = REPORT_DEFAULT_MS;
}

// The four lines of the original firmware's start: who it is, modes, ports, its service.
static void write_start()
{
    struct request list = {};
    Serial.print(F("!looplab asip " ASIP_VERSION " on " CHIP " ready\n"));
    list.service = SERVICE_IO;
    list.tag = 'p';
    answer_io(&list);
    list.tag = 'M';
    answer_io(&list);
    Serial.print(F("!ASIP core IO is service I\n"));
}

static void answer()
{
    struct request request = request_parse(&received);
    line_clear(&received);
    if (request.ignored)
        return;
    enum error error = request.error;
    if (error == ERROR_NONE && request.service == SERVICE_SYSTEM)
        answer_system(&request);
    else if (error == ERROR_NONE)
        error = answer_io(&request);
    if (error != ERROR_NONE)
        write_error(&request, error);
}

static void take_byte(uint8_t byte)
{
    if (line_add(&received, (char)byte))
        answer();
}
