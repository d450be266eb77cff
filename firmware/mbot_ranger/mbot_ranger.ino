// Firmware of the lab's robot: an mBot Ranger, that is a Me Auriga board with an ATmega2560 at 16 MHz.
// It answers one-letter requests on its USB serial port and sleeps in between; protocol.h lists them.

#include <avr/sleep.h>
#include <avr/wdt.h>

#include "balance.h"
#include "protocol.h"
#include "thermistor.h"

// On-board sensors of the Me Auriga.
static const uint8_t PIN_THERMISTOR = A0;
static const uint8_t PIN_SOUND = A1;
static const uint8_t PIN_LIGHT_2 = A2;
static const uint8_t PIN_LIGHT_1 = A3;

static const uint32_t BAUD = 57600;

// One conversion takes 112 us with its call, so this number sets the sensor's read time: 3 make 0.34 ms. Shorter than
// a line on the wire: answers to requests that wait together follow one another without a gap.
static const uint8_t SAMPLES_PER_READING = 3;

// Far above the worst-case answer time (7 ms), far below a person's patience.
static const uint8_t WATCHDOG_PERIOD = WDTO_1S;

// After a watchdog reset the watchdog runs on at its shortest period (16 ms), shorter than start-up:
// stop it before the C run-time starts. Naked code in .init3 runs inline, r1 is already zero.
extern "C" void stop_watchdog_before_main(void) __attribute__((naked, used, section(".init3")));
extern "C" void stop_watchdog_before_main(void)
{
    MCUSR = 0;
    wdt_disable();
}

// The sum of SAMPLES_PER_READING conversions: averaging takes the ADC's noise off the answer.
static uint16_t sampled_sum(uint8_t pin)
{
    uint16_t sum = 0;
    for (uint8_t i = 0; i < SAMPLES_PER_READING; i++)
        sum += analogRead(pin);
    return sum;
}

static int32_t centi_celsius()
{
    return thermistor_centi_celsius(sampled_sum(PIN_THERMISTOR), SAMPLES_PER_READING);
}

static void write_temperature()
{
    char line[LINE_BYTES_MAX];
    format_temperature(line, centi_celsius());
    Serial.print(line);
}

static void write_numbered_temperature(uint8_t letter)
{
    char line[LINE_BYTES_MAX];
    format_numbered_temperature(line, letter, centi_celsius());
    Serial.print(line);
}

static void write_level(uint8_t letter, uint32_t sum, uint16_t samples)
{
    char line[LINE_BYTES_MAX];
    format_level(line, letter, sum / samples);
    Serial.print(line);
}

static void write_balance(uint8_t letter)
{
    char line[LINE_BYTES_MAX];
    struct balance_state state;
    format_balance(line, letter, balance_read(&state) ? &state : NULL);
    Serial.print(line);
}

// Whether a byte may set the wheels' voltage: noise must not drive a robot that is asked for its temperature.
static bool balancing;

static void arm_or_rest(enum request request)
{
    if (request == REQUEST_NONE || request == REQUEST_NUMBER || request == REQUEST_DRIVE)
        return;
    if (balancing || request == REQUEST_UPRIGHT)
        balance_rest();
    balancing = request == REQUEST_UPRIGHT;
}

// The number of the request behind it, 0 for none.
static uint8_t number;

static void answer(uint8_t received)
{
    const enum request request = parse_request(received);
    const uint8_t letter = number;
    number = request == REQUEST_NUMBER ? received + NUMBER_OFFSET : 0;
    arm_or_rest(request);
    switch (request) {
    case REQUEST_UPRIGHT: write_balance(letter); break;
    case REQUEST_DRIVE:
        if (balancing) {
            balance_drive(received - LEVEL_BYTE);
            write_balance(letter);
        }
        break;
    case REQUEST_TEMPERATURE: write_temperature(); break;
    case REQUEST_LIGHT:
        write_level(letter, (uint32_t)sampled_sum(PIN_LIGHT_1) + sampled_sum(PIN_LIGHT_2), 2 * SAMPLES_PER_READING);
        break;
    case REQUEST_SOUND: write_level(letter, sampled_sum(PIN_SOUND), SAMPLES_PER_READING); break;
    case REQUEST_NUMBERED_TEMPERATURE: write_numbered_temperature(received); break;
    case REQUEST_IDENTITY: Serial.print(F(FIRMWARE_IDENTITY "\r\n")); break;
    case REQUEST_NUMBER:
    case REQUEST_NONE: break;
#ifdef LOOPLAB_FAULT_REQUEST
    case REQUEST_HANG:
        for (;;) {
        }
#endif
    }
}

// Interrupts stay off between the check and the sleep instruction (sei takes effect one instruction
// late), so a byte that comes in between wakes the processor instead of waiting for the next tick.
static void sleep_until_interrupt()
{
    noInterrupts();
    if (Serial.available() == 0) {
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
    balance_begin();
    Serial.begin(BAUD);
    Serial.print(F(FIRMWARE_IDENTITY " ready\r\n"));
}

void loop()
{
    wdt_reset();
    const int received = Serial.read();
    if (received < 0) {
        sleep_until_interrupt();
    } else {
        answer((uint8_t)received);
    }
}
