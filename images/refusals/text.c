#include "text.h"

#define ESCAPED_BYTES 4

static void add(struct text *text, char byte)
{
    if (text->length < TEXT_BYTES - 1)
        text->bytes[text->length++] = byte;
    text->bytes[text->length] = '\0';
}

void text_clear(struct text *text)
{
    text->length = 0;
    text->bytes[0] = '\0';
}

void text_add(struct text *text, const char *words)
{
    for (; *words != '\0'; words++)
        add(text, *words);
}

void text_add_quoted(struct text *text, const char *strange, size_t most)
{
    static const char DIGITS[] = "0123456789abcdef";
    size_t written = 0;
    add(text, '\'');
    for (; *strange != '\0' && written + ESCAPED_BYTES <= most; strange++) {
        const unsigned char byte = (unsigned char)*strange;
        if (byte >= ' ' && byte < 0x7f && byte != '\'' && byte != '\\') {
            add(text, (char)byte);
            written++;
        } else {
            const char escaped[ESCAPED_BYTES + 1] = {'\\', 'x', DIGITS[byte >> 4], DIGITS[byte & 15], '\0'};
            text_add(text, escaped);
            written += ESCAPED_BYTES;
        }
    }
    text_add(text, *strange == '\0' ? "'" : "'...");
}
