/* One line of an ASIP client, parsed. Plain C, so that the host's tests compile it, too. */
#ifndef ASIP_REQUEST_H
#define ASIP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASIP_VERSION "0.1.0"

/* `I,d,13,1` and every other request is far shorter. */
#define LINE_BYTES_MAX 40

#define SERVICE_SYSTEM '#'
#define SERVICE_IO 'I'

/* Numbers of the protocol's error replies. */
enum error {
    ERROR_NONE,
    ERROR_INVALID_SERVICE,
    ERROR_UNKNOWN_REQUEST,
    ERROR_INVALID_PIN,
    ERROR_MODE_UNAVAILABLE,
    ERROR_INVALID_MODE,
    ERROR_WRONG_MODE,
    ERROR_INVALID_DEVICE_NUMBER,
    ERROR_DEVICE_NOT_AVAILABLE,
    ERROR_I2C
};

/* Modes of a pin. Clients may ask for those up to MODE_PWM. */
enum mode {
    MODE_UNALLOCATED,
    MODE_INPUT,
    MODE_PULL_UP,
    MODE_OUTPUT,
    MODE_ANALOG,
    MODE_PWM,
    MODE_RESERVED,
    MODE_SERVICE
};

/* A line as it is received. */
struct line {
    char bytes[LINE_BYTES_MAX];
    uint8_t count;
    bool overlong;
};

struct request {
    bool ignored; /* too short, or for people */
    char service;
    char tag; /* '?' where there is none */
    enum error error;
    uint16_t arguments[2];
};

/* Add a byte; return true once a line is whole (its LF is not part of it). */
bool line_add(struct line *line, char byte);

/* Begin the next line. */
void line_clear(struct line *line);

/* Parse a whole line. The error is that of its form alone, never of its pin or mode. */
struct request request_parse(const struct line *line);

/* Return the name that an error reply carries. */
const char *error_name(enum error error);

#ifdef __cplusplus
}
#endif
#endif
