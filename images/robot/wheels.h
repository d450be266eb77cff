/* The plant as the board has it: at its motors' pins, and behind the sensor on its I2C bus. */
#ifndef ROBOT_WHEELS_H
#define ROBOT_WHEELS_H

/* Connects a plant to a board with this processor, if it is the robot's. */
void wheels_start(const char *processor);

#endif
