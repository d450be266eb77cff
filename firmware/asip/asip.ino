// ASIP's core I/O service for Uno and Mega 2560: a text protocol by which a client sets and reads pins.
// README.md has the requests and replies; request.h parses a line.

#include <avr/sleep.h>
#include <avr/wdt.h>

#include "request.h"

static const uint32_t BAUD = 57600;
static const uint16_t REPORT_DEFAULT_MS = 50;

// Far above the longest reply (the map of ports, 90 ms), far below a person's patience.
static const uint8_t WATCHDOG_PERIOD = WDTO_1S;

// Pins 0 and 1 are the serial port.
static const uint8_t PINS_RESERVED = 2;

// Arduino numbers ports from 1 (A) to 12 (L).
static const uint8_t PORTS = 13;

#ifdef __AVR_ATmega2560__
#define CHIP "ATmega2560"
#else
#define CHIP "ATmega328P"
#endif

static struct line received;
static uint8_t modes[NUM_DIGITAL_PINS];
static uint8_t watched[PORTS];  // the bits of each port whose changes are reported
static uint8_t reported[PORTS]; // and their last values
static uint8_t polled_pins;     // watched pins whose change wakes no sleeping processor
static uint16_t report_ms = REPORT_DEFAULT_MS;
static uint32_t reported_at_ms;
static volatile bool pin_changed;

// After a watchdog reset the watchdog runs on at its shortest period (16 ms), shorter than start-up:
// stop it before the C run-time starts. Naked code in .init3 runs inline, r1 is already zero.
extern "C" void stop_watchdog_before_main(void) __attribute__((naked, used, section(".init3")));
extern "C" void stop_watchdog_before_main(void)
{
    MCUSR = 0;
    wdt_disable();
}

ISR(PCINT0_vect)
{
    pin_changed = true;
}
ISR(PCINT1_vect, ISR_ALIASOF(PCINT0_vect));
ISR(PCINT2_vect, ISR_ALIASOF(PCINT0_vect));

static void note_change()
{
    pin_changed = true;
}

static bool is_analog(uint8_t pin)
{
    return pin >= A0 && pin < A0 + NUM_ANALOG_INPUTS;
}

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

static uint8_t read_port(uint8_t port)
{
    return *portInputRegister(port) & watched[port];
}

static void report_changes()
{
    for (uint8_t port = 1; port < PORTS; port++) {
        if (watched[port] && read_port(port) != reported[port]) {
            reported[port] = read_port(port);
            write_port(port);
        }
    }
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

// Have a change of the pin wake the processor, or note that it must be polled.
static void watch(uint8_t pin, bool on)
{
    const uint8_t port = digitalPinToPort(pin), mask = digitalPinToBitMask(pin);
    if (on == ((watched[port] & mask) != 0))
        return;
    watched[port] ^= mask;
    reported[port] &= ~mask;
    const int interrupt = digitalPinToInterrupt(pin);
    if (interrupt != NOT_AN_INTERRUPT) {
        if (on)
            attachInterrupt(interrupt, note_change, CHANGE);
        else
            detachInterrupt(interrupt);
    } else if (volatile uint8_t *const enable = digitalPinToPCICR(pin)) {
        const uint8_t bit = 1 << digitalPinToPCMSKbit(pin);
        *enable |= 1 << digitalPinToPCICRbit(pin);
        if (on)
            *digitalPinToPCMSK(pin) |= bit;
        else
            *digitalPinToPCMSK(pin) &= ~bit;
    } else {
        polled_pins += on ? 1 : -1;
    }
}

static void apply_mode(uint8_t pin, uint8_t mode)
{
    watch(pin, mode == MODE_INPUT || mode == MODE_PULL_UP);
    digitalWrite(pin, LOW); // ends PWM, takes the pull-up away
    pinMode(pin, mode == MODE_PULL_UP ? INPUT_PULLUP : mode == MODE_OUTPUT || mode == MODE_PWM ? OUTPUT : INPUT);
    modes[pin] = mode;
    if (mode == MODE_INPUT || mode == MODE_PULL_UP) {
        const uint8_t port = digitalPinToPort(pin);
        reported[port] = read_port(port);
        write_port(port);
    }
}

static enum error set_mode(uint16_t pin, uint16_t mode)
{
    if (pin >= NUM_DIGITAL_PINS)
        return ERROR_INVALID_PIN;
    if (mode > MODE_PWM || (mode == MODE_ANALOG && !is_analog(pin)) || (mode == MODE_PWM && !digitalPinHasPWM(pin)))
        return ERROR_INVALID_MODE;
    if (modes[pin] == MODE_RESERVED)
        return ERROR_MODE_UNAVAILABLE;
    apply_mode(pin, mode);
    return ERROR_NONE;
}

static enum error write_digital(uint16_t pin, uint16_t value)
{
    if (pin >= NUM_DIGITAL_PINS)
        return ERROR_INVALID_PIN;
    if (modes[pin] < MODE_INPUT || modes[pin] > MODE_OUTPUT)
        return ERROR_WRONG_MODE;
    digitalWrite(pin, value ? HIGH : LOW);
    return ERROR_NONE;
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

static void reset_pins()
{
    for (uint8_t pin = 0; pin < NUM_DIGITAL_PINS; pin++) {
        if (pin < PINS_RESERVED)
            modes[pin] = MODE_RESERVED;
        else
            apply_mode(pin, MODE_UNALLOCATED);
    }
    report_ms = REPORT_DEFAULT_MS;
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
    case 'R': reset_pins(); break;
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

// Interrupts stay off between the check and the sleep instruction (sei takes effect one instruction
// late), so what happens in between wakes the processor instead of waiting for the next tick.
static void sleep_until_interrupt()
{
    noInterrupts();
    if (Serial.available() == 0 && !pin_changed) {
        sleep_enable();
        interrupts();
        sleep_cpu();
        sleep_disable();
    }
    interrupts();
}

void setup()
{
    wdt_enable(WATCHDOG_PERIOD);
    set_sleep_mode(SLEEP_MODE_IDLE);
    Serial.begin(BAUD);
    reset_pins();
    Serial.print(F("!looplab asip " ASIP_VERSION " on " CHIP " ready\n"));
}

void loop()
{
    wdt_reset();
    pin_changed = false;
    report_changes();
    report_analog();
    if (Serial.available() > 0) {
        if (line_add(&received, (char)Serial.read()))
            answer();
    } else if (polled_pins == 0) {
        sleep_until_interrupt();
    }
}
