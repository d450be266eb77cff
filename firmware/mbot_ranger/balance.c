#include "balance.h"

#include <avr/io.h>
#include <util/twi.h>

/* Motor drivers of the Me Auriga, as Makeblock's library has them: PWM on pins 11 (PB5) and 10 (PB4), two direction
 * pins each, 49 and 48 (PL0, PL1), 47 and 46 (PL2, PL3). The motors face each other, so one turns the other way. */
#define PWM_PINS (_BV(PB5) | _BV(PB4))
#define FORWARDS (_BV(PL0) | _BV(PL3))
#define BACKWARDS (_BV(PL1) | _BV(PL2))

#define LEVEL_ZERO 64
#define LEVEL_MOST 63
#define DUTY_A_LEVEL 4

/* Four numbers of 16 bits, high byte first, in the order of struct balance_state. */
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
