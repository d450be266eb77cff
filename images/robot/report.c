#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void print_sentence(const char *format, va_list arguments)
{
    fputs("robot: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void fail(int exit_code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_sentence(format, arguments);
    va_end(arguments);
    exit(exit_code);
}

void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_sentence(format, arguments);
    va_end(arguments);
}
