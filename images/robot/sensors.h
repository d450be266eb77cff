/* What the robot's on-board sensors put on the processor's analogue pins. */
#ifndef ROBOT_SENSORS_H
#define ROBOT_SENSORS_H

/* Voltage of the thermistor's divider at a temperature; NAN stands for an open thermistor. */
unsigned sensors_thermistor_mv(double temperature_c);

/* Lowest voltage that a 10-bit conversion reads as `level`. */
unsigned sensors_level_mv(unsigned level);

#endif
