/* The serial adapter on the robot's board (a CH340): USB frames on the host's side, a wire to the
 * processor's UART on the other. All times are processor cycles. */
#ifndef ROBOT_USB_SERIAL_H
#define ROBOT_USB_SERIAL_H

#include <stdbool.h>
#include <stdint.h>

/* A full-speed USB host talks to the adapter once in a frame of 1 ms: bytes of the host go out at the
 * start of the next frame. */
#define USB_FRAME_US 1000

/* The host collects the adapter's bytes once in a frame too, this long after its start. Requests leave
 * and answers come in on one clock, so the response time is a random wait of 0 to 1 frame, plus a whole
 * number of frames, plus this phase. It is the one constant to calibrate the response time with: each
 * microsecond here is one in R, as long as the robot's own time (2.1 ms from frame start to last bit)
 * stays between the same two collections, that is from 400 to 900. */
#define USB_IN_PHASE_US 550

/* What was collected reaches the program on the host this many frames later: the host's controller
 * reports a frame's transfers when the frame is over, and the driver hands them on after that. */
#define USB_IN_FRAMES 1

/* The host's frame clock is not the clock requests are sent by. This far apart (the most that USB
 * allows), requests sent every 10, 20, 50 or 100 ms meet every phase of the frame alike; on one clock
 * a whole run would sit on one phase. */
#define USB_CLOCK_OFFSET_PPM 500

/* An adapter with a clock of its own sends at the rate the host asked for: ten bits at 57600 baud. */
#define USB_BYTE_CYCLES 2777

/* The USB chip of an Uno and a Mega, an ATmega16U2 with Arduino's firmware (arduino/ArduinoCore-avr,
 * firmwares/atmegaxxu2/arduino-usbserial). Its timer of 8 bits counts 16 MHz / 256 and overflows every 4.096 ms; then
 * it hands the host what the board has sent, or earlier once 97 bytes wait, which takes longer at this rate. For 57600
 * baud it takes the divisor of the board: ten bits of 272 cycles. Frames of the host are not modelled: no constant is
 * fitted. */
#define USB_16U2_LATENCY_US 4096
#define USB_16U2_BYTE_CYCLES 2720

/* A full packet of an FTDI adapter waits for no latency timer: 64 bytes, two of them its status. */
#define USB_FULL_PACKET_BYTES 62

/* Bytes the adapter takes from the host before it makes it wait. */
#define USB_SERIAL_QUEUE_BYTES 256

struct usb_byte {
    uint8_t value;
    uint64_t arrived_cycle; /* host to robot: when the host sent it */
    uint64_t wire_cycle;    /* host to robot: its start bit; robot to host: the end of its stop bit */
    uint64_t due_cycle;     /* robot to host: when the host collects it */
};

struct usb_queue {
    struct usb_byte bytes[USB_SERIAL_QUEUE_BYTES];
    unsigned head;
    unsigned count;
};

struct usb_serial {
    struct usb_queue to_robot;
    struct usb_queue to_host;
    uint64_t frame_cycles; /* 0: no framing, bytes pass at once */
    uint64_t in_phase_cycles;
    uint64_t latency_cycles;      /* 0: no latency timer */
    uint64_t byte_cycles;         /* of a byte on the wire to the robot */
    uint64_t origin_cycle;        /* a frame started here */
    uint64_t to_robot_free_cycle; /* the wire to the robot is busy until then */
    uint64_t lost_bytes;          /* bytes of the robot that found the queue full */
};

/* An adapter's times; `byte_cycles` is that of a byte on its way to the robot. */
struct usb_times {
    unsigned frame_us;
    unsigned in_phase_us;
    unsigned latency_us;
    unsigned byte_cycles;
};

void usb_serial_init(struct usb_serial *usb, const struct usb_times *times, uint64_t origin_cycle);

/* Nothing under way, as after the port was opened. */
void usb_serial_clear(struct usb_serial *usb);

/* How many bytes of the host it can take now. */
unsigned usb_serial_room(const struct usb_serial *usb);

void usb_serial_from_host(struct usb_serial *usb, uint8_t byte, uint64_t cycle);
void usb_serial_from_robot(struct usb_serial *usb, uint8_t byte, uint64_t wire_end_cycle);

/* Takes back what would have left the robot after `cycle`. */
void usb_serial_cut_robot(struct usb_serial *usb, uint64_t cycle);

/* The oldest byte under way, or NULL. */
const struct usb_byte *usb_serial_next_to_robot(const struct usb_serial *usb);
const struct usb_byte *usb_serial_next_to_host(const struct usb_serial *usb);

void usb_serial_pop_to_robot(struct usb_serial *usb);
void usb_serial_pop_to_host(struct usb_serial *usb);

/* The first time from `cycle` on at which the host collects bytes; with no framing, `cycle` itself.
 * The latency timer is not part of it. */
uint64_t usb_serial_collection(const struct usb_serial *usb, uint64_t cycle);

#endif
