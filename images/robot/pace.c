#include "pace.h"

#include <time.h>

#include "mcu.h"

/* 16 MHz: 2 cycles are 125 ns. */
#define CYCLES 2u
#define CYCLES_NS 125u
_Static_assert((uint64_t)MCU_HZ *CYCLES_NS == (uint64_t)CYCLES * 1000000000u, "the ratio is that of MCU_HZ");

static uint64_t origin_ns;
static uint64_t origin_cycle;

uint64_t pace_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pace_start(uint64_t start_ns, uint64_t cycle)
{
    origin_ns = start_ns;
    origin_cycle = cycle;
}

uint64_t pace_cycle_at(uint64_t ns)
{
    return ns <= origin_ns ? origin_cycle : origin_cycle + (ns - origin_ns) * CYCLES / CYCLES_NS;
}

uint64_t pace_ns_at(uint64_t cycle)
{
    if (cycle <= origin_cycle)
        return origin_ns;
    return origin_ns + ((cycle - origin_cycle) * CYCLES_NS + CYCLES - 1) / CYCLES;
}
