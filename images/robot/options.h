/* The board program's command line. */
#ifndef ROBOT_OPTIONS_H
#define ROBOT_OPTIONS_H

#include <stdbool.h>

#include "usb_serial.h"

enum transport { TRANSPORT_TCP, TRANSPORT_PTY };

/* Pins that an oscilloscope has probes on, at most. */
#define OPTIONS_PINS 4

struct options {
    enum transport transport;
    char tcp_host[64];
    unsigned tcp_port;        /* 0: any free one, said in the ready line */
    char statistics_host[64]; /* "": no questions are answered */
    unsigned statistics_port;
    const char *pty_path;
    const char *processor;
    char wire[2][3]; /* "": no wire; else an output and an input, such as B7 and G5 */
    char generator[3];
    char scope[OPTIONS_PINS][3];
    unsigned scope_pins;
    const char *firmware_path;
    const char *trace_path; /* NULL: no trace */
    double temperature_c;   /* NAN: the thermistor is open */
    unsigned light_level;
    unsigned sound_level;
    struct usb_times usb;
    unsigned boot_ms;
};

/* Exits 2 with one sentence on wrong use; --help and --version exit 0. */
struct options options_parse(int argc, char **argv);

#endif
