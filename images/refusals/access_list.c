#include "access_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mosquitto.h>

#define FILE_BYTES_MAX 65536u

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next word, ended; what follows the one blank behind it is left in `rest`. Blanks alone part words, not tabs. */
static char *next_word(char **rest)
{
    char *word = *rest;
    while (*word == ' ')
        word++;
    char *end = word;
    while (*end != '\0' && *end != ' ')
        end++;
    *rest = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

static char *without_space_before(char *text)
{
    while (is_space(*text))
        text++;
    return text;
}

static void cut_space_behind(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && is_space(text[length - 1]))
        text[--length] = '\0';
}

/* The rest of a line that begins with `topic`; "" or why it is none. */
static const char *read_topic(struct access_list *list, const char *user, char *rest)
{
    const char *topic, *access = next_word(&rest);
    if (*access == '\0')
        return "a topic without a name";
    if (*rest == '\0') {
        topic = access;
        access = "readwrite";
    } else {
        topic = without_space_before(rest);
    }
    const bool deny = strcmp(access, "deny") == 0;
    const bool write = strcmp(access, "write") == 0 || strcmp(access, "readwrite") == 0;
    if (!deny && !write && strcmp(access, "read") != 0)
        return "access is none of read, write, readwrite, deny";
    if (mosquitto_sub_topic_check(topic) != MOSQ_ERR_SUCCESS)
        return "not a topic";
    if (deny || write)
        list->rules[list->count++] = (struct rule){.user = user, .topic = topic, .deny = deny};
    return "";
}

static enum access_list_state read_line(struct access_list *list, char *line, const char **user, const char **why)
{
    cut_space_behind(line);
    char *rest = line;
    if (line[0] == '#')
        return ACCESS_LIST_READ;
    const char *word = next_word(&rest);
    *why = "";
    if (strcmp(word, "topic") == 0) {
        *why = read_topic(list, *user, rest);
    } else if (strcmp(word, "user") == 0) {
        *user = without_space_before(rest);
        *why = **user == '\0' ? "a user without a name" : "";
    } else if (strcmp(word, "pattern") == 0) {
        *why = "`pattern` is not understood here";
        return ACCESS_LIST_FOREIGN;
    } else if (*word != '\0') {
        *why = "neither user nor topic";
    }
    return **why == '\0' ? ACCESS_LIST_READ : ACCESS_LIST_BROKEN;
}

/* Allocates text and rules: at most one of these a line. */
static enum access_list_state read_file(const char *path, struct access_list *list, const char **why)
{
    list->text = malloc(FILE_BYTES_MAX + 2);
    if (list->text == NULL) {
        *why = "no memory";
        return ACCESS_LIST_FOREIGN;
    }
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? -1 : read(file, list->text, FILE_BYTES_MAX + 1);
    const int error = errno;
    if (file >= 0)
        close(file);
    if (length < 0) {
        *why = strerror(error);
        return ACCESS_LIST_BROKEN;
    }
    list->text[length] = '\0';
    size_t lines = 1;
    for (ssize_t i = 0; i < length; i++)
        lines += list->text[i] == '\n';
    list->rules = calloc(lines, sizeof(struct rule));
    *why = "";
    if (length > (ssize_t)FILE_BYTES_MAX)
        *why = "longer than 65536 bytes";
    else if (strlen(list->text) != (size_t)length)
        *why = "a zero byte";
    else if (list->rules == NULL)
        *why = "no memory";
    return **why == '\0' ? ACCESS_LIST_READ : ACCESS_LIST_FOREIGN;
}

enum access_list_state access_list_read(const char *path, struct access_list *list, struct access_list_fault *fault)
{
    *list = (struct access_list){.count = 0};
    *fault = (struct access_list_fault){.why = ""};
    enum access_list_state state = read_file(path, list, &fault->why);
    const char *user = NULL;
    char *line = list->text;
    while (state == ACCESS_LIST_READ && *line != '\0') {
        char *end = strchr(line, '\n');
        char *next = end == NULL ? line + strlen(line) : end + 1;
        if (end != NULL)
            *end = '\0';
        fault->line++;
        state = read_line(list, line, &user, &fault->why);
        line = next;
    }
    if (state != ACCESS_LIST_READ)
        access_list_free(list);
    return state;
}

void access_list_free(struct access_list *list)
{
    free(list->rules);
    free(list->text);
    *list = (struct access_list){.count = 0};
}

static bool is_user(const char *wanted, const char *user)
{
    return wanted == NULL || user == NULL ? wanted == user : strcmp(wanted, user) == 0;
}

static bool covers(const char *pattern, const char *topic)
{
    bool matches = false;
    /* What begins with $ belongs to no wildcard. */
    if (topic[0] == '$' && pattern[0] != '$')
        return false;
    mosquitto_topic_matches_sub(pattern, topic, &matches);
    return matches;
}

bool access_list_permits(const struct access_list *list, const char *user, const char *topic)
{
    bool permitted = false;
    for (size_t i = 0; i < list->count; i++) {
        const struct rule *rule = &list->rules[i];
        if (!is_user(rule->user, user) || !covers(rule->topic, topic))
            continue;
        if (rule->deny)
            return false;
        permitted = true;
    }
    return permitted;
}
