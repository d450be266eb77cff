#include "plant.h"

#include <math.h>

#define STEP_S (1.0 / PLANT_STEPS_PER_S)
#define GRAVITY_M_S2 9.81
#define BODY_KG 0.85
#define WHEELS_KG 0.12
#define WHEEL_RADIUS_M 0.032
#define CENTRE_M 0.07
#define BODY_HEIGHT_M 0.16
#define BODY_INERTIA_KG_M2 (BODY_KG * BODY_HEIGHT_M * BODY_HEIGHT_M / 12)
#define WHEELS_INERTIA_KG_M2 (WHEELS_KG * WHEEL_RADIUS_M * WHEEL_RADIUS_M / 2)
#define MOTOR_V_S_RAD 0.2
#define MOTORS_OHM 1.5
#define U_MAX_V 7.4
#define FALLEN_RAD (M_PI / 4)
#define START_TILT_RAD (2 * M_PI / 180)
#define PUSH_RAD_S 0.7
#define PUSH_FIRST_STEPS 1000
#define PUSH_EVERY_STEPS 2000
#define LEVEL_ZERO 64
#define LEVEL_V (U_MAX_V / 63)

#define A (BODY_KG + WHEELS_KG + WHEELS_INERTIA_KG_M2 / (WHEEL_RADIUS_M * WHEEL_RADIUS_M))
#define B (BODY_KG * CENTRE_M)
#define C (BODY_KG * CENTRE_M * CENTRE_M + BODY_INERTIA_KG_M2)

struct accelerations {
    double x_m_s2, tilt_rad_s2;
};

static struct accelerations derivative(double v_m_s, double tilt_rad, double rate_rad_s, double u_v)
{
    const double torque = MOTOR_V_S_RAD / MOTORS_OHM * (u_v - MOTOR_V_S_RAD * (v_m_s / WHEEL_RADIUS_M - rate_rad_s));
    const double sine = sin(tilt_rad), coupling = B * cos(tilt_rad);
    const double push = torque / WHEEL_RADIUS_M + B * sine * rate_rad_s * rate_rad_s;
    const double turn = B * GRAVITY_M_S2 * sine - torque;
    const double determinant = A * C - coupling * coupling;
    return (struct accelerations){(C * push - coupling * turn) / determinant,
                                  (A * turn - coupling * push) / determinant};
}

/* One step of Runge-Kutta of order 4 under a constant voltage. */
static void step(struct plant_state *s, double u_v)
{
    const double half = STEP_S / 2, sixth = STEP_S / 6;
    const struct accelerations a1 = derivative(s->v_m_s, s->tilt_rad, s->rate_rad_s, u_v);
    const double v2 = s->v_m_s + half * a1.x_m_s2, rate2 = s->rate_rad_s + half * a1.tilt_rad_s2;
    const struct accelerations a2 = derivative(v2, s->tilt_rad + half * s->rate_rad_s, rate2, u_v);
    const double v3 = s->v_m_s + half * a2.x_m_s2, rate3 = s->rate_rad_s + half * a2.tilt_rad_s2;
    const struct accelerations a3 = derivative(v3, s->tilt_rad + half * rate2, rate3, u_v);
    const double v4 = s->v_m_s + STEP_S * a3.x_m_s2, rate4 = s->rate_rad_s + STEP_S * a3.tilt_rad_s2;
    const struct accelerations a4 = derivative(v4, s->tilt_rad + STEP_S * rate3, rate4, u_v);
    s->x_m += sixth * (s->v_m_s + 2 * v2 + 2 * v3 + v4);
    s->v_m_s += sixth * (a1.x_m_s2 + 2 * a2.x_m_s2 + 2 * a3.x_m_s2 + a4.x_m_s2);
    s->tilt_rad += sixth * (s->rate_rad_s + 2 * rate2 + 2 * rate3 + rate4);
    s->rate_rad_s += sixth * (a1.tilt_rad_s2 + 2 * a2.tilt_rad_s2 + 2 * a3.tilt_rad_s2 + a4.tilt_rad_s2);
}

void plant_reset(struct plant *plant)
{
    *plant = (struct plant){.state = {.tilt_rad = START_TILT_RAD}};
}

void plant_command(struct plant *plant, int level)
{
    plant->u_v = (level > 0 ? level - LEVEL_ZERO : 1 - LEVEL_ZERO) * LEVEL_V;
    plant->released = true;
}

static void push_if_due(struct plant *plant)
{
    if (plant->steps < PUSH_FIRST_STEPS || (plant->steps - PUSH_FIRST_STEPS) % PUSH_EVERY_STEPS != 0)
        return;
    const bool forwards = (plant->steps - PUSH_FIRST_STEPS) / PUSH_EVERY_STEPS % 2 == 0;
    plant->state.rate_rad_s += forwards ? PUSH_RAD_S : -PUSH_RAD_S;
}

void plant_advance(struct plant *plant, uint64_t steps)
{
    for (uint64_t i = 0; i < steps && plant->released && !plant->fallen; i++) {
        push_if_due(plant);
        step(&plant->state, plant->u_v);
        plant->steps++;
        plant->fallen = fabs(plant->state.tilt_rad) > FALLEN_RAD;
    }
}
