/* A plugin of mosquitto's (interface 5) that logs what its access list keeps somebody from saying.
 *
 * It only watches. To each question whether something may be said it answers that others shall decide, so that no
 * mistake in here can let anybody in: the broker's own check, which reads the same file, is asked after it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mosquitto.h>
#include <mosquitto_broker.h>
#include <mosquitto_plugin.h>

#include "access_list.h"

#define EXPORTED __attribute__((visibility("default")))
#define OPTION "access_list"
/* As they are shown: a topic can be 65535 bytes long, and so can a client's id. */
#define TOPIC_CHARS 160
#define NAME_CHARS 80
#define TEXT_BYTES 512
#define ESCAPED_BYTES 4
/* So many different refusals are logged at once; then one more each second. */
#define TALLY_LINES 64
#define KEY_BYTES_MAX 256
/* FNV-1a of 64 bits. */
#define FNV_PRIME 0x100000001b3u

/* A piece of a log line of bounded length, made of what strangers choose. Always ended by a zero byte. */
struct text {
    char bytes[TEXT_BYTES];
    size_t length;
};

static void add(struct text *text, char byte)
{
    if (text->length < TEXT_BYTES - 1)
        text->bytes[text->length++] = byte;
    text->bytes[text->length] = '\0';
}

static void text_add(struct text *text, const char *words)
{
    for (; *words != '\0'; words++)
        add(text, *words);
}

/* In quotes; anything but printable ASCII, and quote and backslash, as \xNN. Longer than `most` it ends in dots. */
static void text_add_quoted(struct text *text, const char *strange, size_t most)
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

/* Which refusals are logged at once and which are counted, so that a flood of them floods no log. */
struct tally {
    uint64_t known[TALLY_LINES]; /* the latest told, by who and what; the oldest gives way */
    unsigned oldest;
    unsigned lines;       /* that may still be told at once */
    long refilled_s;      /* when `lines` was last added to */
    long told_s;          /* when the last count was told, or the last refusal before there was one */
    unsigned long untold; /* counted since */
};

/* Times are seconds of a clock that never goes back. */
static void tally_start(struct tally *tally, long now_s)
{
    *tally = (struct tally){.lines = TALLY_LINES, .refilled_s = now_s, .told_s = now_s};
}

static void refill(struct tally *tally, long now_s)
{
    for (; tally->refilled_s < now_s && tally->lines < TALLY_LINES; tally->refilled_s++)
        tally->lines++;
    tally->refilled_s = now_s;
}

static bool is_known(const struct tally *tally, uint64_t key)
{
    for (unsigned i = 0; i < TALLY_LINES; i++)
        if (tally->known[i] == key)
            return true;
    return false;
}

/* A refusal of `key` (who and what): true, log it now; false, it is counted. */
static bool tally_tell_now(struct tally *tally, uint64_t key, long now_s)
{
    refill(tally, now_s);
    if (tally->lines == 0 || is_known(tally, key)) {
        tally->untold++;
        return false;
    }
    tally->lines--;
    tally->known[tally->oldest] = key;
    tally->oldest = (tally->oldest + 1) % TALLY_LINES;
    if (tally->untold == 0)
        tally->told_s = now_s;
    return true;
}

/* How many were counted, once a second has gone by or it is the `last` chance; they are then taken as logged. */
static unsigned long tally_take(struct tally *tally, long now_s, bool last)
{
    if (now_s == tally->told_s && !last)
        return 0;
    const unsigned long untold = tally->untold;
    tally->untold = 0;
    if (untold != 0)
        tally->told_s = now_s;
    return untold;
}

/* Of a string's first bytes, to be given on as `seed`. */
static uint64_t tally_key(uint64_t seed, const char *string)
{
    uint64_t key = seed;
    /* Its end counts, too: "a" and "bc" are not "ab" and "c". */
    for (size_t i = 0; i < KEY_BYTES_MAX; i++) {
        key = (key ^ (unsigned char)string[i]) * FNV_PRIME;
        if (string[i] == '\0')
            break;
    }
    return key;
}

struct watch {
    mosquitto_plugin_id_t *broker;
    const char *path;
    struct access_list list;
    bool understood; /* false: what mosquitto makes of the list is not known */
    struct tally tally;
    struct text latest; /* of the last refusal */
};

/* Only from 2.1 on; there a reload succeeds with 0, before with "defer" alone, else nobody may come in any more. */
extern int mosquitto_plugin_set_info(mosquitto_plugin_id_t *, const char *, const char *) __attribute__((weak));

static long now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec;
}

static void tell_count(struct watch *watch, bool last)
{
    const unsigned long count = tally_take(&watch->tally, now_s(), last);
    if (count != 0)
        mosquitto_log_printf(MOSQ_LOG_NOTICE, "Refused %lu more PUBLISH, the last %s", count, watch->latest.bytes);
}

static const char *or_nobody(const char *name)
{
    return name == NULL ? "" : name;
}

/* Of a retained message the broker asks again, long after its sender has gone, who then has no address. */
static void describe(struct text *text, const struct mosquitto *client, const char *topic)
{
    const char *address = mosquitto_client_address(client);
    text->length = 0;
    text_add(text, "to ");
    text_add_quoted(text, topic, TOPIC_CHARS);
    text_add(text, " by user ");
    text_add_quoted(text, or_nobody(mosquitto_client_username(client)), NAME_CHARS);
    text_add(text, ", client ");
    text_add_quoted(text, or_nobody(mosquitto_client_id(client)), NAME_CHARS);
    text_add(text, address == NULL ? ", retained from before" : ", ");
    text_add(text, or_nobody(address));
}

static void refused(struct watch *watch, const struct mosquitto *client, const char *topic)
{
    uint64_t key = tally_key(0, or_nobody(mosquitto_client_username(client)));
    key = tally_key(tally_key(key, or_nobody(mosquitto_client_id(client))), topic);
    describe(&watch->latest, client, topic);
    if (tally_tell_now(&watch->tally, key, now_s()))
        mosquitto_log_printf(MOSQ_LOG_NOTICE, "Refused PUBLISH %s", watch->latest.bytes);
    else
        tell_count(watch, false);
}

/* For each message said or heard on the listener. What is kept back from who listens is not told: subscriptions are. */
static int on_acl_check(int event, void *event_data, void *user_data)
{
    struct watch *watch = user_data;
    const struct mosquitto_evt_acl_check *check = event_data;
    (void)event;
    if (check->access == MOSQ_ACL_WRITE && watch->understood &&
        !access_list_permits(&watch->list, mosquitto_client_username(check->client), check->topic))
        refused(watch, check->client, check->topic);
    else if (watch->tally.untold != 0)
        tell_count(watch, false);
    return MOSQ_ERR_PLUGIN_DEFER;
}

/* A flood that ends leaves a count that nothing else may come to tell. */
static int on_disconnect(int event, void *event_data, void *user_data)
{
    struct watch *watch = user_data;
    (void)event, (void)event_data;
    if (watch->tally.untold != 0)
        tell_count(watch, true);
    return MOSQ_ERR_SUCCESS;
}

static enum access_list_state read_list(struct watch *watch)
{
    struct access_list_fault fault;
    access_list_free(&watch->list);
    const enum access_list_state state = access_list_read(watch->path, &watch->list, &fault);
    watch->understood = state != ACCESS_LIST_FOREIGN;
    if (state == ACCESS_LIST_READ)
        mosquitto_log_printf(MOSQ_LOG_NOTICE, "Refusals are logged: what %s does not let a user say.", watch->path);
    else if (fault.line == 0)
        mosquitto_log_printf(MOSQ_LOG_ERR, "Error: access list %s: %s.", watch->path, fault.why);
    else
        mosquitto_log_printf(MOSQ_LOG_ERR, "Error: access list %s, line %u: %s.", watch->path, fault.line, fault.why);
    return state;
}

/* A list that mosquitto cannot read either is an empty one: it then refuses everything, as nobody else decides. */
static int on_reload(int event, void *event_data, void *user_data)
{
    struct watch *watch = user_data;
    (void)event, (void)event_data;
    const enum access_list_state state = read_list(watch);
    if (state == ACCESS_LIST_BROKEN)
        mosquitto_log_printf(MOSQ_LOG_ERR, "Everything is refused until it is mended and read again (SIGHUP).");
    else if (state == ACCESS_LIST_FOREIGN)
        mosquitto_log_printf(MOSQ_LOG_ERR, "Refusals are not logged until it is mended and read again (SIGHUP).");
    return mosquitto_plugin_set_info != NULL ? MOSQ_ERR_SUCCESS : MOSQ_ERR_PLUGIN_DEFER;
}

static int register_all(struct watch *watch)
{
    int error = mosquitto_callback_register(watch->broker, MOSQ_EVT_ACL_CHECK, on_acl_check, NULL, watch);
    if (error == MOSQ_ERR_SUCCESS)
        error = mosquitto_callback_register(watch->broker, MOSQ_EVT_DISCONNECT, on_disconnect, NULL, watch);
    if (error == MOSQ_ERR_SUCCESS)
        error = mosquitto_callback_register(watch->broker, MOSQ_EVT_RELOAD, on_reload, NULL, watch);
    if (error != MOSQ_ERR_SUCCESS)
        mosquitto_log_printf(MOSQ_LOG_ERR, "Error: the broker does not let the refusals be watched (%d).", error);
    return error;
}

EXPORTED int mosquitto_plugin_version(int count, const int *versions)
{
    for (int i = 0; i < count; i++)
        if (versions[i] == MOSQ_PLUGIN_VERSION)
            return MOSQ_PLUGIN_VERSION;
    return -1;
}

EXPORTED int mosquitto_plugin_init(mosquitto_plugin_id_t *identifier, void **user_data, struct mosquitto_opt *options,
                                   int option_count)
{
    if (option_count != 1 || strcmp(options[0].key, OPTION) != 0) {
        mosquitto_log_printf(MOSQ_LOG_ERR, "Error: refusals.so takes one option: plugin_opt_" OPTION " FILE.");
        return MOSQ_ERR_INVAL;
    }
    struct watch *watch = calloc(1, sizeof(struct watch));
    if (watch == NULL)
        return MOSQ_ERR_NOMEM;
    *user_data = watch;
    watch->broker = identifier;
    watch->path = options[0].value;
    tally_start(&watch->tally, now_s());
    return read_list(watch) == ACCESS_LIST_READ ? register_all(watch) : MOSQ_ERR_INVAL;
}

EXPORTED int mosquitto_plugin_cleanup(void *user_data, struct mosquitto_opt *options, int option_count)
{
    struct watch *watch = user_data;
    (void)options, (void)option_count;
    if (watch == NULL)
        return MOSQ_ERR_SUCCESS;
    tell_count(watch, true);
    mosquitto_callback_unregister(watch->broker, MOSQ_EVT_ACL_CHECK, on_acl_check, NULL);
    mosquitto_callback_unregister(watch->broker, MOSQ_EVT_DISCONNECT, on_disconnect, NULL);
    mosquitto_callback_unregister(watch->broker, MOSQ_EVT_RELOAD, on_reload, NULL);
    access_list_free(&watch->list);
    free(watch);
    return MOSQ_ERR_SUCCESS;
}
