#define _GNU_SOURCE
#include "questions.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "report.h"
#include "signals.h"
#include "statistics.h"

static int asked = -1;
static const char *processor;

void questions_open(const struct options *options)
{
    if (options->statistics_host[0] == '\0')
        return;
    processor = options->processor;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options->statistics_port)};
    if (inet_pton(AF_INET, options->statistics_host, &address.sin_addr) != 1)
        fail(EXIT_USAGE, "--statistics wants an IPv4 address such as 0.0.0.0:4001, not '%s'", options->statistics_host);
    asked = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (asked < 0 || bind(asked, (struct sockaddr *)&address, sizeof address) < 0)
        fail(EXIT_MACHINE, "cannot answer questions on %s:%u: %s; choose another with --statistics",
             options->statistics_host, options->statistics_port, strerror(errno));
}

int questions_descriptor(void)
{
    return asked;
}

void questions_answer(void)
{
    static char answer[60000];
    char question[64];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    if (asked < 0)
        return;
    for (ssize_t got;
         (got = recvfrom(asked, question, sizeof question - 1, 0, (struct sockaddr *)&from, &length)) >= 0;) {
        question[got] = '\0';
        size_t size = signals_answer(question, answer, sizeof answer);
        if (size == 0)
            size = statistics_since_asked(processor, answer, sizeof answer);
        /* Who asked and has gone is not waited for. */
        (void)!sendto(asked, answer, size, 0, (struct sockaddr *)&from, length);
        length = sizeof from;
    }
}
