#include "balance.h"

#include <avr/io.h>
#include <util/twi.h>

/* Motor drivers of the Me Auriga, as Makeblock's library has them (MeAuriga.h): PWM on pins 11 (PB5) and 10 (PB4), two
 * direction pins each, 49 and 48 (PL0, PL1), 47 and 46 (PL2, PL3). The motors face each other, so one turns the other
 * way. */
#define PWM_PINS (_BV(PB5) | _BV(PB4))
#define FORWARDS (_BV(PL0) | _BV(PL3))
#define BACKWARDS (_BV(PL1) | _BV(PL2))

#define LEVEL_ZERO 64
#define LEVEL_MOST 63
#define DUTY_A_LEVEL 4

/* A real Ranger, by Makeblock-Libraries (MeAuriga.h, MeGyro.cpp, MeEncoderOnBoard.cpp, Firmware_for_Auriga); not tried:
 *   tilt, rate   MPU-6050 at address 0x69. To start it: 0 to register 0x6B, 1 to 0x1A, 8 to 0x1B. Then 14 bytes from
 *                0x3B, high byte first: acceleration x, y, z (16384 for 1 g), temperature, rate x, y, z (65.5 for
 *                1 degree/s). Rate: y, less its value at rest. Tilt: -atan2(x, sqrt(y^2 + z^2)) of the acceleration,
 *                joined with the sum of the rate by a complementary filter of 0.5 s, each 5 to 10 ms.
 *   way, speed   a rising edge on pin 19 (left) or 18 (right) is a pulse, pins 42 and 43 tell its direction;
 *                9 pulses x 39.267 of gear make a turn: 0.57 mm each at wheels of 32 mm.
 *   motors       PWM of 7.8 kHz: timers 1 and 2, 8 bits, fast, at a divisor of 8. Arduino's, as here, has 490 Hz.
 * The simulated board has these in one device, without noise or lag: what falls there falls by late commands alone.
 * Four numbers of 16 bits, high byte first, in the order of struct balance_state. */
#define SENSOR_ADDRESS 0x42
#define BUS_HZ 400000UL
/* A byte takes 23 us; the bus is stuck if it takes a millisecond. */
#define WAIT_TURNS 2000

void balance_begin(void)
{
    balance_rest();
    DDRB |= PWM_PINS;
    DDRL |= FORWARDS | BACKWARDS;
    TWBR = (uint8_t)((F_CPU / BUS_HZ - 16) / 2);
    TWCR = _BV(TWEN);
}

static void set_duty(uint8_t duty)
{
    OCR1A = duty;
    OCR2A = duty;
    TCCR1A |= _BV(COM1A1);
    TCCR2A |= _BV(COM2A1);
}

void balance_rest(void)
{
    PORTL &= (uint8_t)~(FORWARDS | BACKWARDS);
    set_duty(0);
}

void balance_drive(uint8_t level)
{
    const bool back = level < LEVEL_ZERO;
    uint8_t steps = back ? LEVEL_ZERO - level : level - LEVEL_ZERO;
    if (steps > LEVEL_MOST)
        steps = LEVEL_MOST;
    PORTL = (uint8_t)((PORTL & ~(FORWARDS | BACKWARDS)) | (back ? BACKWARDS : FORWARDS));
    set_duty(steps * DUTY_A_LEVEL);
}

/* Starts what `control` names and waits for its end; returns the bus's status, TW_BUS_ERROR if it is stuck. */
static uint8_t bus(uint8_t control)
{
    TWCR = _BV(TWINT) | _BV(TWEN) | control;
    for (uint16_t turn = 0; turn < WAIT_TURNS; turn++)
        if (TWCR & _BV(TWINT))
            return TW_STATUS;
    return TW_BUS_ERROR;
}

static bool read_bytes(uint8_t *bytes, uint8_t count)
{
    if (bus(_BV(TWSTA)) != TW_START)
        return false;
    TWDR = SENSOR_ADDRESS << 1 | TW_READ;
    if (bus(0) != TW_MR_SLA_ACK)
        return false;
    for (uint8_t i = 0; i < count; i++) {
        const bool last = i + 1 == count;
        if (bus(last ? 0 : _BV(TWEA)) != (last ? TW_MR_DATA_NACK : TW_MR_DATA_ACK))
            return false;
        bytes[i] = TWDR;
    }
    return true;
}

bool balance_read(struct balance_state *state)
{
    uint8_t bytes[8];
    const bool good = read_bytes(bytes, sizeof bytes);
    TWCR = _BV(TWINT) | _BV(TWEN) | _BV(TWSTO);
    if (!good)
        return false;
    int16_t *values[] = {&state->tilt_mrad, &state->rate_mrad_s, &state->way_mm, &state->speed_mm_s};
    for (uint8_t i = 0; i < 4; i++)
        *values[i] = (int16_t)((uint16_t)bytes[2 * i] << 8 | bytes[2 * i + 1]);
    return true;
}
