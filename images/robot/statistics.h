/* Counts of a run: how far the emulation lagged behind real time, and what passed through it. */
#ifndef ROBOT_STATISTICS_H
#define ROBOT_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* Lags above this make a measured response time doubtful. */
#define LAG_LIMIT_NS 1000000u

/* How much later than due bytes were delivered. */
struct lags {
    uint64_t deadlines;
    uint64_t max_ns;
    uint64_t sum_ns;
    uint64_t over_limit;
};

struct statistics {
    uint64_t clients;
    uint64_t resets;
    uint64_t watchdog_resets;
    uint64_t bytes_to_robot;
    uint64_t bytes_to_host;
    uint64_t bytes_not_taken; /* by a client that does not read */
    uint64_t bytes_in_boot;   /* swallowed by the boot loader */
    uint64_t wakeups;
    struct lags lags;         /* since the start */
    struct lags lags_unasked; /* since the last question */
    uint64_t held_us;         /* the longest that the adapter held a byte back since the last reset */
};

extern struct statistics statistics;

/* Something due at one time was done at another (both CLOCK_MONOTONIC). */
void statistics_deadline(uint64_t due_ns, uint64_t done_ns);

/* The adapter had a byte of the board from one cycle on, and handed it to the host at another. */
void statistics_held(uint64_t from_cycle, uint64_t due_cycle);

/* One line of name=value pairs on standard error. */
void statistics_print(uint64_t cycles, uint64_t refused_clients, uint64_t overrun_bytes);

/* Writes one line of name=value pairs, lags since the last call; returns its length. */
size_t statistics_since_asked(const char *processor, char *text, size_t size);

#endif
