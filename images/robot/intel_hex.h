/* Reads a firmware in Intel HEX format. */
#ifndef ROBOT_INTEL_HEX_H
#define ROBOT_INTEL_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Fills `memory`; exits with one sentence on a file that is missing, damaged, cut short or too large. */
void intel_hex_read(const char *path, uint8_t *memory, size_t size);

#endif
