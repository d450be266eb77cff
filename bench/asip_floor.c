/*
 * asip_floor: the latency test of the experiment asip in C, to compare its Python and Java clients with.
 *
 *   asip_floor serial <device> <tests>
 *   asip_floor tcp <IPv4 address> <port> <tests>
 *
 * Sets pin 13, waits for the report of the pin that is wired to it, prints one latency a line in us (CLOCK_MONOTONIC).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 5000
#define INTERVAL_NS 20000000
#define WARM_UP 50

static int port;
static char line[256];
static size_t length;

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void open_serial(const char *device)
{
    struct termios settings;
    port = open(device, O_RDWR | O_NOCTTY);
    if (port < 0 || tcgetattr(port, &settings) < 0)
        fail(device);
    cfmakeraw(&settings);
    cfsetspeed(&settings, B57600);
    tcsetattr(port, TCSANOW, &settings);
}

static void open_tcp(const char *host, const char *number)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(number))};
    const int on = 1;
    inet_pton(AF_INET, host, &address.sin_addr);
    port = socket(AF_INET, SOCK_STREAM, 0);
    if (port < 0 || connect(port, (struct sockaddr *)&address, sizeof address) < 0)
        fail(host);
    setsockopt(port, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* When the line came that begins with `head`. */
static int64_t await(const char *head)
{
    for (;;) {
        struct pollfd ready = {.fd = port, .events = POLLIN};
        char bytes[256];
        if (poll(&ready, 1, WAIT_MS) <= 0)
            fail("no answer");
        const ssize_t got = read(port, bytes, sizeof bytes);
        const int64_t received_ns = now_ns();
        if (got <= 0)
            fail("the board is gone");
        bool found = false;
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] == '\n') {
                found |= strncmp(line, head, strlen(head)) == 0;
                length = 0;
            } else if (length < sizeof line - 1) {
                line[length++] = bytes[i];
            }
            line[length] = '\0';
        }
        if (found)
            return received_ns;
    }
}

static void order(const char *text)
{
    if (write(port, text, strlen(text)) < 0)
        fail("write");
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "serial") == 0)
        open_serial(argv[2]);
    else if (argc == 5 && strcmp(argv[1], "tcp") == 0)
        open_tcp(argv[2], argv[3]);
    else
        return 2;
    await("!");
    order("I,P,13,3\nI,P,4,1\n");
    await("@I,d");
    const int tests = WARM_UP + atoi(argv[argc - 1]);
    int64_t due_ns = now_ns();
    for (int i = 0; i < tests; i++) {
        due_ns += INTERVAL_NS;
        const struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        const int64_t sent_ns = now_ns();
        order("I,d,13,1\n");
        const int64_t received_ns = await("@I,d");
        if (i >= WARM_UP)
            printf("%.1f\n", (double)(received_ns - sent_ns) / 1e3);
        order("I,d,13,0\n");
        await("@I,d");
    }
    return 0;
}
