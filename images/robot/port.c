#define _GNU_SOURCE
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "report.h"

/* A client whose machine or link died is given up within about this time, so that it can come back. */
#define DEAD_CLIENT_S 3

static enum transport transport;
static int listener = -1;    /* readable when a client may have come: a listening socket, or inotify */
static int client = -1;      /* TCP: the client's socket; pty: the master side */
static unsigned pty_openers; /* by inotify: the master end alone cannot show a close and an open between two looks */
static const char *pty_link;
static char name[128];
static uint64_t refused_clients;

static void set_option(int socket_fd, int level, int option, int value)
{
    if (setsockopt(socket_fd, level, option, &value, sizeof value) < 0)
        note("setsockopt %d/%d: %s", level, option, strerror(errno));
}

static void listen_tcp(const struct options *options)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options->tcp_port)};
    if (inet_pton(AF_INET, options->tcp_host, &address.sin_addr) != 1)
        fail(EXIT_USAGE, "--tcp wants an IPv4 address such as 0.0.0.0, not '%s'", options->tcp_host);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0)
        fail(EXIT_MACHINE, "cannot make a TCP socket: %s", strerror(errno));
    set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 4) < 0)
        fail(EXIT_MACHINE, "cannot listen on %s:%u: %s; choose another with --tcp", options->tcp_host,
             options->tcp_port, strerror(errno));
    socklen_t length = sizeof address;
    getsockname(listener, (struct sockaddr *)&address, &length);
    snprintf(name, sizeof name, "tcp %s:%u", options->tcp_host, ntohs(address.sin_port));
}

/* Raw, so that bytes pass as they are. Opening and closing it once also makes the master report a
 * hang-up from now on while nobody has it open. */
static void prepare_slave(const char *path)
{
    const int slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios settings;
    if (slave < 0 || tcgetattr(slave, &settings) < 0)
        fail(EXIT_MACHINE, "cannot open the pseudo-terminal %s: %s", path, strerror(errno));
    cfmakeraw(&settings);
    cfsetspeed(&settings, B57600);
    tcsetattr(slave, TCSANOW, &settings);
    close(slave);
}

static void link_to_slave(const char *path, const char *slave)
{
    struct stat existing;
    if (lstat(path, &existing) == 0) {
        if (!S_ISLNK(existing.st_mode))
            fail(EXIT_USAGE, "%s exists and is no symbolic link; choose another path with --pty", path);
        unlink(path);
    }
    if (symlink(slave, path) < 0)
        fail(EXIT_MACHINE, "cannot make the link %s: %s; choose another path with --pty", path, strerror(errno));
    pty_link = path;
}

/* The master end tells only whether somebody has the slave open now; closed and opened again between
 * two looks would go unseen. */
static void watch_slave(const char *path)
{
    listener = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (listener < 0 || inotify_add_watch(listener, path, IN_OPEN | IN_CLOSE) < 0)
        fail(EXIT_MACHINE, "cannot watch the pseudo-terminal %s: %s", path, strerror(errno));
}

static void open_pty(const char *path)
{
    static const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
    char slave[128], ptmx[128];
    snprintf(ptmx, sizeof ptmx, "%s/ptmx", path);
    const bool is_devpts = access(ptmx, F_OK) == 0;
    unsigned number = 0;
    client = is_devpts ? open(ptmx, flags) : posix_openpt(flags);
    if (client < 0 || unlockpt(client) < 0 || ioctl(client, TIOCGPTN, &number) < 0)
        fail(EXIT_MACHINE, "cannot make a pseudo-terminal%s%s: %s", is_devpts ? " in " : "", is_devpts ? path : "",
             strerror(errno));
    snprintf(slave, sizeof slave, "%s/%u", is_devpts ? path : "/dev/pts", number);
    /* First: a client that opens it from now on is seen, and has the board reset. */
    watch_slave(slave);
    prepare_slave(slave);
    if (!is_devpts)
        link_to_slave(path, slave);
    snprintf(name, sizeof name, "pty %s", path);
}

void port_open(const struct options *options)
{
    transport = options->transport;
    if (transport == TRANSPORT_TCP)
        listen_tcp(options);
    else
        open_pty(options->pty_path);
}

void port_close(void)
{
    if (pty_link)
        unlink(pty_link);
}

const char *port_name(void)
{
    return name;
}

bool port_has_client(void)
{
    return transport == TRANSPORT_TCP ? client >= 0 : pty_openers > 0;
}

nfds_t port_poll_set(struct pollfd set[2], bool want_input)
{
    nfds_t count = 0;
    if (listener >= 0)
        set[count++] = (struct pollfd){.fd = listener, .events = POLLIN};
    if (port_has_client() && want_input)
        set[count++] = (struct pollfd){.fd = client, .events = POLLIN};
    return count;
}

static void set_up_client(void)
{
    set_option(client, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(client, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(client, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set_option(client, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set_option(client, IPPROTO_TCP, TCP_KEEPCNT, DEAD_CLIENT_S);
    set_option(client, IPPROTO_TCP, TCP_USER_TIMEOUT, DEAD_CLIENT_S * 1000);
}

static void drop_client(void)
{
    if (transport == TRANSPORT_PTY) {
        pty_openers = 0;
        return;
    }
    close(client);
    client = -1;
}

static bool client_has_left(void)
{
    struct pollfd state = {.fd = client, .events = POLLRDHUP};
    return poll(&state, 1, 0) > 0;
}

/* A second opener is turned away, as by a serial port opened exclusively: taking over would reset the
 * robot under the first one whenever anything probes the port. */
static bool accept_tcp(void)
{
    bool opened = false;
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        if (client >= 0 && client_has_left())
            drop_client(); /* closed, and its end not read yet */
        if (client >= 0) {
            refused_clients++;
            close(fd);
            continue;
        }
        client = fd;
        set_up_client();
        opened = true;
    }
    return opened;
}

static bool slave_is_open(void)
{
    struct pollfd state = {.fd = client, .events = POLLIN};
    poll(&state, 1, 0);
    return !(state.revents & POLLHUP);
}

/* A second opener beside the first changes nothing, as on a real port, where DTR is up already. */
static bool accept_pty(void)
{
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool opened = false;
    for (ssize_t got; (got = read(listener, buffer, sizeof buffer)) > 0;) {
        for (const char *at = buffer; at < buffer + got;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            if (event->mask & IN_OPEN)
                opened |= pty_openers++ == 0;
            else if (pty_openers > 0)
                pty_openers--;
            at += sizeof *event + event->len;
        }
    }
    /* The kernel merges events of a kind that follow each other unread: closed is closed. */
    if (!slave_is_open())
        pty_openers = 0;
    return opened && pty_openers > 0;
}

bool port_accept(void)
{
    return transport == TRANSPORT_TCP ? accept_tcp() : accept_pty();
}

static bool is_passing(ssize_t result)
{
    return result < 0 && (errno == EAGAIN || errno == EINTR);
}

size_t port_read(uint8_t *bytes, size_t size)
{
    const ssize_t got = read(client, bytes, size);
    if (got > 0)
        return (size_t)got;
    if (!is_passing(got))
        drop_client();
    return 0;
}

size_t port_write(const uint8_t *bytes, size_t size)
{
    const ssize_t put = write(client, bytes, size);
    if (put >= 0)
        return (size_t)put;
    if (!is_passing(put))
        drop_client();
    return 0;
}

uint64_t port_refused_clients(void)
{
    return refused_clients;
}
