/* Where the serial port is offered: a TCP listener or a pseudo-terminal, one client at a time. */
#ifndef ROBOT_PORT_H
#define ROBOT_PORT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

/* Opens what the options ask for; exits with a clear sentence if it cannot. */
void port_open(const struct options *options);

/* Removes what it left in the file system. */
void port_close(void);

/* Where it is offered, for the ready line. */
const char *port_name(void);

bool port_has_client(void);

/* Fills in what to wait for; returns how many. `want_input` is false while the adapter is full. */
nfds_t port_poll_set(struct pollfd set[2], bool want_input);

/* Takes in or turns away new clients. True: the port was opened just now. */
bool port_accept(void);

/* Up to `size` bytes from the client, without waiting; notices when it has gone. */
size_t port_read(uint8_t *bytes, size_t size);

/* Hands bytes to the client, without waiting; returns how many it took. */
size_t port_write(const uint8_t *bytes, size_t size);

uint64_t port_refused_clients(void);

#endif
