/* Which refusals are told at once and which are counted, so that a flood of them floods no log. */
#ifndef REFUSALS_TALLY_H
#define REFUSALS_TALLY_H

#include <stdbool.h>
#include <stdint.h>

/* So many different ones are told at once; then one more each second. */
#define TALLY_LINES 64

struct tally {
    uint64_t known[TALLY_LINES]; /* the latest told, by who and what; the oldest gives way */
    unsigned oldest;
    unsigned lines;       /* that may still be told at once */
    long refilled_s;      /* when `lines` was last added to */
    long told_s;          /* when the last count was told, or the last refusal before there was one */
    unsigned long untold; /* counted since */
};

/* Times are seconds of a clock that never goes back. */
void tally_start(struct tally *tally, long now_s);

/* A refusal of `key` (who and what): true, tell it now; false, it is counted. */
bool tally_tell_now(struct tally *tally, uint64_t key, long now_s);

/* How many were counted, once a second has gone by or it is the `last` chance; they are then held to be told. */
unsigned long tally_take(struct tally *tally, long now_s, bool last);

/* Of a string's first bytes, to be given on as `seed`. */
uint64_t tally_key(uint64_t seed, const char *string);

#endif
