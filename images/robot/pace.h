/* Which processor cycle belongs to which moment of CLOCK_MONOTONIC. */
#ifndef ROBOT_PACE_H
#define ROBOT_PACE_H

#include <stdint.h>

uint64_t pace_now_ns(void);

/* From `start_ns` on, the processor runs at its rate, beginning with `cycle`. */
void pace_start(uint64_t start_ns, uint64_t cycle);

/* The last cycle over at a moment; before the start, the first one. */
uint64_t pace_cycle_at(uint64_t ns);

/* The first moment at which a cycle is over. */
uint64_t pace_ns_at(uint64_t cycle);

#endif
