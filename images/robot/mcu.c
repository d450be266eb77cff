#include "mcu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <simavr/avr_adc.h>
#include <simavr/avr_extint.h>
#include <simavr/avr_ioport.h>
#include <simavr/avr_timer.h>
#include <simavr/avr_twi.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_core.h>
#include <simavr/sim_cycle_timers.h>

#include "intel_hex.h"
#include "options.h"
#include "report.h"

#define SUPPLY_MV 5000

/* How many cycles of instructions simavr may run before it looks at its timers (which also bound it).
 * simavr sets this to 1 on every reset, so any other value than ours tells that a reset happened. */
#define RUN_CYCLES_MAX 16000

/* UCSRnC: parity mode, bits 5 and 4; zero is none. */
#define UART_PARITY_MODE_MASK 0x30

/* Control register of the I2C bus of an ATmega2560, and its flag that a byte is done. */
#define TWCR_ADDRESS 0xBC
#define TWINT_MASK 0x80

static avr_t *avr;
static avr_uart_t *uart;
static struct mcu_observer observer;
static uint64_t transmit_free_cycle;
static uint64_t stops;

/* simavr advances its cycle count by itself when the processor sleeps; the pace is kept outside. */
static void sleep_without_waiting(avr_t *mcu, avr_cycle_count_t cycles)
{
    (void)mcu;
    (void)cycles;
}

/* simavr sleeps to its next timer, however far: this one stops it at the end of the slice. It stays where
 * it is, for the instruction that got there may be the one to sleep. */
static avr_cycle_count_t horizon_reached(avr_t *mcu, avr_cycle_count_t when, void *param)
{
    (void)when;
    (void)param;
    return mcu->cycle + 1;
}

static void log_simulator_error(avr_t *mcu, const int level, const char *format, va_list arguments)
{
    (void)mcu;
    if (level > LOG_ERROR)
        return;
    fputs("robot: simulator: ", stderr);
    vfprintf(stderr, format, arguments);
}

static avr_uart_t *find_uart(char name)
{
    for (avr_io_t *io = avr->io_port; io; io = io->next)
        if (strcmp(io->kind, "uart") == 0 && ((avr_uart_t *)io)->name == name)
            return (avr_uart_t *)io;
    fail(EXIT_MACHINE, "this libsimavr has no UART %c in its %s", name, avr->mmcu);
}

/* simavr counts a parity bit whether or not there is one, so 8N1 takes 11 bit times: take it off. */
static void correct_byte_cycles(void)
{
    static const unsigned data_bits[] = {5, 6, 7, 8, 8, 8, 8, 9};
    const unsigned size = avr_regbit_get(avr, uart->ucsz) | (unsigned)(avr_regbit_get(avr, uart->ucsz2) << 2);
    const unsigned parity_bits = (avr->data[uart->r_ucsrc] & UART_PARITY_MODE_MASK) != 0;
    const unsigned stop_bits = 1 + avr_regbit_get(avr, uart->usbs);
    const unsigned divisor = avr_regbit_get(avr, uart->ubrrl) | (unsigned)(avr_regbit_get(avr, uart->ubrrh) << 8);
    const unsigned bit_cycles = (divisor + 1) * (avr_regbit_get(avr, uart->u2x) ? 8 : 16);

    uart->cycles_per_byte = bit_cycles * (1 + data_bits[size] + parity_bits + stop_bits);
}

static void uart_rate_written(avr_t *mcu, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)mcu;
    (void)address;
    (void)value;
    (void)param;
    correct_byte_cycles();
}

static void uart_format_written(avr_t *mcu, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    avr_core_watch_write(mcu, address, value);
    correct_byte_cycles();
}

/* simavr reports a byte when the firmware writes it; its last bit leaves one byte time later, or one
 * byte time after the byte before it. */
static void uart_data_written(struct avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    (void)param;
    const uint64_t start = avr->cycle > transmit_free_cycle ? avr->cycle : transmit_free_cycle;
    transmit_free_cycle = start + uart->cycles_per_byte;
    observer.transmitted(observer.context, (uint8_t)value, transmit_free_cycle);
}

/* What simavr's reset undoes, after a watchdog reset too. */
static void restore_after_reset(void)
{
    avr->run_cycle_limit = RUN_CYCLES_MAX;
    transmit_free_cycle = avr->cycle;
    for (uint8_t i = 0; i < EXTINT_COUNT; i++)
        avr_extint_set_strict_lvl_trig(avr, i, 0); /* a low INTn pin would be polled every cycle */
}

static void connect_uart(void)
{
    /* Neither echo what is sent nor sleep when the firmware polls: the pace is kept outside. */
    uint32_t flags = 0;
    avr_ioctl(avr, AVR_IOCTL_UART_GET_FLAGS('0'), &flags);
    flags &= ~(uint32_t)(AVR_UART_FLAG_POLL_SLEEP | AVR_UART_FLAG_STDIO);
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);

    uart = find_uart('0');
    avr_register_io_write(avr, uart->ubrrl.reg, uart_rate_written, NULL);
    avr_register_io_write(avr, uart->r_ucsrc, uart_format_written, NULL);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), uart_data_written, NULL);
}

/* simavr does not know phase-correct PWM, the mode Arduino puts timers 1 to 5 in (WGM 1 to 3: 8, 9 and
 * 10 bits), and would let such a timer overflow at every count: 250 000 events a second each. Its
 * other PWM mode overflows once in a period. No pin driven by these timers is read here. */
static void teach_phase_correct_pwm(void)
{
    for (avr_io_t *io = avr->io_port; io; io = io->next) {
        if (strcmp(io->kind, "timer") != 0)
            continue;
        avr_timer_t *timer = (avr_timer_t *)io;
        for (int mode = 1; mode <= 3; mode++)
            if (timer->wgm_op[mode].kind == avr_timer_wgm_none)
                timer->wgm_op[mode] = (avr_timer_wgm_t){.kind = avr_timer_wgm_fc_pwm, .size = (uint8_t)(7 + mode)};
    }
}

void mcu_start(const char *processor, const char *firmware_path, struct mcu_observer mcu_observer)
{
    observer = mcu_observer;
    avr_global_logger_set(log_simulator_error);
    avr = avr_make_mcu_by_name(processor);
    if (!avr)
        fail(EXIT_MACHINE, "this libsimavr knows no processor %s", processor);
    avr_init(avr);
    avr->frequency = MCU_HZ;
    avr->vcc = avr->avcc = avr->aref = SUPPLY_MV;
    avr->sleep = sleep_without_waiting;
    teach_phase_correct_pwm();
    intel_hex_read(firmware_path, avr->flash, (size_t)avr->flashend + 1);
    connect_uart();
    restore_after_reset();
}

void mcu_reset(void)
{
    avr_reset(avr);
    avr_regbit_set(avr, avr->reset_flags.extrf);
    restore_after_reset();
}

static void arm_horizon(uint64_t target_cycle)
{
    avr_cycle_timer_register(avr, target_cycle - avr->cycle, horizon_reached, NULL);
}

bool mcu_run_until(uint64_t target_cycle)
{
    if (avr->cycle >= target_cycle)
        return true;
    arm_horizon(target_cycle);
    while (avr->cycle < target_cycle) {
        const int state = avr_run(avr);
        stops++;
        if (state == cpu_Done || state == cpu_Crashed || state == cpu_Stopped)
            return false;
        if (avr->run_cycle_limit != RUN_CYCLES_MAX) {
            restore_after_reset();
            observer.watchdog_reset(observer.context, avr->cycle);
            if (avr->cycle < target_cycle)
                arm_horizon(target_cycle);
        }
    }
    return true;
}

uint64_t mcu_cycle(void)
{
    return avr->cycle;
}

bool mcu_is_asleep(void)
{
    return avr->state == cpu_Sleeping;
}

uint64_t mcu_stops(void)
{
    return stops;
}

void mcu_receive(uint8_t byte)
{
    avr_raise_irq(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT), byte);
}

uint64_t mcu_byte_cycles(void)
{
    return uart->cycles_per_byte;
}

void mcu_set_adc_mv(unsigned channel, unsigned mv)
{
    avr_raise_irq(avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, (int)(ADC_IRQ_ADC0 + channel)), mv);
}

uint8_t mcu_register(unsigned address)
{
    return avr->data[address];
}

static struct {
    uint8_t address;
    void (*fill)(uint8_t bytes[MCU_I2C_BYTES]);
    bool selected;
    unsigned next;
    uint8_t bytes[MCU_I2C_BYTES];
} device;

static void answer_i2c(uint8_t kind, uint8_t address, uint8_t data)
{
    avr_raise_irq(avr_io_getirq(avr, AVR_IOCTL_TWI_GETIRQ(0), TWI_IRQ_INPUT), avr_twi_irq_msg(kind, address, data));
}

static void i2c_message(struct avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    (void)param;
    const avr_twi_msg_t message = ((avr_twi_msg_irq_t){.u.v = value}).u.twi;
    if (message.msg & TWI_COND_STOP)
        device.selected = false;
    if (message.msg & TWI_COND_START) {
        device.selected = message.addr == (device.address << 1 | 1);
        device.next = 0;
        if (device.selected) {
            device.fill(device.bytes);
            answer_i2c(TWI_COND_ACK, message.addr, 1);
        }
    }
    if (device.selected && (message.msg & TWI_COND_READ))
        answer_i2c(TWI_COND_READ, message.addr, device.bytes[device.next++ % MCU_I2C_BYTES]);
}

/* simavr 1.6 leaves TWINT set when the firmware clears it by writing a one: it would never be seen to wait for a byte.
 */
static void twcr_written(avr_t *mcu, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    if (value & TWINT_MASK)
        mcu->data[address] &= (uint8_t)~TWINT_MASK;
}

void mcu_attach_i2c(uint8_t address, void (*fill)(uint8_t bytes[MCU_I2C_BYTES]))
{
    device.address = address;
    device.fill = fill;
    avr_register_io_write(avr, TWCR_ADDRESS, twcr_written, NULL);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_TWI_GETIRQ(0), TWI_IRQ_OUTPUT), i2c_message, NULL);
}

static avr_irq_t *pin_irq(const char *pin)
{
    avr_irq_t *irq = avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ(pin[0]), pin[1] - '0');
    if (!irq)
        fail(EXIT_USAGE, "the %s has no pin %s", avr->mmcu, pin);
    return irq;
}

void mcu_set_pin(const char *pin, bool high)
{
    avr_raise_irq(pin_irq(pin), high);
}

struct pin_watch {
    void (*note)(void *context, unsigned value);
    void *context;
};

static void pin_driven(struct avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    const struct pin_watch *watch = param;
    watch->note(watch->context, value);
}

void mcu_watch_pin(const char *pin, void (*driven)(void *context, unsigned value), void *context)
{
    static struct pin_watch watches[OPTIONS_PINS];
    static unsigned count;
    struct pin_watch *watch = &watches[count++];
    *watch = (struct pin_watch){driven, context};
    avr_irq_register_notify(pin_irq(pin), pin_driven, watch);
}

void mcu_wire_pins(const char *output, const char *input)
{
    avr_connect_irq(pin_irq(output), pin_irq(input));
}
