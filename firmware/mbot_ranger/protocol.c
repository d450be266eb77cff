#include "protocol.h"

#include <string.h>

#include "thermistor.h"

enum request parse_request(uint8_t received)
{
    switch (received) {
    case 'T': return REQUEST_TEMPERATURE;
    case 'L': return REQUEST_LIGHT;
    case 'S': return REQUEST_SOUND;
    case '?': return REQUEST_IDENTITY;
    case 'U': return REQUEST_UPRIGHT;
#ifdef LOOPLAB_FAULT_REQUEST
    case 'H': return REQUEST_HANG;
#endif
    default:
        if (received >= LEVEL_BYTE)
            return REQUEST_DRIVE;
        if (received > 0 && received <= 'z' - NUMBER_OFFSET)
            return REQUEST_NUMBER;
        return received >= 'a' && received <= 'z' ? REQUEST_NUMBERED_TEMPERATURE : REQUEST_NONE;
    }
}

/* Appends a number with at least `digits_min` digits; returns the place after it. */
static char *append_number(char *end, uint16_t number, uint8_t digits_min)
{
    char reversed[5];
    uint8_t count = 0;
    while (number > 0 || count < digits_min) {
        reversed[count++] = (char)('0' + number % 10);
        number /= 10;
    }
    while (count > 0)
        *end++ = reversed[--count];
    return end;
}

/* Appends a minus where there is one and gives the rest: the thermistor's range, -88 to 494 C, fits 16 bits. */
static uint16_t append_sign(char **end, int32_t number)
{
    if (number >= 0)
        return (uint16_t)number;
    *(*end)++ = '-';
    return (uint16_t)-number;
}

void format_temperature(char line[LINE_BYTES_MAX], int32_t centi_celsius)
{
    if (centi_celsius == TEMPERATURE_UNKNOWN) {
        strcpy(line, "ERR thermistor\r\n");
        return;
    }
    char *end = line;
    const uint16_t magnitude = append_sign(&end, centi_celsius);
    end = append_number(end, magnitude / 100, 1);
    *end++ = '.';
    end = append_number(end, magnitude % 100, 2);
    strcpy(end, "\r\n");
}

static char check_letter(const char *from, const char *end)
{
    uint16_t sum = 0;
    while (from < end)
        sum += (uint8_t)*from++;
    return (char)('A' + sum % 23);
}

static void end_numbered(const char *line, char *end)
{
    *end = check_letter(line, end);
    strcpy(end + 1, "\n");
}

void format_numbered_temperature(char line[LINE_BYTES_MAX], uint8_t letter, int32_t centi_celsius)
{
    char *end = line;
    *end++ = (char)letter;
    if (centi_celsius == TEMPERATURE_UNKNOWN) {
        *end++ = 'E';
    } else {
        const uint16_t magnitude = append_sign(&end, centi_celsius);
        end = append_number(end, magnitude, 1);
    }
    end_numbered(line, end);
}

void format_level(char line[LINE_BYTES_MAX], uint8_t letter, uint16_t level)
{
    if (letter == 0) {
        strcpy(append_number(line, level, 1), "\r\n");
        return;
    }
    line[0] = (char)letter;
    char *end = append_number(line + 1, level, 1);
    *end++ = '0';
    *end++ = '0';
    end_numbered(line, end);
}

static char *append_state(char *end, const struct balance_state *state)
{
    const int16_t values[] = {state->tilt_mrad, state->rate_mrad_s, state->way_mm, state->speed_mm_s};
    for (uint8_t i = 0; i < 4; i++) {
        if (i > 0)
            *end++ = ' ';
        const uint16_t magnitude = append_sign(&end, values[i]);
        end = append_number(end, magnitude, 1);
    }
    return end;
}

void format_balance(char line[LINE_BYTES_MAX], uint8_t letter, const struct balance_state *state)
{
    if (letter == 0) {
        strcpy(state == NULL ? line : append_state(line, state), state == NULL ? "ERR tilt\r\n" : "\r\n");
        return;
    }
    char *end = line;
    *end++ = (char)letter;
    if (state == NULL)
        *end++ = 'E';
    else
        end = append_state(end, state);
    end_numbered(line, end);
}
