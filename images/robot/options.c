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
    "  --pty PATH               serve a pseudo-terminal instead, with a symbolic link at PATH;\n"
    "                           in the devpts at PATH, if it is one, which containers may share\n"
    "  --processor NAME         atmega2560 (default) or atmega328p\n"
    "  --firmware FILE          Intel HEX file (default " DEFAULT_FIRMWARE ")\n"
    "  --temperature C          temperature of the thermistor, -40 to 125 (default 25.5), or 'open' for a broken one\n"
    "  --light LEVEL            level of both light sensors, 0 to 1023 (default 512)\n"
    "  --sound LEVEL            level of the sound sensor, 0 to 1023 (default 40)\n"
    "  --usb-frame-us US        USB frame of the serial adapter, 0 for none (default 1000)\n"
    "  --usb-in-phase-us US     when in a frame the host collects bytes, less than a frame (default 550)\n"
    "  --usb-latency-us US      latency timer of an FTDI adapter: bytes wait for it, or for 62 of them (default 0: "
    "none)\n"
    "  --adapter NAME           the three above: none, ch340, ftdi-1 or ftdi-16 (ms of its latency timer), atmega16u2\n"
    "                           (an Uno's), or thesis or corrected: what a fidelity has by default\n"
    "  --wire OUT:IN            a wire from an output to an input pin, by port and bit: B7:G5\n"
    "  --generator PIN          a square-wave generator on that pin; it is set by datagrams (--statistics)\n"
    "  --scope PIN,PIN…         an oscilloscope on at most 4 pins, read by datagrams (--statistics)\n"
    "  --board NAME             ASIP's board, uno or mega, in place of --processor and --firmware: pin 13 is wired\n"
    "                           to pin 4, the generator is on pin 2, the oscilloscope on 2 and 13\n"
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

static void parse_pin(const char *option, const char *text, size_t length, char pin[3])
{
    if (length != 2 || text[0] < 'A' || text[0] > 'L' || text[1] < '0' || text[1] > '7')
        fail(EXIT_USAGE, "--%s wants pins by port and bit such as B7, not '%s'", option, text);
    memcpy(pin, text, 2);
    pin[2] = '\0';
}

static void parse_wire(struct options *options, const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon)
        fail(EXIT_USAGE, "--wire wants an output and an input such as B7:G5, not '%s'", text);
    parse_pin("wire", text, (size_t)(colon - text), options->wire[0]);
    parse_pin("wire", colon + 1, strlen(colon + 1), options->wire[1]);
}

static void parse_scope(struct options *options, const char *text)
{
    for (const char *at = text; options->scope_pins < OPTIONS_PINS; at = strchr(at, ',') + 1) {
        parse_pin("scope", at, strcspn(at, ","), options->scope[options->scope_pins++]);
        if (!strchr(at, ','))
            return;
    }
    fail(EXIT_USAGE, "--scope wants at most %d pins, not '%s'", OPTIONS_PINS, text);
}

static void parse_board(struct options *options, const char *text)
{
    static const struct {
        const char *name, *processor, *firmware, *wire, *generator, *scope;
    } boards[] = {
        {"uno", "atmega328p", "/usr/share/looplab/asip-uno.hex", "B5:D4", "D2", "D2,B5"},
        {"mega", "atmega2560", "/usr/share/looplab/asip-mega.hex", "B7:G5", "E4", "E4,B7"},
    };
    for (size_t i = 0; i < sizeof boards / sizeof *boards; i++) {
        if (strcmp(text, boards[i].name) == 0) {
            options->processor = boards[i].processor;
            options->firmware_path = boards[i].firmware;
            parse_wire(options, boards[i].wire);
            parse_pin("board", boards[i].generator, 2, options->generator);
            parse_scope(options, boards[i].scope);
            return;
        }
    }
    fail(EXIT_USAGE, "--board wants uno or mega, not '%s'", text);
}

static void parse_adapter(struct options *options, const char *text)
{
    /* A fidelity stands for the adapter that it has if none is named. */
    static const struct {
        const char *name;
        struct usb_times times;
    } adapters[] = {
        {"none", {0, 0, 0, USB_BYTE_CYCLES}},
        {"corrected", {0, 0, 0, USB_BYTE_CYCLES}},
        {"atmega16u2", {0, 0, USB_16U2_LATENCY_US, USB_16U2_BYTE_CYCLES}},
        {"thesis", {0, 0, USB_16U2_LATENCY_US, USB_16U2_BYTE_CYCLES}},
        {"ch340", {USB_FRAME_US, USB_IN_PHASE_US, 0, USB_BYTE_CYCLES}},
        {"ftdi-1", {USB_FRAME_US, USB_IN_PHASE_US, 1000, USB_BYTE_CYCLES}},
        {"ftdi-16", {USB_FRAME_US, USB_IN_PHASE_US, 16000, USB_BYTE_CYCLES}},
    };
    for (size_t i = 0; i < sizeof adapters / sizeof *adapters; i++) {
        if (strcmp(text, adapters[i].name) == 0) {
            options->usb = adapters[i].times;
            return;
        }
    }
    fail(EXIT_USAGE, "--adapter wants none, atmega16u2, ch340, ftdi-1, ftdi-16 or a fidelity, not '%s'", text);
}

enum {
    OPTION_TCP = 1,
    OPTION_PTY,
    OPTION_PROCESSOR,
    OPTION_WIRE,
    OPTION_GENERATOR,
    OPTION_SCOPE,
    OPTION_BOARD,
    OPTION_ADAPTER,
    OPTION_USB_LATENCY,
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
    {"processor", required_argument, NULL, OPTION_PROCESSOR},
    {"wire", required_argument, NULL, OPTION_WIRE},
    {"generator", required_argument, NULL, OPTION_GENERATOR},
    {"scope", required_argument, NULL, OPTION_SCOPE},
    {"board", required_argument, NULL, OPTION_BOARD},
    {"adapter", required_argument, NULL, OPTION_ADAPTER},
    {"usb-latency-us", required_argument, NULL, OPTION_USB_LATENCY},
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
    case OPTION_PROCESSOR: options->processor = value; break;
    case OPTION_WIRE: parse_wire(options, value); break;
    case OPTION_GENERATOR: parse_pin("generator", value, strlen(value), options->generator); break;
    case OPTION_SCOPE: parse_scope(options, value); break;
    case OPTION_BOARD: parse_board(options, value); break;
    case OPTION_ADAPTER: parse_adapter(options, value); break;
    case OPTION_USB_LATENCY: options->usb.latency_us = parse_unsigned("usb-latency-us", value, 0, 255000); break;
    case OPTION_FIRMWARE: options->firmware_path = value; break;
    case OPTION_TEMPERATURE: options->temperature_c = parse_temperature(value); break;
    case OPTION_LIGHT: options->light_level = parse_unsigned("light", value, 0, ADC_LEVEL_MAX); break;
    case OPTION_SOUND: options->sound_level = parse_unsigned("sound", value, 0, ADC_LEVEL_MAX); break;
    case OPTION_USB_FRAME: options->usb.frame_us = parse_unsigned("usb-frame-us", value, 0, 100000); break;
    case OPTION_USB_IN_PHASE: options->usb.in_phase_us = parse_unsigned("usb-in-phase-us", value, 0, 99999); break;
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
        .processor = "atmega2560",
        .temperature_c = 25.5,
        .light_level = 512,
        .sound_level = 40,
        .usb = {USB_FRAME_US, USB_IN_PHASE_US, 0, USB_BYTE_CYCLES},
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
    if (options.usb.frame_us == 0)
        options.usb.in_phase_us = 0;
    else if (options.usb.in_phase_us >= options.usb.frame_us)
        fail(EXIT_USAGE, "--usb-in-phase-us %u does not lie within a frame of %u us (--usb-frame-us)",
             options.usb.in_phase_us, options.usb.frame_us);
    return options;
}
