/* Questions about the robot's lag, over UDP: a measurement asks between its parts. */
#ifndef ROBOT_QUESTIONS_H
#define ROBOT_QUESTIONS_H

#include "options.h"

/* Opens what the options ask for; exits with a clear sentence if it cannot. */
void questions_open(const struct options *options);

/* Readable when a question waits; -1: none can come. */
int questions_descriptor(void);

/* Answers each datagram that waits by the lag since the one before, as a line of name=value pairs. */
void questions_answer(void);

#endif
