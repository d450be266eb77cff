#include "options.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "usb_serial.h"

#define BOARD_VERSION "0.1.0"

#define DEFAULT_FIRMWARE "/usr/share/looplab/mbot_ranger.hex"
#define DEFAULT_TCP "127.0.0.1:4000"

/* The thermistor's rated range; the simulated divider follows its formula well beyond. */
#define TEMPERATURE_MIN_C (-40.0)
#define TEMPERATURE_MAX_C 125.0
#define ADC_LEVEL_MAX 1023

/* The Mega's boot loader listens for up to 2 s after a reset; half a second rehearses that a sender
 * must wait for the ready line without slowing every start of the lab. */
#define DEFAULT_BOOT_MS 500

static const char usage[] =
    "usage: robot [options]\n"
    "An mBot Ranger (ATmega2560, 16 MHz) in real time, offered as a serial port. The last of --tcp and --pty counts.\n"
    "\n"
    "  --tcp HOST:PORT          serve one client at a time over TCP; a second is refused (default " DEFAULT_TCP ")\n"
    "  --pty PATH               serve a pseudo-terminal instead, with a symbolic link at PATH\n"
    "  --firmware FILE          Intel HEX file (default " DEFAULT_FIRMWARE ")\n"
    "  --temperature C          temperature of the thermistor, -40 to 125 (default 25.5), or 'open' for a broken one\n"
    "  --light LEVEL            level of both light sensors, 0 to 1023 (default 512)\n"
    "  --sound LEVEL            level of the sound sensor, 0 to 1023 (default 40)\n"
    "  --usb-frame-us US        USB frame of the serial adapter, 0 for none (default 1000)\n"
    "  --usb-in-phase-us US     when in a frame the host collects bytes, less than a frame (default 550)\n"
    "  --boot-ms MS             how long the boot loader swallows bytes after a reset (default 500)\n"
    "  --trace FILE             write a line for each byte with its cycle stamps\n"
    "  --statistics HOST:PORT   answer each UDP datagram by the lag since the last one (default: do not)\n"
    "  --version, --help\n"
    "\n"
    "Opening the port resets the robot, as DTR does. Signals: TERM and INT end it, USR1 prints its statistics\n"
    "to standard error, USR2 presses the reset button.\n";

static unsigned parse_unsigned(const char *option, const char *text, unsigned min, unsigned max)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < (long)min || value > (long)max)
        fail(EXIT_USAGE, "--%s wants a whole number from %u to %u, not '%s'", option, min, max, text);
    return (unsigned)value;
}

static double parse_temperature(const char *text)
{
    if (strcmp(text, "open") == 0)
        return NAN;
    char *end = NULL;
    const double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !isfinite(value) || value < TEMPERATURE_MIN_C || value > TEMPERATURE_MAX_C)
        fail(EXIT_USAGE, "--temperature wants degrees Celsius from %g to %g, or open, not '%s'", TEMPERATURE_MIN_C,
             TEMPERATURE_MAX_C, text);
    return value;
}

static unsigned parse_address(const char *option, const char *text, char *host, size_t host_size)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || (size_t)(colon - text) >= host_size)
        fail(EXIT_USAGE, "--%s wants an IPv4 address and a port such as 0.0.0.0:4000, not '%s'", option, text);
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    return parse_unsigned(option, colon + 1, 0, 65535);
}

static void parse_tcp(struct options *options, const char *text)
{
    options->tcp_port = parse_address("tcp", text, options->tcp_host, sizeof options->tcp_host);
    options->transport = TRANSPORT_TCP;
}

enum {
    OPTION_TCP = 1,
    OPTION_PTY,
    OPTION_FIRMWARE,
    OPTION_TEMPERATURE,
    OPTION_LIGHT,
    OPTION_SOUND,
    OPTION_USB_FRAME,
    OPTION_USB_IN_PHASE,
    OPTION_BOOT,
    OPTION_TRACE,
    OPTION_STATISTICS,
    OPTION_VERSION,
    OPTION_HELP
};

static const struct option long_options[] = {
    {"tcp", required_argument, NULL, OPTION_TCP},
    {"pty", required_argument, NULL, OPTION_PTY},
    {"firmware", required_argument, NULL, OPTION_FIRMWARE},
    {"temperature", required_argument, NULL, OPTION_TEMPERATURE},
    {"light", required_argument, NULL, OPTION_LIGHT},
    {"sound", required_argument, NULL, OPTION_SOUND},
    {"usb-frame-us", required_argument, NULL, OPTION_USB_FRAME},
    {"usb-in-phase-us", required_argument, NULL, OPTION_USB_IN_PHASE},
    {"boot-ms", required_argument, NULL, OPTION_BOOT},
    {"trace", required_argument, NULL, OPTION_TRACE},
    {"statistics", required_argument, NULL, OPTION_STATISTICS},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static _Noreturn void print_and_exit(const char *text)
{
    fputs(text, stdout);
    exit(EXIT_GOOD);
}

static void apply(struct options *options, int option, const char *value)
{
    switch (option) {
    case OPTION_TCP: parse_tcp(options, value); break;
    case OPTION_PTY:
        options->transport = TRANSPORT_PTY;
        options->pty_path = value;
        break;
    case OPTION_FIRMWARE: options->firmware_path = value; break;
    case OPTION_TEMPERATURE: options->temperature_c = parse_temperature(value); break;
    case OPTION_LIGHT: options->light_level = parse_unsigned("light", value, 0, ADC_LEVEL_MAX); break;
    case OPTION_SOUND: options->sound_level = parse_unsigned("sound", value, 0, ADC_LEVEL_MAX); break;
    case OPTION_USB_FRAME: options->usb_frame_us = parse_unsigned("usb-frame-us", value, 0, 100000); break;
    case OPTION_USB_IN_PHASE: options->usb_in_phase_us = parse_unsigned("usb-in-phase-us", value, 0, 99999); break;
    case OPTION_BOOT: options->boot_ms = parse_unsigned("boot-ms", value, 0, 10000); break;
    case OPTION_TRACE: options->trace_path = value; break;
    case OPTION_STATISTICS:
        options->statistics_port =
            parse_address("statistics", value, options->statistics_host, sizeof options->statistics_host);
        break;
    case OPTION_VERSION: print_and_exit("robot " BOARD_VERSION "\n");
    case OPTION_HELP: print_and_exit(usage);
    }
}

struct options options_parse(int argc, char **argv)
{
    struct options options = {
        .firmware_path = DEFAULT_FIRMWARE,
        .temperature_c = 25.5,
        .light_level = 512,
        .sound_level = 40,
        .usb_frame_us = USB_FRAME_US,
        .usb_in_phase_us = USB_IN_PHASE_US,
        .boot_ms = DEFAULT_BOOT_MS,
    };
    parse_tcp(&options, DEFAULT_TCP);

    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
        if (option == ':')
            fail(EXIT_USAGE, "%s wants a value; see --help", argv[optind - 1]);
        if (option == '?')
            fail(EXIT_USAGE, "unknown option %s; see --help", argv[optind - 1]);
        apply(&options, option, optarg);
    }
    if (optind < argc)
        fail(EXIT_USAGE, "'%s' belongs to no option; see --help", argv[optind]);
    if (options.usb_frame_us == 0)
        options.usb_in_phase_us = 0;
    else if (options.usb_in_phase_us >= options.usb_frame_us)
        fail(EXIT_USAGE, "--usb-in-phase-us %u does not lie within a frame of %u us (--usb-frame-us)",
             options.usb_in_phase_us, options.usb_frame_us);
    return options;
}
