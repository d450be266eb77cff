/*
 * floor: the control loop's request and answer in C, as fast as libmosquitto allows.
 *
 * The least O that a broker allows on this machine, to compare the lab's Python ends with. It speaks the lab's protocol
 * (request `E-<run>-<sequence>`, answer `<run>,<sequence>,<status>,<R_ns>,<value>`), so each end also works with the
 * real other end. Each end is one client on one thread; all times are CLOCK_MONOTONIC nanoseconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <mosquitto.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PORT 1883
#define TOPIC_REQUEST "request/"
#define TOPIC_ANSWER "answer/"
#define TOPIC_STATUS "lab/bridge/status"
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define CONNECT_LIMIT_NS (10 * NS_PER_S)
#define BRIDGE_LIMIT_NS (30 * NS_PER_S)
#define HOUSEKEEPING_NS (NS_PER_S / 2)
#define DEADLINE_NS (2 * NS_PER_S)
/* A bridge whose controller is gone ends by itself. */
#define BRIDGE_LIFE_NS (600 * NS_PER_S)
#define MAX_PAYLOAD_BYTES 160

enum exit_code { EXIT_GOOD = 0, EXIT_RUN_FAILED = 1, EXIT_MISUSED = 2 };

struct options {
    const char *host;
    int interval_ms;
    int messages;
    int qos;
    bool controller;
    bool bridge;
};

/* One MQTT client and the thread that alone drives it. */
struct end {
    const char *name;
    const struct options *options;
    struct mosquitto *client;
    bool connected;
    bool subscribed;
    int64_t housekeeping_ns;
    char fault[160];
};

struct controller {
    struct end end;
    char run[32];
    int64_t *sent_ns;
    int64_t *total_ns; /* T; -1 until answered */
    int64_t *robot_ns; /* R, as the answer tells it */
    int answered;
    int duplicates;
    int malformed;
    int errors;
    bool bridge_online;
};

struct bridge {
    struct end end;
    int requests;
    int malformed;
};

static volatile sig_atomic_t stop_asked;
static volatile bool controller_done;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void ask_stop(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

/* ---- one end: connecting, waiting, reading, writing ---------------------------------------------------------------
 */

static void fail(struct end *end, const char *what, const char *why)
{
    if (end->fault[0] == '\0') {
        snprintf(end->fault, sizeof end->fault, "%s: %s: %s", end->name, what, why);
    }
}

static bool check(struct end *end, const char *what, int rc)
{
    if (rc == MOSQ_ERR_SUCCESS) {
        return true;
    }
    fail(end, what, rc == MOSQ_ERR_ERRNO ? strerror(errno) : mosquitto_strerror(rc));
    return false;
}

/* What a callback published waits in the library until somebody writes it. */
static bool flush(struct end *end)
{
    while (mosquitto_want_write(end->client) && end->fault[0] == '\0') {
        if (!check(end, "writing", mosquitto_loop_write(end->client, 1))) {
            return false;
        }
        if (mosquitto_want_write(end->client)) {
            struct pollfd writable = {.fd = mosquitto_socket(end->client), .events = POLLOUT};
            (void)poll(&writable, 1, 100);
        }
    }
    return end->fault[0] == '\0';
}

static bool keep_house(struct end *end)
{
    int64_t now = now_ns();
    if (now < end->housekeeping_ns) {
        return true;
    }
    end->housekeeping_ns = now + HOUSEKEEPING_NS;
    return check(end, "keeping the connection", mosquitto_loop_misc(end->client));
}

/* Serves MQTT until `until_ns`, or once only what arrives first where `once` is set; false when the end has a fault. */
static bool serve(struct end *end, int64_t until_ns, bool once)
{
    for (;;) {
        int64_t now = now_ns();
        int64_t wake_ns = until_ns < end->housekeeping_ns ? until_ns : end->housekeeping_ns;
        int64_t wait_ns = wake_ns > now ? wake_ns - now : 0;
        struct timespec wait = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
        struct pollfd readable = {.fd = mosquitto_socket(end->client), .events = POLLIN};
        int ready = ppoll(&readable, 1, &wait, NULL);
        if (ready > 0 && !check(end, "reading", mosquitto_loop_read(end->client, 1))) {
            return false;
        }
        if (!flush(end) || !keep_house(end)) {
            return false;
        }
        if (now_ns() >= until_ns || stop_asked || (once && ready > 0)) {
            return end->fault[0] == '\0';
        }
    }
}

static void on_connect(struct mosquitto *client, void *data, int reason)
{
    struct end *end = data;
    (void)client;
    if (reason != 0) {
        fail(end, "the broker refused the connection", mosquitto_connack_string(reason));
        return;
    }
    end->connected = true;
}

static void on_disconnect(struct mosquitto *client, void *data, int reason)
{
    struct end *end = data;
    (void)client;
    if (reason != 0) {
        fail(end, "lost the broker", mosquitto_strerror(reason));
    }
}

static void on_subscribe(struct mosquitto *client, void *data, int id, int count, const int *granted)
{
    struct end *end = data;
    (void)client;
    (void)id;
    (void)count;
    (void)granted;
    end->subscribed = true;
}

static bool dial(struct end *end)
{
    const struct options *options = end->options;
    int64_t limit_ns = now_ns() + CONNECT_LIMIT_NS;
    int rc = mosquitto_connect(end->client, options->host, PORT, 60);
    while (rc != MOSQ_ERR_SUCCESS && now_ns() < limit_ns && !stop_asked) {
        usleep(200000);
        rc = mosquitto_connect(end->client, options->host, PORT, 60);
    }
    return check(end, "no broker at --host after 10 s", rc);
}

static bool wait_for(struct end *end, const bool *condition, int64_t limit_ns, const char *what)
{
    int64_t end_ns = now_ns() + limit_ns;
    while (!*condition) {
        if (!serve(end, now_ns() + 20 * NS_PER_MS, true)) {
            return false;
        }
        if (stop_asked || now_ns() >= end_ns) {
            fail(end, what, stop_asked ? "stopped by a signal" : "no answer in time");
            return false;
        }
    }
    return true;
}

/* Opens the client with its callbacks; the library hands `end` back to them, so it must be the first member. */
static bool open_end(struct end *end, void (*on_message)(struct mosquitto *, void *, const struct mosquitto_message *))
{
    char id[64];
    snprintf(id, sizeof id, "floor-%s-%d", end->name, (int)getpid());
    prctl(PR_SET_TIMERSLACK, 1UL); /* the kernel's default of 50 us would delay each message */
    end->client = mosquitto_new(id, true, end);
    if (end->client == NULL) {
        fail(end, "cannot make a client", strerror(errno));
        return false;
    }
    mosquitto_int_option(end->client, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_connect_callback_set(end->client, on_connect);
    mosquitto_disconnect_callback_set(end->client, on_disconnect);
    mosquitto_subscribe_callback_set(end->client, on_subscribe);
    mosquitto_message_callback_set(end->client, on_message);
    return true;
}

static bool join(struct end *end, const char *topic, int qos)
{
    if (!dial(end) || !wait_for(end, &end->connected, CONNECT_LIMIT_NS, "connecting")) {
        return false;
    }
    return check(end, "subscribing", mosquitto_subscribe(end->client, NULL, topic, qos)) &&
           wait_for(end, &end->subscribed, CONNECT_LIMIT_NS, "subscribing");
}

static void close_end(struct end *end)
{
    if (end->client != NULL) {
        mosquitto_disconnect(end->client);
        mosquitto_destroy(end->client);
        end->client = NULL;
    }
}

/* ---- the bridge's end ------------------------------------------------------------------------------------------- */

/* Copies a payload as text; false for one too long or with a NUL inside. */
static bool as_text(const struct mosquitto_message *message, char text[MAX_PAYLOAD_BYTES + 1])
{
    if (message->payloadlen <= 0 || message->payloadlen > MAX_PAYLOAD_BYTES) {
        return false;
    }
    memcpy(text, message->payload, (size_t)message->payloadlen);
    text[message->payloadlen] = '\0';
    return strlen(text) == (size_t)message->payloadlen;
}

static bool all_digits(const char *text)
{
    return *text != '\0' && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 18;
}

static void on_request(struct mosquitto *client, void *data, const struct mosquitto_message *message)
{
    int64_t entered_ns = now_ns(); /* R1 */
    struct bridge *bridge = data;
    char request[MAX_PAYLOAD_BYTES + 1], answer[2 * MAX_PAYLOAD_BYTES];
    if (!as_text(message, request) || strncmp(request, "E-", 2) != 0) {
        bridge->malformed++;
        return;
    }
    char *run = request + 2, *dash = strrchr(run, '-');
    if (dash == NULL || dash == run || !all_digits(dash + 1)) {
        bridge->malformed++;
        return;
    }
    *dash = '\0';
    int64_t robot_ns = now_ns() - entered_ns; /* R2 - R1 */
    int length = snprintf(answer, sizeof answer, "%s,%s,ok,%" PRId64 ",20.00", run, dash + 1, robot_ns);
    if (check(&bridge->end, "answering",
              mosquitto_publish(client, NULL, TOPIC_ANSWER, length, answer, message->qos, false))) {
        bridge->requests++;
    }
}

static bool announce(struct end *end, const char *status)
{
    return check(end, "announcing the bridge",
                 mosquitto_publish(end->client, NULL, TOPIC_STATUS, (int)strlen(status), status, 1, true)) &&
           flush(end);
}

static void *run_bridge(void *data)
{
    struct bridge *bridge = data;
    struct end *end = &bridge->end;
    int64_t limit_ns = now_ns() + BRIDGE_LIFE_NS;
    if (open_end(end, on_request) &&
        check(end, "setting the last will", mosquitto_will_set(end->client, TOPIC_STATUS, 7, "offline", 1, true)) &&
        join(end, TOPIC_REQUEST, 2) && announce(end, "online")) {
        while (!stop_asked && !controller_done && now_ns() < limit_ns) {
            if (!serve(end, now_ns() + 100 * NS_PER_MS, false)) {
                break;
            }
        }
        (void)announce(end, "offline");
        (void)serve(end, now_ns() + 50 * NS_PER_MS, true);
    }
    close_end(end);
    return NULL;
}

/* ---- the controller's end --------------------------------------------------------------------------------------- */

/* Takes `text` up to the next comma off; NULL where there is none. */
static char *field(char **text)
{
    return *text == NULL ? NULL : strsep(text, ",");
}

static void on_answer(struct mosquitto *client, void *data, const struct mosquitto_message *message)
{
    int64_t received_ns = now_ns(); /* T2 */
    struct controller *controller = data;
    char text[MAX_PAYLOAD_BYTES + 1];
    (void)client;
    if (!as_text(message, text)) {
        controller->malformed++;
        return;
    }
    if (strcmp(message->topic, TOPIC_STATUS) == 0) {
        controller->bridge_online = strcmp(text, "online") == 0;
        return;
    }
    char *rest = text, *run = field(&rest), *number = field(&rest), *status = field(&rest), *robot = field(&rest);
    if (robot == NULL || rest == NULL || !all_digits(number) || !all_digits(robot) ||
        strcmp(run, controller->run) != 0 || strtoll(number, NULL, 10) >= controller->end.options->messages) {
        controller->malformed++;
        return;
    }
    int sequence = atoi(number);
    if (controller->total_ns[sequence] >= 0) {
        controller->duplicates++;
        return;
    }
    controller->errors += strcmp(status, "ok") != 0;
    controller->total_ns[sequence] = received_ns - controller->sent_ns[sequence];
    controller->robot_ns[sequence] = strtoll(robot, NULL, 10);
    controller->answered++;
}

static bool send_request(struct controller *controller, int sequence)
{
    struct end *end = &controller->end;
    char request[MAX_PAYLOAD_BYTES];
    int length = snprintf(request, sizeof request, "E-%s-%d", controller->run, sequence);
    controller->sent_ns[sequence] = now_ns(); /* T1 */
    return check(end, "sending",
                 mosquitto_publish(end->client, NULL, TOPIC_REQUEST, length, request, end->options->qos, false)) &&
           flush(end);
}

/* Open loop: message k is due at start + k * interval, whatever has come back. */
static bool measure(struct controller *controller)
{
    const struct options *options = controller->end.options;
    int64_t interval_ns = options->interval_ms * NS_PER_MS, start_ns = now_ns() + interval_ns;
    for (int sequence = 0; sequence < options->messages && !stop_asked; sequence++) {
        int64_t due_ns = start_ns + sequence * interval_ns;
        if (!serve(&controller->end, due_ns, false) || !send_request(controller, sequence)) {
            return false;
        }
    }
    int64_t last_ns = now_ns() + DEADLINE_NS;
    while (controller->answered < options->messages && now_ns() < last_ns && !stop_asked) {
        if (!serve(&controller->end, now_ns() + NS_PER_MS, true)) {
            return false;
        }
    }
    return true;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_spread(const char *name, int64_t *values, int count)
{
    if (count == 0) {
        printf(", \"%s\": null", name);
        return;
    }
    qsort(values, (size_t)count, sizeof *values, by_size);
    printf(", \"%s\": {\"p50\": %.3f, \"each\": [", name, (double)(values[(count - 1) / 2] + values[count / 2]) / 2000);
    for (int at = 0; at < count; at++) {
        printf("%s%.1f", at == 0 ? "" : ", ", (double)values[at] / 1000);
    }
    printf("]}");
}

static void print_report(struct controller *controller)
{
    const struct options *options = controller->end.options;
    int count = 0, sent = options->messages;
    int64_t *overhead_ns = calloc((size_t)sent, sizeof *overhead_ns);
    if (overhead_ns == NULL) {
        fail(&controller->end, "reporting", strerror(errno));
        return;
    }
    for (int sequence = 0; sequence < sent; sequence++) {
        if (controller->total_ns[sequence] >= 0) {
            overhead_ns[count] = controller->total_ns[sequence] - controller->robot_ns[sequence];
            controller->total_ns[count++] = controller->total_ns[sequence];
        }
    }
    printf("{\"n\": %d, \"sent\": %d, \"lost\": %d, \"duplicates\": %d, \"malformed\": %d, \"robot_errors\": %d, "
           "\"interval_ms\": %d, \"qos\": %d",
           count, sent, sent - count, controller->duplicates, controller->malformed, controller->errors,
           options->interval_ms, options->qos);
    print_spread("O_us", overhead_ns, count);
    print_spread("T_us", controller->total_ns, count);
    printf("}\n");
    free(overhead_ns);
}

static bool allocate(struct controller *controller)
{
    size_t count = (size_t)controller->end.options->messages;
    controller->sent_ns = calloc(count, sizeof(int64_t));
    controller->total_ns = malloc(count * sizeof(int64_t));
    controller->robot_ns = calloc(count, sizeof(int64_t));
    if (!controller->sent_ns || !controller->total_ns || !controller->robot_ns) {
        fail(&controller->end, "allocating", strerror(ENOMEM));
        return false;
    }
    memset(controller->total_ns, 0xff, count * sizeof(int64_t)); /* -1: also touches the pages before they matter */
    return true;
}

static bool run_controller(struct controller *controller)
{
    struct end *end = &controller->end;
    snprintf(controller->run, sizeof controller->run, "floor%08x", (unsigned)(now_ns() ^ getpid()));
    bool measured = allocate(controller) && open_end(end, on_answer) && join(end, TOPIC_ANSWER, end->options->qos) &&
                    check(end, "subscribing", mosquitto_subscribe(end->client, NULL, TOPIC_STATUS, 1)) &&
                    wait_for(end, &controller->bridge_online, BRIDGE_LIMIT_NS, "waiting for a bridge to be online") &&
                    measure(controller);
    if (measured && stop_asked) {
        fail(end, "measuring", "stopped by a signal");
        measured = false;
    }
    close_end(end);
    return measured;
}

/* ---- the program --------------------------------------------------------------------------------------------------
 */

static void print_usage(FILE *out)
{
    fputs("usage: floor [--role both|controller|bridge] [--host HOST] [--interval-ms MS] [--messages N] [--qos 0|1|2]\n"
          "The controller's end prints one JSON object: O and T in microseconds, sorted.\n"
          "A bridge alone answers at the QoS of each request until SIGTERM, at most 600 s.\n"
          "Defaults: both 127.0.0.1 20 1000 0.\n",
          out);
}

static int number(const char *name, const char *text, int least, int utmost)
{
    char *rest;
    long value = strtol(text, &rest, 10);
    if (*text == '\0' || *rest != '\0' || value < least || value > utmost) {
        fprintf(stderr, "floor: --%s %s: give a whole number from %d to %d\n", name, text, least, utmost);
        exit(EXIT_MISUSED);
    }
    return (int)value;
}

static void take_role(struct options *options, const char *role)
{
    options->controller = strcmp(role, "bridge") != 0;
    options->bridge = strcmp(role, "controller") != 0;
    if (options->controller && options->bridge && strcmp(role, "both") != 0) {
        fprintf(stderr, "floor: --role %s: choose both, controller or bridge\n", role);
        exit(EXIT_MISUSED);
    }
}

static struct options parse(int argc, char **argv)
{
    static const struct option names[] = {
        {"role", required_argument, NULL, 'r'},
        {"host", required_argument, NULL, 'h'},
        {"interval-ms", required_argument, NULL, 'i'},
        {"messages", required_argument, NULL, 'm'},
        {"qos", required_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'u'},
        {NULL, 0, NULL, 0},
    };
    struct options o = {.host = "127.0.0.1", .interval_ms = 20, .messages = 1000, .controller = true, .bridge = true};
    int option, index = 0;
    while ((option = getopt_long(argc, argv, "", names, &index)) != -1) {
        switch (option) {
        case 'r': take_role(&o, optarg); break;
        case 'h': o.host = optarg; break;
        case 'i': o.interval_ms = number("interval-ms", optarg, 1, 60000); break;
        case 'm': o.messages = number("messages", optarg, 1, 10000000); break;
        case 'q': o.qos = number("qos", optarg, 0, 2); break;
        case 'u': print_usage(stdout); exit(EXIT_GOOD);
        default: print_usage(stderr); exit(EXIT_MISUSED);
        }
    }
    if (optind < argc) {
        print_usage(stderr);
        exit(EXIT_MISUSED);
    }
    return o;
}

static bool told(const struct end *end)
{
    if (end->fault[0] != '\0') {
        fprintf(stderr, "floor: %s\n", end->fault);
    }
    return end->fault[0] != '\0';
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct sigaction action = {.sa_handler = ask_stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    mosquitto_lib_init();

    struct bridge bridge = {.end = {.name = "bridge", .options = &options}};
    struct controller controller = {.end = {.name = "controller", .options = &options}};
    bool measured = true;
    pthread_t thread;
    if (!options.controller) {
        run_bridge(&bridge);
    } else {
        if (options.bridge && pthread_create(&thread, NULL, run_bridge, &bridge) != 0) {
            fputs("floor: cannot start a thread for the bridge\n", stderr);
            return EXIT_RUN_FAILED;
        }
        measured = run_controller(&controller);
        controller_done = true;
        if (options.bridge) {
            pthread_join(thread, NULL);
        }
        if (measured) {
            print_report(&controller);
        }
    }
    mosquitto_lib_cleanup();
    bool bridge_fault = told(&bridge.end), controller_fault = told(&controller.end);
    if (!options.controller) {
        printf("{\"requests\": %d, \"malformed\": %d}\n", bridge.requests, bridge.malformed);
    }
    return measured && !bridge_fault && !controller_fault ? EXIT_GOOD : EXIT_RUN_FAILED;
}
