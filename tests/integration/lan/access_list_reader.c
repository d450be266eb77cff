/* Reads each file named and says what it is: `read RULES`, or `broken` or `foreign` with line and reason. */
#include <stdio.h>
#include <string.h>

#include "access_list.h"

static void ask(const struct access_list *list)
{
    static const char *const TOPICS[] = {"a", "a/", "$a", "/", "write"};
    static const char *const USERS[] = {NULL, "", "a", "read"};
    for (size_t i = 0; i < sizeof(TOPICS) / sizeof(TOPICS[0]); i++)
        for (size_t j = 0; j < sizeof(USERS) / sizeof(USERS[0]); j++)
            access_list_permits(list, USERS[j], TOPICS[i]);
}

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++) {
        struct access_list list;
        struct access_list_fault fault;
        const enum access_list_state state = access_list_read(paths[i], &list, &fault);
        ask(&list);
        if (state == ACCESS_LIST_READ)
            printf("read %zu\n", list.count);
        else
            printf("%s %u: %s\n", state == ACCESS_LIST_BROKEN ? "broken" : "foreign", fault.line, fault.why);
        access_list_free(&list);
    }
    return 0;
}
