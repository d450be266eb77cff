/* What mosquitto's access list (acl_file) lets each user say: a subset of its words, read as mosquitto 2.0 does. */
#ifndef REFUSALS_ACCESS_LIST_H
#define REFUSALS_ACCESS_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Of a publish nothing counts but what may be written, and what is denied. */
struct rule {
    const char *user; /* NULL: somebody without a name */
    const char *topic;
    bool deny;
};

struct access_list {
    char *text; /* the file, which the rules point into */
    struct rule *rules;
    size_t count;
};

enum access_list_state {
    ACCESS_LIST_READ,
    ACCESS_LIST_BROKEN,  /* mosquitto does not take it either */
    ACCESS_LIST_FOREIGN, /* mosquitto may take it; it is not understood here */
};

/* Where and why a list was not read; `line` is 0 where it is the file itself. */
struct access_list_fault {
    unsigned line;
    const char *why;
};

/* Fills `list`, which is empty where it could not be read; free it with access_list_free(). */
enum access_list_state access_list_read(const char *path, struct access_list *list, struct access_list_fault *fault);
void access_list_free(struct access_list *list);

/* Whether mosquitto lets `user` (NULL: no name) publish on `topic`. */
bool access_list_permits(const struct access_list *list, const char *user, const char *topic);

#endif
