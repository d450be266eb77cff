/* The lab's robot without hardware: the lab's firmware, cycle by cycle in real time, behind a serial port.
 *
 * The processor only ever runs up to the present moment, so a byte of the host never comes too late for
 * it. Between bytes it is run in arrears: nobody can see what it does until a byte leaves the adapter. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "mcu.h"
#include "options.h"
#include "pace.h"
#include "port.h"
#include "questions.h"
#include "report.h"
#include "sensors.h"
#include "signals.h"
#include "statistics.h"
#include "usb_serial.h"
#include "wheels.h"

/* Me Auriga: thermistor, sound and two light sensors on A0 to A3. */
enum { ADC_THERMISTOR, ADC_SOUND, ADC_LIGHT_2, ADC_LIGHT_1 };

/* How long a busy processor is left in arrears where no frame says when its bytes are collected. */
#define BUSY_QUANTUM_NS 100000u

/* The same while bytes wait for the adapter's timer: what is left to simulate when it ends makes them late. */
#define HELD_QUANTUM_NS 500000u

/* The same for a sleeping one: a byte it sent of its own accord would be this late. */
#define IDLE_QUANTUM_NS 5000000u

/* Simulated at one go, so that signals and clients are heard while it catches up. */
#define SLICE_CYCLES (20u * 1000u * MCU_CYCLES_PER_US)

static struct options options;
static struct usb_serial usb;
static FILE *trace;
static uint64_t boot_end_ns;
static volatile sig_atomic_t end_asked, statistics_asked, reset_asked;

static void on_signal(int number)
{
    switch (number) {
    case SIGUSR1: statistics_asked = 1; break;
    case SIGUSR2: reset_asked = 1; break;
    default: end_asked = 1; break;
    }
}

/* Signals come in only while waiting, where none can be missed; returns the mask to wait with. */
static sigset_t catch_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
    const struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked, original;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], &action, NULL);
        sigaddset(&blocked, numbers[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &blocked, &original);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigdelset(&original, numbers[i]);
    return original;
}

static void take_transmitted(void *context, uint8_t byte, uint64_t wire_end_cycle)
{
    (void)context;
    usb_serial_from_robot(&usb, byte, wire_end_cycle);
}

static void take_watchdog_reset(void *context, uint64_t cycle)
{
    (void)context;
    statistics.watchdog_resets++;
    usb_serial_cut_robot(&usb, cycle);
    note("the firmware's watchdog reset the robot");
    if (trace)
        fprintf(trace, "watchdog_reset cycle=%" PRIu64 "\n", cycle);
}

/* DTR on opening, or the reset button. The boot loader holds the firmware back for a while. */
static void reset_robot(void)
{
    boot_end_ns = pace_now_ns() + (uint64_t)options.boot_ms * 1000000u;
    mcu_reset();
    signals_reset();
    usb_serial_clear(&usb);
    pace_start(boot_end_ns, mcu_cycle());
    statistics.resets++;
    statistics.held_us = 0;
    if (trace)
        fprintf(trace, "reset cycle=%" PRIu64 "\n", mcu_cycle());
}

static void feed_robot(const struct usb_byte *byte)
{
    mcu_receive(byte->value);
    statistics.bytes_to_robot++;
    if (trace)
        fprintf(trace, "rx byte=%02x arrived=%" PRIu64 " wire_start=%" PRIu64 " wire_end=%" PRIu64 "\n", byte->value,
                byte->arrived_cycle, byte->wire_cycle, byte->wire_cycle + mcu_byte_cycles());
    usb_serial_pop_to_robot(&usb);
}

/* A byte of the host or an edge of the generator; UINT64_MAX: none. */
static uint64_t next_event_cycle(void)
{
    const struct usb_byte *byte = usb_serial_next_to_robot(&usb);
    const uint64_t edge_cycle = signals_next_edge();
    return byte && byte->wire_cycle < edge_cycle ? byte->wire_cycle : edge_cycle;
}

static void happen(uint64_t cycle)
{
    const struct usb_byte *byte = usb_serial_next_to_robot(&usb);
    if (byte && byte->wire_cycle <= cycle)
        feed_robot(byte);
    if (signals_next_edge() <= cycle)
        signals_run();
}

/* Runs the firmware up to a moment, with each byte of the host and each edge at its cycle. */
static void run_robot(uint64_t now_ns)
{
    uint64_t target = pace_cycle_at(now_ns);
    if (target > mcu_cycle() + SLICE_CYCLES)
        target = mcu_cycle() + SLICE_CYCLES;
    for (uint64_t next; (next = next_event_cycle()) <= target;) {
        if (!mcu_run_until(next))
            break;
        happen(next);
    }
    if (!mcu_run_until(target))
        fail(EXIT_FAULT,
             "the firmware stopped the processor at cycle %" PRIu64
             " (an invalid instruction, or asleep with interrupts off)",
             mcu_cycle());
}

static void deliver(const uint8_t *bytes, size_t count)
{
    const size_t taken = port_has_client() ? port_write(bytes, count) : 0;
    statistics.bytes_to_host += taken;
    statistics.bytes_not_taken += count - taken;
}

/* Hands the host what it has collected by now, bytes of one collection together. */
static void deliver_due(uint64_t now_ns)
{
    const uint64_t now_cycle = pace_cycle_at(now_ns);
    uint8_t bytes[USB_SERIAL_QUEUE_BYTES];
    size_t count = 0;
    uint64_t first_due_cycle = 0;
    for (const struct usb_byte *next; (next = usb_serial_next_to_host(&usb)) && next->due_cycle <= now_cycle;) {
        if (count == 0)
            first_due_cycle = next->due_cycle;
        bytes[count++] = next->value;
        statistics_held(next->wire_cycle, next->due_cycle);
        if (trace)
            fprintf(trace, "tx byte=%02x wire_end=%" PRIu64 " due=%" PRIu64 " delivered=%" PRIu64 "\n", next->value,
                    next->wire_cycle, next->due_cycle, now_cycle);
        usb_serial_pop_to_host(&usb);
    }
    if (count == 0)
        return;
    deliver(bytes, count);
    statistics_deadline(pace_ns_at(first_due_cycle), pace_now_ns());
}

static void read_host(void)
{
    uint8_t bytes[USB_SERIAL_QUEUE_BYTES];
    const size_t count = port_read(bytes, usb_serial_room(&usb));
    const uint64_t now_ns = pace_now_ns();
    if (now_ns < boot_end_ns) {
        statistics.bytes_in_boot += count;
        return;
    }
    for (size_t i = 0; i < count; i++)
        usb_serial_from_host(&usb, bytes[i], pace_cycle_at(now_ns));
}

static bool robot_is_busy(void)
{
    return !mcu_is_asleep() || usb_serial_next_to_robot(&usb) || mcu_cycle() < usb.to_robot_free_cycle;
}

/* The next moment at which something of the robot may be seen outside. */
static uint64_t next_serial_deadline_ns(uint64_t now_ns)
{
    const struct usb_byte *collected = usb_serial_next_to_host(&usb);
    if (collected) {
        const uint64_t due_ns = pace_ns_at(collected->due_cycle);
        const bool held = usb.latency_cycles > 0 && due_ns > now_ns + HELD_QUANTUM_NS;
        return held ? now_ns + HELD_QUANTUM_NS : due_ns;
    }
    if (!robot_is_busy())
        return now_ns + IDLE_QUANTUM_NS;
    if (usb.frame_cycles == 0)
        return now_ns + BUSY_QUANTUM_NS;
    return pace_ns_at(usb_serial_collection(&usb, mcu_cycle() + 1));
}

static uint64_t next_deadline_ns(uint64_t now_ns)
{
    const uint64_t serial_ns = next_serial_deadline_ns(now_ns);
    if (signals_next_edge() == UINT64_MAX)
        return serial_ns;
    const uint64_t edge_ns = pace_ns_at(signals_next_edge());
    return edge_ns < serial_ns ? edge_ns : serial_ns;
}

/* UINT64_MAX: nothing to do until something comes from outside. */
static uint64_t wait_ns(void)
{
    if (!port_has_client())
        return UINT64_MAX;
    const uint64_t now_ns = pace_now_ns();
    if (pace_cycle_at(now_ns) > mcu_cycle() + SLICE_CYCLES)
        return 0; /* it has to catch up */
    const uint64_t deadline_ns = next_deadline_ns(now_ns);
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

static void wait_for_work(const sigset_t *mask)
{
    struct pollfd set[3];
    nfds_t count = port_poll_set(set, usb_serial_room(&usb) > 0);
    if (questions_descriptor() >= 0)
        set[count++] = (struct pollfd){.fd = questions_descriptor(), .events = POLLIN};
    const uint64_t ns = wait_ns();
    const struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    statistics.wakeups++;
    if (ppoll(set, count, ns == UINT64_MAX ? NULL : &limit, mask) < 0 && errno != EINTR)
        fail(EXIT_FAULT, "ppoll: %s", strerror(errno));
}

static void print_statistics(void)
{
    statistics_print(mcu_cycle(), port_refused_clients(), usb.lost_bytes);
}

static void serve_signals(void)
{
    if (statistics_asked) {
        statistics_asked = 0;
        print_statistics();
    }
    if (reset_asked) {
        reset_asked = 0;
        reset_robot();
    }
}

/* While nobody has the port open the robot stands still: opening it resets it anyway. */
static void serve(const sigset_t *mask)
{
    while (!end_asked) {
        if (port_accept()) {
            statistics.clients++;
            reset_robot();
        }
        if (port_has_client()) {
            if (usb_serial_room(&usb) > 0)
                read_host();
            const uint64_t now_ns = pace_now_ns();
            run_robot(now_ns);
            deliver_due(now_ns);
        }
        wait_for_work(mask);
        questions_answer();
        serve_signals();
    }
}

static void start_robot(void)
{
    mcu_start(options.processor, options.firmware_path,
              (struct mcu_observer){.transmitted = take_transmitted, .watchdog_reset = take_watchdog_reset});
    mcu_set_adc_mv(ADC_THERMISTOR, sensors_thermistor_mv(options.temperature_c));
    mcu_set_adc_mv(ADC_SOUND, sensors_level_mv(options.sound_level));
    mcu_set_adc_mv(ADC_LIGHT_1, sensors_level_mv(options.light_level));
    mcu_set_adc_mv(ADC_LIGHT_2, sensors_level_mv(options.light_level));
    wheels_start(options.processor);
    usb_serial_init(&usb, &options.usb, mcu_cycle());
    signals_start(&options);
}

static void open_trace(void)
{
    if (!options.trace_path)
        return;
    trace = fopen(options.trace_path, "we");
    if (!trace)
        fail(EXIT_USAGE, "cannot write the trace %s: %s (--trace)", options.trace_path, strerror(errno));
    setvbuf(trace, NULL, _IOLBF, 0);
}

int main(int argc, char **argv)
{
    options = options_parse(argc, argv);
    const sigset_t mask = catch_signals();
    start_robot();
    open_trace();
    port_open(&options);
    questions_open(&options);
    prctl(PR_SET_TIMERSLACK, 1UL); /* by default the kernel may be 50 us late on each wake-up */

    printf("robot ready on %s\n", port_name());
    fflush(stdout);
    serve(&mask);
    print_statistics();
    port_close();
    return EXIT_GOOD;
}
