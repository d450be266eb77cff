#include "signals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mcu.h"
#include "report.h"
#include "statistics.h"

/* What an oscilloscope keeps; older edges are overwritten. */
#define EDGES_KEPT (1u << 18)

/* Edges of one answer, so that it fits a datagram. */
#define EDGES_ANSWERED 1500

struct edge {
    uint64_t cycle;
    char pin[3];
    uint8_t level;
};

static struct edge edges[EDGES_KEPT];
static uint64_t edge_count;

static char generator_pin[3];
static uint64_t wave_id, half_cycles, edges_left, next_edge = UINT64_MAX;
static bool level;

struct probe {
    char pin[3];
    uint8_t level;
};
static struct probe probes[OPTIONS_PINS];

static void note_edge(void *context, unsigned value)
{
    struct probe *probe = context;
    const uint8_t found = value ? 1 : 0;
    if (found == probe->level)
        return;
    probe->level = found;
    struct edge *edge = &edges[edge_count++ % EDGES_KEPT];
    *edge = (struct edge){.cycle = mcu_cycle(), .level = found};
    memcpy(edge->pin, probe->pin, sizeof edge->pin);
}

void signals_start(const struct options *options)
{
    for (unsigned i = 0; i < options->scope_pins; i++) {
        memcpy(probes[i].pin, options->scope[i], sizeof probes[i].pin);
        mcu_watch_pin(probes[i].pin, note_edge, &probes[i]);
    }
    if (options->wire[0][0])
        mcu_wire_pins(options->wire[0], options->wire[1]);
    memcpy(generator_pin, options->generator, sizeof generator_pin);
    if (generator_pin[0])
        mcu_set_pin(generator_pin, false);
}

uint64_t signals_next_edge(void)
{
    return next_edge;
}

void signals_run(void)
{
    while (next_edge <= mcu_cycle()) {
        level = !level;
        mcu_set_pin(generator_pin, level);
        next_edge = --edges_left ? next_edge + half_cycles : UINT64_MAX;
    }
}

void signals_reset(void)
{
    next_edge = UINT64_MAX;
    edges_left = 0;
    level = false;
    if (generator_pin[0])
        mcu_set_pin(generator_pin, false);
}

static size_t fitting(int length, size_t size)
{
    return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

/* A question that arrives twice starts one wave. */
static size_t start_wave(uint64_t id, uint64_t half, uint64_t count, char *answer, size_t size)
{
    if (!generator_pin[0] || half < MCU_CYCLES_PER_US || count > EDGES_KEPT)
        return fitting(snprintf(answer, size, "error no generator, less than 1 us, or too many edges\n"), size);
    if (id != wave_id) {
        wave_id = id;
        half_cycles = half;
        edges_left = count;
        next_edge = count ? mcu_cycle() + half : UINT64_MAX;
    }
    return fitting(snprintf(answer, size, "wave=%" PRIu64 " cycle=%" PRIu64 "\n", wave_id, mcu_cycle()), size);
}

static size_t list_edges(uint64_t from, char *answer, size_t size)
{
    const uint64_t oldest = edge_count > EDGES_KEPT ? edge_count - EDGES_KEPT : 0;
    if (from < oldest)
        from = oldest;
    size_t used = fitting(snprintf(answer, size,
                                   "from=%" PRIu64 " count=%" PRIu64 " cycle=%" PRIu64 " left=%" PRIu64
                                   " bytes_to_board=%" PRIu64 " bytes_to_client=%" PRIu64 "\n",
                                   from, edge_count, mcu_cycle(), edges_left, statistics.bytes_to_robot,
                                   statistics.bytes_to_host),
                          size);
    for (uint64_t i = from; i < edge_count && i < from + EDGES_ANSWERED; i++) {
        const struct edge *edge = &edges[i % EDGES_KEPT];
        used +=
            fitting(snprintf(answer + used, size - used, "%s %u %" PRIu64 "\n", edge->pin, edge->level, edge->cycle),
                    size - used);
    }
    return used;
}

size_t signals_answer(const char *question, char *answer, size_t size)
{
    uint64_t id, half, count;
    if (sscanf(question, "wave %" SCNu64 " %" SCNu64 " %" SCNu64, &id, &half, &count) == 3)
        return start_wave(id, half, count, answer, size);
    if (sscanf(question, "edges %" SCNu64, &count) == 1)
        return list_edges(count, answer, size);
    return 0;
}
