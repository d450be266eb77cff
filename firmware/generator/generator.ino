// A signal generator on an Uno, after the description in the ASIP paper: a square wave on pin 9 whose frequency is set
// on the fly. Connect pin 9 to pin 2 of the ASIP board, and the grounds; an oscilloscope shows that board's pins 2
// and 13. 57600 baud: a line is a frequency in Hz, 0 (off) to 20000; the answer repeats it, or begins with ERR. Timer 1
// makes the edges, so that serial traffic moves none. Below 1000 Hz the wave is right to 0.1 %.

static const uint32_t BAUD = 57600;
static const uint8_t PIN_WAVE = 9; // OC1A, which timer 1 toggles
static const uint8_t DIGITS_MAX = 5;

// Timer 1 counts at F_CPU / 8, or at F_CPU / 256 for waves that its 16 bits cannot hold.
static const uint32_t FAST_HZ = F_CPU / 8;
static const uint32_t SLOW_HZ = F_CPU / 256;
static const uint32_t HZ_MAX = 20000;

static void stop_wave()
{
    TCCR1A = 0;
    TCCR1B = 0;
    digitalWrite(PIN_WAVE, LOW);
}

// Counts of half a wave, rounded.
static uint32_t half_wave(uint32_t clock_hz, uint32_t hz)
{
    return (clock_hz + hz) / (2 * hz);
}

static void start_wave(uint32_t hz)
{
    const bool fast = half_wave(FAST_HZ, hz) <= 65536;
    const uint16_t top = half_wave(fast ? FAST_HZ : SLOW_HZ, hz) - 1;
    const uint8_t clock = fast ? _BV(CS11) : _BV(CS12);
    const uint8_t before = SREG;
    noInterrupts();
    OCR1A = top;
    // A counter above the new top would first run to its end.
    if (TCNT1 > top)
        TCNT1 = 0;
    TCCR1A = _BV(COM1A0);
    TCCR1B = _BV(WGM12) | clock;
    SREG = before;
}

static uint32_t asked_hz;
static uint8_t digits;
static bool readable = true;

static void end_line()
{
    if (readable && digits > 0 && asked_hz <= HZ_MAX) {
        if (asked_hz == 0)
            stop_wave();
        else
            start_wave(asked_hz);
        Serial.println(asked_hz);
    } else if (digits > 0 || !readable) {
        Serial.println(F("ERR a whole number of Hz, 0 to 20000"));
    }
    asked_hz = 0;
    digits = 0;
    readable = true;
}

void setup()
{
    pinMode(PIN_WAVE, OUTPUT);
    stop_wave();
    Serial.begin(BAUD);
    Serial.println(F("looplab generator 0.1.0 ready"));
}

void loop()
{
    const int received = Serial.read();
    if (received < 0 || received == '\r')
        return;
    if (received == '\n') {
        end_line();
    } else if (received >= '0' && received <= '9' && digits < DIGITS_MAX) {
        asked_hz = 10 * asked_hz + (received - '0');
        digits++;
    } else {
        readable = false;
    }
}
