#include "wheels.h"

#include <math.h>
#include <string.h>

#include "mcu.h"
#include "plant.h"

/* firmware/mbot_ranger/balance.c: the sensor's address, and the first motor's pins. The other one turns alike. */
#define SENSOR_ADDRESS 0x42
#define OCR1AL 0x88
#define PORTL 0x10B
#define FORWARDS 0x01
#define BACKWARDS 0x02
#define DUTY_A_LEVEL 4
#define LEVEL_ZERO 64

#define STEP_CYCLES (MCU_HZ / PLANT_STEPS_PER_S)

static struct plant plant;
static uint64_t reached_cycle;

/* Steps are made up for when somebody looks: between two readings nobody can see the plant. */
static void catch_up(void)
{
    const uint64_t steps = (mcu_cycle() - reached_cycle) / STEP_CYCLES;
    reached_cycle += steps * STEP_CYCLES;
    plant_advance(&plant, steps);
}

/* The firmware sets its motors right before it reads, so the voltage counts from here on. Motors that are off: the
 * robot rests in its stand. */
static void take_command(void)
{
    const uint8_t direction = mcu_register(PORTL) & (FORWARDS | BACKWARDS);
    const int level = mcu_register(OCR1AL) / DUTY_A_LEVEL;
    if (direction == 0) {
        plant_reset(&plant);
    } else {
        if (!plant.released)
            reached_cycle = mcu_cycle();
        plant_command(&plant, direction == FORWARDS ? LEVEL_ZERO + level : LEVEL_ZERO - level);
    }
}

static void fill(uint8_t bytes[MCU_I2C_BYTES])
{
    catch_up();
    take_command();
    const double values[] = {plant.state.tilt_rad, plant.state.rate_rad_s, plant.state.x_m, plant.state.v_m_s};
    for (unsigned i = 0; i < 4; i++) {
        const double thousandths = fmax(-32768, fmin(32767, nearbyint(1000 * values[i])));
        const uint16_t number = (uint16_t)(int16_t)thousandths;
        bytes[2 * i] = (uint8_t)(number >> 8);
        bytes[2 * i + 1] = (uint8_t)number;
    }
}

void wheels_start(const char *processor)
{
    if (strcmp(processor, "atmega2560") != 0)
        return;
    plant_reset(&plant);
    mcu_attach_i2c(SENSOR_ADDRESS, fill);
}
