/* Messages for people. */
#ifndef ROBOT_REPORT_H
#define ROBOT_REPORT_H

#define EXIT_GOOD 0
#define EXIT_FAULT 1
#define EXIT_USAGE 2
#define EXIT_MACHINE 3

/* One sentence on standard error, then the end. */
_Noreturn void fail(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One sentence on standard error. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
