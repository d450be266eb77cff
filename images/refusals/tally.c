#include "tally.h"

#include <stddef.h>

#define KEY_BYTES_MAX 256
/* FNV-1a of 64 bits. */
#define FNV_PRIME 0x100000001b3u

void tally_start(struct tally *tally, long now_s)
{
    *tally = (struct tally){.lines = TALLY_LINES, .refilled_s = now_s, .told_s = now_s};
}

static void refill(struct tally *tally, long now_s)
{
    for (; tally->refilled_s < now_s && tally->lines < TALLY_LINES; tally->refilled_s++)
        tally->lines++;
    tally->refilled_s = now_s;
}

static bool is_known(const struct tally *tally, uint64_t key)
{
    for (unsigned i = 0; i < TALLY_LINES; i++)
        if (tally->known[i] == key)
            return true;
    return false;
}

bool tally_tell_now(struct tally *tally, uint64_t key, long now_s)
{
    refill(tally, now_s);
    if (tally->lines == 0 || is_known(tally, key)) {
        tally->untold++;
        return false;
    }
    tally->lines--;
    tally->known[tally->oldest] = key;
    tally->oldest = (tally->oldest + 1) % TALLY_LINES;
    if (tally->untold == 0)
        tally->told_s = now_s;
    return true;
}

unsigned long tally_take(struct tally *tally, long now_s, bool last)
{
    if (now_s == tally->told_s && !last)
        return 0;
    const unsigned long untold = tally->untold;
    tally->untold = 0;
    if (untold != 0)
        tally->told_s = now_s;
    return untold;
}

uint64_t tally_key(uint64_t seed, const char *string)
{
    uint64_t key = seed;
    /* Its end counts, too: "a" and "bc" are not "ab" and "c". */
    for (size_t i = 0; i < KEY_BYTES_MAX; i++) {
        key = (key ^ (unsigned char)string[i]) * FNV_PRIME;
        if (string[i] == '\0')
            break;
    }
    return key;
}
