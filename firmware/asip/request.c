#include "request.h"

#include <stddef.h>

/* Service, comma, tag: with its LF the shortest request has four bytes. */
#define SHORTEST 3

#define NO_NUMBER (-1L)

bool line_add(struct line *line, char byte)
{
    if (byte == '\n')
        return true;
    if (byte == '\r')
        return false;
    if (line->count < LINE_BYTES_MAX)
        line->bytes[line->count++] = byte;
    else
        line->overlong = true;
    return false;
}

void line_clear(struct line *line)
{
    line->count = 0;
    line->overlong = false;
}

static bool is_printable(char byte)
{
    return byte > ' ' && byte <= '~';
}

/* How many numbers follow the tag; -1: this service has no such request. */
static int8_t arguments_of(char service, char tag)
{
    if (service == SERVICE_SYSTEM)
        return tag == '?' || tag == 'N' || tag == 'S' || tag == 'R' ? 0 : -1;
    switch (tag) {
    case 'P':
    case 'd':
    case 'a': return 2;
    case 'A': return 1;
    case 'M':
    case 'm':
    case 'p':
    case 'c': return 0;
    default: return -1;
    }
}

/* Read `,<digits>` at *at, at most 65535, and move on. NO_NUMBER for anything else. */
static int32_t number_at(const struct line *line, uint8_t *at)
{
    if (*at >= line->count || line->bytes[*at] != ',')
        return NO_NUMBER;
    uint8_t digits = 0;
    int32_t value = 0;
    for (++*at; *at < line->count && line->bytes[*at] >= '0' && line->bytes[*at] <= '9'; ++*at, ++digits)
        if (value <= UINT16_MAX)
            value = 10 * value + (line->bytes[*at] - '0');
    return digits > 0 && value <= UINT16_MAX ? value : NO_NUMBER;
}

static enum error parse_arguments(const struct line *line, struct request *request)
{
    const int8_t wanted = arguments_of(request->service, request->tag);
    uint8_t at = SHORTEST;
    for (int8_t i = 0; i < wanted; i++) {
        const int32_t value = number_at(line, &at);
        if (value == NO_NUMBER)
            return ERROR_UNKNOWN_REQUEST;
        request->arguments[i] = (uint16_t)value;
    }
    return wanted >= 0 && at == line->count ? ERROR_NONE : ERROR_UNKNOWN_REQUEST;
}

struct request request_parse(const struct line *line)
{
    struct request request = {.service = line->bytes[0], .tag = '?'};
    if (line->count < SHORTEST || request.service == '!' || !is_printable(request.service)) {
        request.ignored = true;
        return request;
    }
    if (request.service != SERVICE_SYSTEM && request.service != SERVICE_IO) {
        request.error = ERROR_INVALID_SERVICE;
        return request;
    }
    const bool tagged = line->bytes[1] == ',' && is_printable(line->bytes[2]);
    if (tagged)
        request.tag = line->bytes[2];
    request.error = tagged && !line->overlong ? parse_arguments(line, &request) : ERROR_UNKNOWN_REQUEST;
    return request;
}

const char *error_name(enum error error)
{
    static const char *const names[] = {
        "NO_ERROR",     "INVALID_SERVICE", "UNKNOWN_REQUEST",       "INVALID_PIN",          "MODE_UNAVAILABLE",
        "INVALID_MODE", "WRONG_MODE",      "INVALID_DEVICE_NUMBER", "DEVICE_NOT_AVAILABLE", "I2C",
    };
    return names[error];
}
