/* Thermistor arithmetic, plain C that compiles for the board and for the host's tests. */
#ifndef THERMISTOR_H
#define THERMISTOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No reading: the ADC stands at an end of its range, so the thermistor is open or shorted. */
#define TEMPERATURE_UNKNOWN INT32_MIN

/* Temperature in hundredths of a degree Celsius from the sum of `samples` 10-bit conversions. */
int32_t thermistor_centi_celsius(uint16_t adc_sum, uint8_t samples);

#ifdef __cplusplus
}
#endif

#endif
