/* A controller in C for an image that holds nothing else: it keeps the agreement of docs/adding-an-experiment.md. */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Read and forget what the broker sends, until `end_s`. */
static void hear(int sock, double end_s)
{
    char answer[4096];
    struct pollfd news = {sock, POLLIN, 0};
    for (double left_s; (left_s = end_s - now_s()) > 0;)
        if (poll(&news, 1, left_s * 1000 + 1) > 0 && read(sock, answer, sizeof answer) <= 0)
            exit(1);
}

static void write_all(int sock, const char *bytes, size_t count)
{
    if (write(sock, bytes, count) != (ssize_t)count)
        exit(1);
}

int main(void)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *broker;
    if (getaddrinfo(getenv("BROKER_HOST"), getenv("BROKER_PORT"), &hints, &broker))
        return 2;
    int sock = socket(broker->ai_family, SOCK_STREAM, 0), on = 1;
    if (connect(sock, broker->ai_addr, broker->ai_addrlen))
        return 3;
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    write_all(sock, "\x10\x0d\0\4MQTT\4\2\0\x3c\0\1c", 15);
    hear(sock, now_s() + 0.2);
    write_all(sock, "\x82\x0c\0\1\0\7answer/\0", 14);
    hear(sock, now_s() + 0.2);

    int first = atoi(getenv("FIRST")), count = atoi(getenv("COUNT"));
    double interval_s = atof(getenv("INTERVAL_S")), begin_s = now_s();
    for (int k = 0; k < count; k++) {
        char packet[128] = "\x30\0\0\x08request/";
        int length = snprintf(packet + 12, sizeof packet - 12, "%s-%d", getenv("REQUEST"), first + k);
        packet[1] = 10 + length;
        write_all(sock, packet, 12 + length);
        hear(sock, begin_s + (k + 1) * interval_s);
    }
    hear(sock, now_s() + 0.5);
    return 0;
}
