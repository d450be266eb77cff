#include "intel_hex.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

/* A record: count, address (2), type, up to 255 data bytes, checksum; two digits each after a colon. */
#define RECORD_BYTES_MAX (1 + 2 + 1 + 255 + 1)
#define LINE_CHARS_MAX (1 + 2 * RECORD_BYTES_MAX + 2 + 1)

enum { RECORD_DATA, RECORD_END, RECORD_SEGMENT, RECORD_SEGMENT_START, RECORD_LINEAR, RECORD_LINEAR_START };

struct record {
    uint8_t count;
    uint16_t address;
    uint8_t type;
    const uint8_t *data;
};

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* Returns how many bytes the line's digits make, or 0 if it is not a line of digits after a colon. */
static size_t decode_digits(const char *line, uint8_t bytes[RECORD_BYTES_MAX])
{
    const size_t length = strcspn(line, "\r\n");
    if (line[0] != ':' || length % 2 == 0 || length > 1 + 2 * RECORD_BYTES_MAX)
        return 0;
    for (size_t i = 0; i < length / 2; i++) {
        const int high = digit(line[1 + 2 * i]), low = digit(line[2 + 2 * i]);
        if (high < 0 || low < 0)
            return 0;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return length / 2;
}

/* All bytes of a record, its checksum included, add up to zero. */
static bool parse_record(const char *line, uint8_t bytes[RECORD_BYTES_MAX], struct record *record)
{
    const size_t length = decode_digits(line, bytes);
    if (length < 5 || length != (size_t)bytes[0] + 5)
        return false;
    uint8_t sum = 0;
    for (size_t i = 0; i < length; i++)
        sum = (uint8_t)(sum + bytes[i]);
    *record = (struct record){
        .count = bytes[0], .address = (uint16_t)(bytes[1] << 8 | bytes[2]), .type = bytes[3], .data = bytes + 4};
    return sum == 0;
}

void intel_hex_read(const char *path, uint8_t *memory, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        fail(EXIT_USAGE, "cannot open the firmware %s: %s (--firmware)", path, strerror(errno));
    char line[LINE_CHARS_MAX];
    uint8_t bytes[RECORD_BYTES_MAX];
    uint32_t base = 0;
    bool ended = false;
    for (unsigned number = 1; !ended && fgets(line, sizeof line, file); number++) {
        struct record record;
        if (!parse_record(line, bytes, &record))
            fail(EXIT_USAGE, "the firmware %s is not whole: line %u is no Intel HEX record (--firmware)", path, number);
        if (record.type == RECORD_END)
            ended = true;
        else if (record.type == RECORD_SEGMENT && record.count == 2)
            base = (uint32_t)(record.data[0] << 8 | record.data[1]) << 4;
        else if (record.type == RECORD_LINEAR && record.count == 2)
            base = (uint32_t)(record.data[0] << 8 | record.data[1]) << 16;
        if (record.type != RECORD_DATA)
            continue;
        if ((uint64_t)base + record.address + record.count > size)
            fail(EXIT_USAGE, "the firmware %s does not fit the processor's %zu bytes of flash (--firmware)", path,
                 size);
        memcpy(memory + base + record.address, record.data, record.count);
    }
    fclose(file);
    if (!ended)
        fail(EXIT_USAGE, "the firmware %s is cut short: it has no end record (--firmware)", path);
}
