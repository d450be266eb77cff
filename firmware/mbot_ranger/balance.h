/* The wheels' motors and what measures tilt and wheels, for the experiment balance. */
#ifndef BALANCE_H
#define BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Motors off, bus ready. */
void balance_begin(void);

/* Sets the voltage of both wheels: `level` is 0 to 127, 64 is none, 1 and 127 are the most. */
void balance_drive(uint8_t level);

/* Motors off: the drivers leave the wheels free. */
void balance_rest(void);

/* Reads tilt and wheels over I2C. False if nothing answers there. */
bool balance_read(struct balance_state *state);

#ifdef __cplusplus
}
#endif

#endif
