#include "usb_serial.h"

#include <stddef.h>

#include "mcu.h"

static struct usb_byte *push(struct usb_queue *queue)
{
    if (queue->count == USB_SERIAL_QUEUE_BYTES)
        return NULL;
    return &queue->bytes[(queue->head + queue->count++) % USB_SERIAL_QUEUE_BYTES];
}

static void pop(struct usb_queue *queue)
{
    queue->head = (queue->head + 1) % USB_SERIAL_QUEUE_BYTES;
    queue->count--;
}

static const struct usb_byte *front(const struct usb_queue *queue)
{
    return queue->count ? &queue->bytes[queue->head] : NULL;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The first cycle from `cycle` on that lies at `phase` in a frame. */
static uint64_t next_in_frame(const struct usb_serial *usb, uint64_t cycle, uint64_t phase)
{
    if (usb->frame_cycles == 0)
        return cycle;
    const uint64_t first = usb->origin_cycle + phase;
    if (cycle <= first)
        return first;
    const uint64_t frames = (cycle - first + usb->frame_cycles - 1) / usb->frame_cycles;
    return first + frames * usb->frame_cycles;
}

void usb_serial_init(struct usb_serial *usb, const struct usb_times *times, uint64_t origin_cycle)
{
    *usb = (struct usb_serial){.origin_cycle = origin_cycle, .byte_cycles = times->byte_cycles};
    const uint64_t nominal_cycles = (uint64_t)times->frame_us * MCU_CYCLES_PER_US;
    usb->frame_cycles = nominal_cycles + nominal_cycles * USB_CLOCK_OFFSET_PPM / 1000000;
    usb->in_phase_cycles = (uint64_t)times->in_phase_us * MCU_CYCLES_PER_US;
    usb->latency_cycles = (uint64_t)times->latency_us * MCU_CYCLES_PER_US;
}

void usb_serial_clear(struct usb_serial *usb)
{
    usb->to_robot.count = 0;
    usb->to_host.count = 0;
    usb->to_robot_free_cycle = 0;
}

unsigned usb_serial_room(const struct usb_serial *usb)
{
    return USB_SERIAL_QUEUE_BYTES - usb->to_robot.count;
}

void usb_serial_from_host(struct usb_serial *usb, uint8_t byte, uint64_t cycle)
{
    struct usb_byte *slot = push(&usb->to_robot);
    if (!slot)
        return; /* cannot happen: the caller asks for room first */
    const uint64_t start = later(next_in_frame(usb, cycle, 0), usb->to_robot_free_cycle);
    usb->to_robot_free_cycle = start + usb->byte_cycles;
    *slot = (struct usb_byte){.value = byte, .arrived_cycle = cycle, .wire_cycle = start};
}

/* Bytes that wait for the latency timer leave as soon as they fill a packet. */
static void release_full_packet(struct usb_queue *queue, uint64_t due_cycle)
{
    unsigned waiting = 0;
    for (unsigned i = 0; i < queue->count; i++)
        waiting += queue->bytes[(queue->head + i) % USB_SERIAL_QUEUE_BYTES].due_cycle > due_cycle;
    if (waiting < USB_FULL_PACKET_BYTES)
        return;
    for (unsigned i = 0; i < queue->count; i++) {
        struct usb_byte *byte = &queue->bytes[(queue->head + i) % USB_SERIAL_QUEUE_BYTES];
        if (byte->due_cycle > due_cycle)
            byte->due_cycle = due_cycle;
    }
}

void usb_serial_from_robot(struct usb_serial *usb, uint8_t byte, uint64_t wire_end_cycle)
{
    struct usb_byte *slot = push(&usb->to_host);
    if (!slot) {
        usb->lost_bytes++;
        return;
    }
    *slot = (struct usb_byte){.value = byte, .wire_cycle = wire_end_cycle};
    if (usb->latency_cycles == 0) {
        slot->due_cycle = usb_serial_collection(usb, wire_end_cycle);
        return;
    }
    const uint64_t ticks = (wire_end_cycle - usb->origin_cycle) / usb->latency_cycles + 1;
    slot->due_cycle = usb_serial_collection(usb, usb->origin_cycle + ticks * usb->latency_cycles);
    release_full_packet(&usb->to_host, usb_serial_collection(usb, wire_end_cycle));
}

void usb_serial_cut_robot(struct usb_serial *usb, uint64_t cycle)
{
    struct usb_queue *queue = &usb->to_host;
    while (queue->count && queue->bytes[(queue->head + queue->count - 1) % USB_SERIAL_QUEUE_BYTES].wire_cycle > cycle)
        queue->count--;
}

const struct usb_byte *usb_serial_next_to_robot(const struct usb_serial *usb)
{
    return front(&usb->to_robot);
}

const struct usb_byte *usb_serial_next_to_host(const struct usb_serial *usb)
{
    return front(&usb->to_host);
}

void usb_serial_pop_to_robot(struct usb_serial *usb)
{
    pop(&usb->to_robot);
}

void usb_serial_pop_to_host(struct usb_serial *usb)
{
    pop(&usb->to_host);
}

uint64_t usb_serial_collection(const struct usb_serial *usb, uint64_t cycle)
{
    return next_in_frame(usb, cycle, usb->in_phase_cycles) + USB_IN_FRAMES * usb->frame_cycles;
}
