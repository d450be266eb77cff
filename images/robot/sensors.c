#include "sensors.h"

#include <math.h>

#define SUPPLY_MV 5000
#define ADC_FULL_SCALE 1023

/* Me Auriga: thermistor to ground, fixed resistor to the supply. */
#define NOMINAL_OHM 10000.0
#define FIXED_OHM 10000.0
#define BETA_KELVIN 3380.0
#define NOMINAL_KELVIN 298.15
#define ZERO_CELSIUS_KELVIN 273.15

unsigned sensors_thermistor_mv(double temperature_c)
{
    if (isnan(temperature_c))
        return SUPPLY_MV;
    const double per_kelvin = 1.0 / (temperature_c + ZERO_CELSIUS_KELVIN) - 1.0 / NOMINAL_KELVIN;
    const double ohm = NOMINAL_OHM * exp(BETA_KELVIN * per_kelvin);
    return (unsigned)lround(SUPPLY_MV * ohm / (ohm + FIXED_OHM));
}

unsigned sensors_level_mv(unsigned level)
{
    return (level * SUPPLY_MV + ADC_FULL_SCALE - 1) / ADC_FULL_SCALE;
}
