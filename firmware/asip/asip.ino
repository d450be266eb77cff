// ASIP's core I/O service for Uno and Mega 2560: a text protocol by which a client sets and reads pins.
// requests.tsv has the requests and replies; request.h parses a line.

#include <avr/sleep.h>
#include <avr/wdt.h>

#include "request.h"

static const uint32_t BAUD = 57600;

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

static uint8_t modes[NUM_DIGITAL_PINS];
static uint8_t watched[PORTS];  // the bits of each port whose changes are reported
static uint8_t reported[PORTS]; // and their last values
static uint8_t polled_pins;     // watched pins whose change wakes no sleeping processor
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

// What the protocol does: lines.h.
static void write_port(uint8_t port);
static void report_analog();
static void protocol_reset();
static void take_byte(uint8_t byte);
static void write_start();

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

static bool is_input(uint8_t mode)
{
    return mode == MODE_INPUT || mode == MODE_PULL_UP;
}

static void apply_mode(uint8_t pin, uint8_t mode)
{
    watch(pin, is_input(mode));
    digitalWrite(pin, LOW); // ends PWM, takes the pull-up away
    pinMode(pin, mode == MODE_PULL_UP ? INPUT_PULLUP : mode == MODE_OUTPUT || mode == MODE_PWM ? OUTPUT : INPUT);
    modes[pin] = mode;
    if (is_input(mode))
        reported[digitalPinToPort(pin)] = read_port(digitalPinToPort(pin));
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
    if (is_input(mode))
        write_port(digitalPinToPort(pin));
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

// Pins that cannot be analog get the mode `digital`, the others `analog`.
static void set_all(uint8_t digital, uint8_t analog)
{
    for (uint8_t pin = 0; pin < NUM_DIGITAL_PINS; pin++) {
        if (pin < PINS_RESERVED)
            modes[pin] = MODE_RESERVED;
        else
            apply_mode(pin, is_analog(pin) ? analog : digital);
    }
    protocol_reset();
}

#include "lines.h"

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
    // As the original firmware: every pin is an input, and the analog ones report unasked.
    set_all(MODE_INPUT, MODE_ANALOG);
    write_start();
}

void loop()
{
    wdt_reset();
    pin_changed = false;
    report_changes();
    report_analog();
    if (Serial.available() > 0) {
        take_byte((uint8_t)Serial.read());
    } else if (polled_pins == 0) {
        sleep_until_interrupt();
    }
}
