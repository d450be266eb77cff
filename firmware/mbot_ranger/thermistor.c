#include "thermistor.h"

#include <math.h>

/* The divider of the Me Auriga: thermistor to ground, fixed resistor to the supply, 10 kOhm each at 25 C. */
#define NOMINAL_OHM 10000.0f
#define FIXED_OHM 10000.0f
#define BETA_KELVIN 3380.0f
#define NOMINAL_KELVIN 298.15f
#define ZERO_CELSIUS_KELVIN 273.15f
#define ADC_FULL_SCALE 1023.0f

int32_t thermistor_centi_celsius(uint16_t adc_sum, uint8_t samples)
{
    const float adc = (float)adc_sum / (float)samples;
    if (adc < 1.0f || adc > ADC_FULL_SCALE - 1.0f)
        return TEMPERATURE_UNKNOWN;
    const float ohm = FIXED_OHM / (ADC_FULL_SCALE / adc - 1.0f);
    const float per_kelvin = logf(ohm / NOMINAL_OHM) / BETA_KELVIN + 1.0f / NOMINAL_KELVIN;
    return (int32_t)lroundf((1.0f / per_kelvin - ZERO_CELSIUS_KELVIN) * 100.0f);
}
