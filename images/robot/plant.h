/* The robot on its two wheels: src/looplab/experiments/balance/plant.py in C, whose docstring has the equations and
 * where they come from. Names, constants and order are alike; a test steps both. */
#ifndef ROBOT_PLANT_H
#define ROBOT_PLANT_H

#include <stdbool.h>
#include <stdint.h>

#define PLANT_STEPS_PER_S 1000

/* The wheels' way and speed, the body's tilt and its rate. */
struct plant_state {
    double x_m, v_m_s, tilt_rad, rate_rad_s;
};

struct plant {
    struct plant_state state;
    double u_v;
    bool released, fallen;
    uint64_t steps; /* since the release; they stop where it falls */
};

/* Sets it upright again and holds it. */
void plant_reset(struct plant *plant);

/* Sets the wheels' voltage by its level, 0 to 127, and lets go of a robot that is held. */
void plant_command(struct plant *plant, int level);

/* Lets so many milliseconds pass. */
void plant_advance(struct plant *plant, uint64_t steps);

#endif
