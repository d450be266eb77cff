/* What is wired to the processor's pins: a wire between two, a square-wave generator, an oscilloscope.
 * Pins have the names of their ports: B7 is pin 13 of a Mega. */
#ifndef ROBOT_SIGNALS_H
#define ROBOT_SIGNALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

/* Connects what the options name; the processor has been started. */
void signals_start(const struct options *options);

/* The next edge of the generator; UINT64_MAX: none. */
uint64_t signals_next_edge(void);

/* Has the generator's due edges happen; the processor stands at their cycle. */
void signals_run(void);

/* The processor was reset: the generator ends. */
void signals_reset(void);

/* Answers a line of questions.h that is about signals; 0: it is not. */
size_t signals_answer(const char *question, char *answer, size_t size);

#endif
