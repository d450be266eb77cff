#include "statistics.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "mcu.h"

struct statistics statistics;

static void count(struct lags *lags, uint64_t lag_ns)
{
    lags->deadlines++;
    lags->sum_ns += lag_ns;
    if (lag_ns > lags->max_ns)
        lags->max_ns = lag_ns;
    if (lag_ns > LAG_LIMIT_NS)
        lags->over_limit++;
}

void statistics_deadline(uint64_t due_ns, uint64_t done_ns)
{
    const uint64_t lag_ns = done_ns > due_ns ? done_ns - due_ns : 0;
    count(&statistics.lags, lag_ns);
    count(&statistics.lags_unasked, lag_ns);
}

void statistics_held(uint64_t from_cycle, uint64_t due_cycle)
{
    const uint64_t held_us = due_cycle > from_cycle ? (due_cycle - from_cycle) / MCU_CYCLES_PER_US : 0;
    if (held_us > statistics.held_us)
        statistics.held_us = held_us;
}

size_t statistics_since_asked(const char *processor, char *text, size_t size)
{
    const struct lags lags = statistics.lags_unasked;
    const double mean_us = lags.deadlines ? (double)lags.sum_ns / (double)lags.deadlines / 1e3 : 0.0;
    const int length =
        snprintf(text, size,
                 "lag_max_us=%" PRIu64 " lag_mean_us=%.1f lags_over_1ms=%" PRIu64 " deadlines=%" PRIu64
                 " held_max_us=%" PRIu64 " processor=%s\n",
                 lags.max_ns / 1000, mean_us, lags.over_limit, lags.deadlines, statistics.held_us, processor);
    statistics.lags_unasked = (struct lags){0};
    return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void statistics_print(uint64_t cycles, uint64_t refused_clients, uint64_t overrun_bytes)
{
    fprintf(stderr,
            "robot: statistics lag_max_us=%" PRIu64 " lags_over_1ms=%" PRIu64 " deadlines=%" PRIu64
            " simulated_s=%.3f cpu_s=%.3f wakeups=%" PRIu64 " stops=%" PRIu64 " clients=%" PRIu64 " refused=%" PRIu64
            " resets=%" PRIu64 " watchdog_resets=%" PRIu64 " bytes_to_robot=%" PRIu64 " bytes_to_host=%" PRIu64
            " bytes_not_taken=%" PRIu64 " bytes_in_boot=%" PRIu64 "\n",
            statistics.lags.max_ns / 1000, statistics.lags.over_limit, statistics.lags.deadlines,
            (double)cycles / MCU_HZ, cpu_seconds(), statistics.wakeups, mcu_stops(), statistics.clients,
            refused_clients, statistics.resets, statistics.watchdog_resets, statistics.bytes_to_robot,
            statistics.bytes_to_host, statistics.bytes_not_taken + overrun_bytes, statistics.bytes_in_boot);
}
