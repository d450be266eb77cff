/* The robot's serial protocol, 57600 8N1: plain C that compiles for the board and for the host's tests.
 *
 * A request is one byte; every answer is one line ended by CR LF (a numbered one by LF alone):
 *   T  temperature in degrees Celsius, two decimals        25.50
 *   L  light, mean of both on-board sensors, 0 to 1023     512
 *   S  sound level, 0 to 1023                              37
 *   ?  identity and version                                looplab mbot_ranger 0.4.0
 *   a to z  numbered: temperature in hundredths of a degree, behind the letter that asked and before a check
 *      letter, 'A' plus the sum of the bytes before it modulo 23; as long as the answer to T     c2550E
 *   U  upright: motors off; tilt in mrad, its rate in mrad/s, the wheels' way in mm, their speed in mm/s    35 0 0 0
 *   128 to 255  after a U: sets the wheels' voltage to level 0 to 127 (64: none), answers as to U   -12 340 5 -87
 *   1 to 26  a number, a to z, for the L, S, U or level behind it; its answer is numbered as that to a letter, light
 *      and sound in hundredths     c-12 340 5 -87J, c51200C
 * Another sensor's letter ends that: the motors go off, and bytes from 128 on are noise again.
 * A sensor that cannot be read gives a line starting with ERR (numbered: E in the place of the digits).
 * Any other byte is line noise: ignored. A request is one byte, perhaps behind its number, so noise can cost or add
 * requests, but never leaves the firmware waiting.
 * After a reset the board says its identity followed by " ready".
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FIRMWARE_VERSION "0.4.0"
#define FIRMWARE_IDENTITY "looplab mbot_ranger " FIRMWARE_VERSION

/* Room for the longest answer line, its CR LF and the closing zero. */
#define LINE_BYTES_MAX 32

/* A byte from here on is a level of the wheels' voltage. */
#define LEVEL_BYTE 128

/* A byte from 1 to 26 is the number a to z of the request behind it: this much less than the letter. */
#define NUMBER_OFFSET 96

enum request {
    REQUEST_NONE,
    REQUEST_TEMPERATURE,
    REQUEST_LIGHT,
    REQUEST_SOUND,
    REQUEST_IDENTITY,
    REQUEST_NUMBERED_TEMPERATURE,
    REQUEST_UPRIGHT,
    REQUEST_DRIVE,
    REQUEST_NUMBER,
#ifdef LOOPLAB_FAULT_REQUEST
    REQUEST_HANG, /* only in the build that tests the watchdog */
#endif
};

/* What keeps a robot on two wheels: its body's tilt, and how far and how fast its wheels have gone. */
struct balance_state {
    int16_t tilt_mrad, rate_mrad_s, way_mm, speed_mm_s;
};

enum request parse_request(uint8_t received);

/* Writes the answer line for a temperature, or the error line for TEMPERATURE_UNKNOWN. */
void format_temperature(char line[LINE_BYTES_MAX], int32_t centi_celsius);

/* Writes the answer line for a temperature that `letter` asked for. */
void format_numbered_temperature(char line[LINE_BYTES_MAX], uint8_t letter, int32_t centi_celsius);

/* Writes the answer line for a plain sensor level. `letter`: its number, 0 for none. */
void format_level(char line[LINE_BYTES_MAX], uint8_t letter, uint16_t level);

/* Writes the answer line for the state of the body and the wheels, the error line for NULL. `letter`: its number, 0 for
 * none. */
void format_balance(char line[LINE_BYTES_MAX], uint8_t letter, const struct balance_state *state);

#ifdef __cplusplus
}
#endif

#endif
