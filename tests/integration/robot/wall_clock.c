/* Preloaded: a wall clock that is set an hour forwards, and back, ten times a second. The monotonic one goes on.
 * The kernel's time stamps are of the true wall clock, so no socket gets any. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SO_TIMESTAMPING_NEW 65
#define HALF_NS 50000000
#define HOUR_S 3600

int clock_gettime(clockid_t clock, struct timespec *time)
{
    struct timespec steady;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
    const int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME && steady.tv_nsec / HALF_NS % 2)
        time->tv_sec += HOUR_S;
    return result;
}

int setsockopt(int socket, int level, int name, const void *value, socklen_t size)
{
    if (level == SOL_SOCKET && name == SO_TIMESTAMPING_NEW) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return (int)syscall(SYS_setsockopt, socket, level, name, value, size);
}
