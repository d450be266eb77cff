/*
 * asip_floor: the latency test of the experiment asip in C, to compare its Python and Java clients with.
 *
 *   asip_floor serial <device> <tests>
 *   asip_floor tcp <IPv4 address> <port> <tests>
 *   asip_floor mqtt <host> <port> <topic> <tests>
 *
 * Sets pin 13, waits for the report of the pin that is wired to it, prints one latency a line in us (CLOCK_MONOTONIC).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mosquitto.h>
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
/* A boot loader takes up to 2 s. */
#define START_MS 3000
#define SETTLE_MS 50
#define INTERVAL_NS 20000000
#define WARM_UP 50
#define KEEP_ALIVE_S 60

/* The serial port or the TCP socket; with MQTT the library's socket. */
static int port;
static struct mosquitto *client;
static char topics[3][128];
static char line[256];
static size_t length;
/* What the line holds that `await` waits for, and when it came, 0 before. */
static const char *wanted;
static int64_t found_ns;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "asip_floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void take(const char *bytes, size_t count, int64_t received_ns)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '\n') {
            /* Not only at its start: what is left of a session before may come first. */
            if (strstr(line, wanted))
                found_ns = received_ns;
            length = 0;
        } else if (length < sizeof line - 1) {
            line[length++] = bytes[i];
        }
        line[length] = '\0';
    }
}

static void on_message(struct mosquitto *from, void *data, const struct mosquitto_message *message)
{
    const int64_t received_ns = now_ns();
    (void)from;
    (void)data;
    take(message->payload, (size_t)message->payloadlen, received_ns);
    /* The bridge's state is no line. */
    if (strcmp(message->topic, topics[2]) == 0)
        take("\n", 1, received_ns);
}

/* False if nothing comes for so long. */
static bool read_some(int wait_ms)
{
    struct pollfd ready = {.fd = port, .events = POLLIN};
    errno = 0;
    const int found = poll(&ready, 1, wait_ms);
    if (found < 0)
        fail("poll");
    if (found == 0)
        return false;
    if (client) {
        if (mosquitto_loop_read(client, 1) != MOSQ_ERR_SUCCESS)
            fail("the broker is gone");
        return true;
    }
    char bytes[256];
    const ssize_t got = read(port, bytes, sizeof bytes);
    const int64_t received_ns = now_ns();
    if (got <= 0)
        fail("the board is gone");
    take(bytes, (size_t)got, received_ns);
    return true;
}

/* When a line came that holds `text`, 0 if none did. */
static int64_t await_for(const char *text, int wait_ms)
{
    wanted = text;
    found_ns = 0;
    while (!found_ns && read_some(wait_ms))
        ;
    return found_ns;
}

static int64_t await(const char *text)
{
    const int64_t came_ns = await_for(text, WAIT_MS);
    if (!came_ns) {
        errno = ETIMEDOUT;
        fail(text);
    }
    return came_ns;
}

static void order(const char *text)
{
    if (client) {
        if (mosquitto_publish(client, NULL, topics[0], (int)strlen(text), text, 0, false) != MOSQ_ERR_SUCCESS)
            fail("publish");
    } else if (write(port, text, strlen(text)) < 0) {
        fail("write");
    }
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

/* On this thread alone: a message leaves within mosquitto_publish(). `close` as the last will gives the board back. */
static void open_mqtt(const char *host, const char *number, const char *prefix)
{
    static const char *const ENDS[] = {"in", "out", "session/state"};
    char session[128];
    for (int i = 0; i < 3; i++)
        snprintf(topics[i], sizeof topics[i], "%s/%s", prefix, ENDS[i]);
    snprintf(session, sizeof session, "%s/session", prefix);
    mosquitto_lib_init();
    client = mosquitto_new(NULL, true, NULL);
    if (!client)
        fail("mosquitto_new");
    mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_message_callback_set(client, on_message);
    mosquitto_will_set(client, session, 5, "close", 1, false);
    if (mosquitto_connect(client, host, atoi(number), KEEP_ALIVE_S) != MOSQ_ERR_SUCCESS)
        fail(host);
    port = mosquitto_socket(client);
    wanted = "";
    /* CONNACK. */
    if (!read_some(WAIT_MS))
        fail("the broker does not answer");
    mosquitto_subscribe(client, NULL, topics[1], 0);
    mosquitto_subscribe(client, NULL, topics[2], 1);
    mosquitto_publish(client, NULL, session, 4, "open", 1, false);
    await("opened");
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "serial") == 0)
        open_serial(argv[2]);
    else if (argc == 5 && strcmp(argv[1], "tcp") == 0)
        open_tcp(argv[2], argv[3]);
    else if (argc == 6 && strcmp(argv[1], "mqtt") == 0)
        open_mqtt(argv[2], argv[3], argv[4]);
    else
        return 2;
    /* A board whose port was open a moment ago is not always reset. It says nothing before it is asked. */
    await_for("!", START_MS);
    order("#,?\n");
    await("@#,?");
    /* The last client may have left the pin high. */
    order("I,P,13,3\nI,P,4,1\nI,d,13,0\n");
    while (read_some(SETTLE_MS))
        ;
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
