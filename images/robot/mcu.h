/* The board's processor: an ATmega2560 or ATmega328P at 16 MHz in simavr, with simavr's known deviations put right. */
#ifndef ROBOT_MCU_H
#define ROBOT_MCU_H

#include <stdbool.h>
#include <stdint.h>

#define MCU_HZ 16000000u
#define MCU_CYCLES_PER_US (MCU_HZ / 1000000u)

#define MCU_I2C_BYTES 8

struct mcu_observer {
    /* The last bit of a byte leaves the processor's TX pin at `wire_end_cycle`, which may lie ahead. */
    void (*transmitted)(void *context, uint8_t byte, uint64_t wire_end_cycle);
    /* The processor reset itself (watchdog): what had not left the TX pin by `cycle` never will. */
    void (*watchdog_reset)(void *context, uint64_t cycle);
    void *context;
};

/* Loads an Intel HEX firmware into a processor of this name; exits with a clear sentence if it cannot. */
void mcu_start(const char *processor, const char *firmware_path, struct mcu_observer observer);

/* The reset pin: registers and peripherals start from zero, RAM and the cycle count go on. */
void mcu_reset(void);

/* Runs to `target_cycle`, at most one instruction beyond. False: the firmware halted the processor. */
bool mcu_run_until(uint64_t target_cycle);

uint64_t mcu_cycle(void);
bool mcu_is_asleep(void);

/* How often simavr stopped to look at its timers: what the emulation of a sleeping processor costs. */
uint64_t mcu_stops(void);

/* A byte's start bit reaches the RX pin now. */
void mcu_receive(uint8_t byte);

/* Cycles that a byte takes on the wire at the rate and format the firmware has set. */
uint64_t mcu_byte_cycles(void);

void mcu_set_adc_mv(unsigned channel, unsigned mv);

/* What the firmware has written into a register, by its address in data memory. */
uint8_t mcu_register(unsigned address);

/* A device on the I2C bus: at each read it is asked to fill in its bytes, which are then sent in order. */
void mcu_attach_i2c(uint8_t address, void (*fill)(uint8_t bytes[MCU_I2C_BYTES]));

/* A pin has the name of its port and bit: B7. What drives it from outside: */
void mcu_set_pin(const char *pin, bool high);

/* Reports each level that the pin is driven to, from inside or outside. */
void mcu_watch_pin(const char *pin, void (*driven)(void *context, unsigned value), void *context);

/* An output drives an input. */
void mcu_wire_pins(const char *output, const char *input);

#endif
