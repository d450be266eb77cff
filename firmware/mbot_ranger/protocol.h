/* The robot's serial protocol, 57600 8N1: plain C that compiles for the board and for the host's tests.
 *
 * A request is one byte; every answer is one line ended by CR LF:
 *   T  temperature in degrees Celsius, two decimals        25.50
 *   L  light, mean of both on-board sensors, 0 to 1023     512
 *   S  sound level, 0 to 1023                              37
 *   ?  identity and version                                looplab mbot_ranger 0.1.0
 * A sensor that cannot be read gives a line starting with ERR. Any other byte is line noise: ignored.
 * After a reset the board says its identity followed by " ready".
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FIRMWARE_VERSION "0.1.0"
#define FIRMWARE_IDENTITY "looplab mbot_ranger " FIRMWARE_VERSION

/* Room for the longest answer line, its CR LF and the closing zero. */
#define LINE_BYTES_MAX 24

enum request {
    REQUEST_NONE,
    REQUEST_TEMPERATURE,
    REQUEST_LIGHT,
    REQUEST_SOUND,
    REQUEST_IDENTITY,
#ifdef LOOPLAB_FAULT_REQUEST
    REQUEST_HANG, /* only in the build that tests the watchdog */
#endif
};

enum request parse_request(uint8_t received);

/* Writes the answer line for a temperature, or the error line for TEMPERATURE_UNKNOWN. */
void format_temperature(char line[LINE_BYTES_MAX], int32_t centi_celsius);

/* Writes the answer line for a plain sensor level. */
void format_level(char line[LINE_BYTES_MAX], uint16_t level);

#ifdef __cplusplus
}
#endif

#endif
