/* A bare board as it comes: an ATmega2560 that holds the Mega's own boot loader and nothing else, uart 0 on a
 * pseudo-terminal named <link>, opening it resets it, as the DTR line does. Bytes take no time on the wire.
 *   boot_board <boot loader .hex> <link>
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_hex.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_MHZ 16
#define STEP_CYCLES 1600

static int terminal;
static int may_send = 1;

static void on_output(struct avr_irq_t *irq, uint32_t value, void *unused)
{
    (void)irq, (void)unused;
    const uint8_t byte = (uint8_t)value;
    /* Nobody listens between two openings. */
    if (write(terminal, &byte, 1) < 0)
        return;
}

static void on_room(struct avr_irq_t *irq, uint32_t value, void *room)
{
    (void)irq, (void)value;
    may_send = room != NULL;
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static avr_t *make_board(const char *boot_loader)
{
    uint32_t size = 0, base = 0;
    const uint8_t *code = read_ihex_file(boot_loader, &size, &base);
    avr_t *avr = avr_make_mcu_by_name("atmega2560");
    if (!code || !avr || avr_init(avr))
        return NULL;
    avr->frequency = CLOCK_MHZ * 1000000;
    memcpy(avr->flash + base, code, size);
    avr->codeend = avr->flashend;
    /* The fuse BOOTRST: every reset begins in the boot loader. */
    avr->reset_pc = avr->pc = base;
    avr_irq_t *irqs = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), 0);
    avr_irq_register_notify(irqs + UART_IRQ_OUTPUT, on_output, NULL);
    avr_irq_register_notify(irqs + UART_IRQ_OUT_XON, on_room, avr);
    avr_irq_register_notify(irqs + UART_IRQ_OUT_XOFF, on_room, NULL);
    return avr;
}

static void reset(avr_t *avr)
{
    avr_reset(avr);
    uint32_t flags = 0;
    avr_ioctl(avr, AVR_IOCTL_UART_GET_FLAGS('0'), &flags);
    flags &= ~(uint32_t)(AVR_UART_FLAG_POLL_SLEEP | AVR_UART_FLAG_STDIO);
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
    may_send = 1;
}

static int open_terminal(const char *link)
{
    int other_end;
    char name[64];
    if (openpty(&terminal, &other_end, name, NULL, NULL) || fcntl(terminal, F_SETFL, O_NONBLOCK))
        return -1;
    struct termios raw;
    tcgetattr(other_end, &raw);
    cfmakeraw(&raw);
    tcsetattr(other_end, TCSANOW, &raw);
    close(other_end);
    return symlink(name, link);
}

/* Some cycles, then a byte where one waits and there is room; 0 when the processor has crashed. */
static int run_some(avr_t *avr, int byte_waits)
{
    for (const uint64_t end = avr->cycle + STEP_CYCLES; avr->cycle < end;) {
        const int state = avr_run(avr);
        if (state == cpu_Crashed || state == cpu_Done)
            return 0;
    }
    uint8_t byte;
    if (byte_waits && may_send && read(terminal, &byte, 1) == 1)
        avr_raise_irq(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT), byte);
    return 1;
}

int main(int argc, char **argv)
{
    avr_t *avr = argc == 3 ? make_board(argv[1]) : NULL;
    if (!avr || open_terminal(argv[2])) {
        fprintf(stderr, "boot_board: no board or no terminal\n");
        return 1;
    }
    uint64_t start_us = 0, start_cycle = 0;
    for (int was_open = 0;;) {
        struct pollfd look = {terminal, POLLIN, 0};
        poll(&look, 1, 0);
        const int is_open = !(look.revents & POLLHUP);
        if (is_open && !was_open) {
            reset(avr);
            start_us = now_us();
            start_cycle = avr->cycle;
        }
        was_open = is_open;
        if (!is_open) {
            usleep(1000);
            continue;
        }
        if (!run_some(avr, look.revents & POLLIN)) {
            fprintf(stderr, "boot_board: crashed at 0x%x\n", avr->pc);
            return 1;
        }
        const uint64_t due_us = start_us + (avr->cycle - start_cycle) / CLOCK_MHZ, now = now_us();
        if (due_us > now)
            usleep((useconds_t)(due_us - now));
    }
}
