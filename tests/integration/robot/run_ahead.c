/* Runs the firmware cycle by cycle and looks how far beyond each cycle that was asked for the processor gets.
 * Prints the largest distance in cycles. */
#include <inttypes.h>
#include <stdio.h>

#include "mcu.h"

/* Past start-up; then time for several ticks of every timer. */
#define START_CYCLE (100u * 1000u * MCU_CYCLES_PER_US)
#define END_CYCLE (START_CYCLE + 10u * 1000u * MCU_CYCLES_PER_US)

static void ignore_byte(void *context, uint8_t byte, uint64_t wire_end_cycle)
{
    (void)context;
    (void)byte;
    (void)wire_end_cycle;
}

static void ignore_reset(void *context, uint64_t cycle)
{
    (void)context;
    (void)cycle;
}

int main(int argc, char **argv)
{
    uint64_t farthest = 0;
    if (argc != 2)
        return 2;
    mcu_start("atmega2560", argv[1], (struct mcu_observer){.transmitted = ignore_byte, .watchdog_reset = ignore_reset});
    mcu_run_until(START_CYCLE);
    while (mcu_cycle() < END_CYCLE) {
        const uint64_t target = mcu_cycle() + 1;
        if (!mcu_run_until(target))
            return 1;
        if (mcu_cycle() - target > farthest)
            farthest = mcu_cycle() - target;
    }
    printf("%" PRIu64 "\n", farthest);
    return 0;
}
