/* A piece of a log line of bounded length, made of what strangers choose. */
#ifndef REFUSALS_TEXT_H
#define REFUSALS_TEXT_H

#include <stddef.h>

#define TEXT_BYTES 512

/* Always ended by a zero byte; what does not fit is left out. */
struct text {
    char bytes[TEXT_BYTES];
    size_t length;
};

void text_clear(struct text *text);
void text_add(struct text *text, const char *words);

/* In quotes; anything but printable ASCII, and quote and backslash, as \xNN. Longer than `most` it ends in dots. */
void text_add_quoted(struct text *text, const char *strange, size_t most);

#endif
