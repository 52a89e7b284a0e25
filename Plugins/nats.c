/*
 * A plugin of upstream-worker that publishes messages to NATS JetStream. docs/engines.md tells how it is used.
 *
 * A message is done once the stream's publish ack has come. The acks come to an inbox of this process; the last words of their
 * subject are the number of the call and of the message. Without a connection, or without acks until the timeout, the call
 * fails, and the messages come again without counting an attempt. One connection is made on demand; none reconnects by itself.
 */
#include "engine.h"

#include <nats/nats.h>
#include <pthread.h>

enum { SERVERS = ENGINE_SETTINGS, SUBJECT, CREDENTIALS_FILE, SETTINGS };
static struct engine_setting settings[SETTINGS] = {
    ENGINE_SETTINGS_LIST,
    [SERVERS] = {"servers", NULL, NULL},
    [SUBJECT] = {"subject", NULL, NULL},
    [CREDENTIALS_FILE] = {"credentials_file", "", NULL},
};
#define SERVER_LIMIT 16
/* The library cuts errors off at 255 bytes, and the subject that one quotes must be whole. */
#define SUBJECT_LIMIT 200

static char servers[SERVER_LIMIT][ENGINE_NAME_SIZE];
static int server_count;

static natsConnection *connection;
static natsSubscription *acks;
static char *inbox;
static int64_t next_connect;

struct entry {
    bool is_pending;
    char subject[ENGINE_NAME_SIZE];
};

/* The current call; the library's threads work on it, too, under the lock. Acks of earlier calls carry another number. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned long number;
    struct entry *entries;
    upstream_outcome *const *outcomes;
    size_t count, pending;
    bool works;
    int64_t deadline;
} call = {.lock = PTHREAD_MUTEX_INITIALIZER};

UPSTREAM_PLUGIN_EXPORT uint32_t upstream_plugin_abi(void)
{
    return UPSTREAM_PLUGIN_ABI;
}

/* Splits `servers` into URLs. */
static bool read_servers(char *error, size_t error_size)
{
    char *list = settings[SERVERS].value, *rest;
    server_count = 0;
    if (strchr(list, '@') != NULL || strstr(list, "://") != NULL) {
        return engine_fail(error, error_size, "servers must be host:port, separated by commas; see user and password_file");
    }
    for (char *each = strtok_r(list, ", ", &rest); each != NULL; each = strtok_r(NULL, ", ", &rest)) {
        if (server_count == SERVER_LIMIT || strlen(each) > ENGINE_NAME_SIZE - 16) {
            return engine_fail(error, error_size, "servers has too many or too long addresses");
        }
        snprintf(servers[server_count++], ENGINE_NAME_SIZE, "%s://%s", has_tls ? "tls" : "nats", each);
    }
    return server_count > 0 || engine_fail(error, error_size, "servers has no address");
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_open(const char *configuration, char *error, size_t error_size)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&call.changed, &attributes);
    return engine_open(settings, SETTINGS, SUBJECT, configuration, error, error_size) && read_servers(error, error_size) &&
            engine_check_file(&settings[CREDENTIALS_FILE], error, error_size)
        ? 0
        : 1;
}

static void take_answer(natsConnection *, natsSubscription *, natsMsg *, void *);
static void take_error(natsConnection *, natsSubscription *, natsStatus, void *);

static void disconnect(void)
{
    natsSubscription_Destroy(acks);
    natsConnection_Destroy(connection);
    natsInbox_Destroy(inbox);
    acks = NULL;
    connection = NULL;
    inbox = NULL;
}

static natsStatus set_credentials(natsOptions *options)
{
    char secret[ENGINE_SECRET_SIZE], error[512];
    natsStatus status = NATS_OK;
    if (settings[USER].value[0] != 0) {
        if (!engine_read_secret(&settings[PASSWORD_FILE], secret, error, sizeof error)) {
            engine_report("password", "%s", error);
            return NATS_ERR;
        }
        status = natsOptions_SetUserInfo(options, settings[USER].value, secret);
        explicit_bzero(secret, sizeof secret);
    }
    if (status == NATS_OK && settings[CREDENTIALS_FILE].value[0] != 0) {
        status = natsOptions_SetUserCredentialsFromFiles(options, settings[CREDENTIALS_FILE].value, NULL);
    }
    return status;
}

static natsStatus set_options(natsOptions *options)
{
    const char *urls[SERVER_LIMIT];
    for (int i = 0; i < server_count; i++) urls[i] = servers[i];
    natsStatus status = natsOptions_SetServers(options, urls, server_count);
    if (status == NATS_OK) status = natsOptions_SetName(options, "upstream-worker");
    if (status == NATS_OK) status = natsOptions_SetTimeout(options, timeout / 2 < 5000 ? timeout / 2 : 5000);
    if (status == NATS_OK) status = natsOptions_SetWriteDeadline(options, timeout);
    if (status == NATS_OK) status = natsOptions_SetAllowReconnect(options, false);
    if (status == NATS_OK) status = natsOptions_SetErrorHandler(options, take_error, NULL);
    if (status == NATS_OK && has_tls) {
        status = natsOptions_SetSecure(options, true);
        if (status == NATS_OK) status = natsOptions_LoadCATrustedCertificates(options, settings[CA_FILE].value);
        if (status == NATS_OK && settings[CERTIFICATE_FILE].value[0] != 0) {
            status = natsOptions_LoadCertificatesChain(options, settings[CERTIFICATE_FILE].value, settings[KEY_FILE].value);
        }
    }
    return status == NATS_OK ? set_credentials(options) : status;
}

static bool connect_now(void)
{
    natsOptions *options = NULL;
    char pattern[ENGINE_NAME_SIZE];
    if (connection != NULL && natsConnection_Status(connection) == NATS_CONN_STATUS_CONNECTED) return true;
    disconnect();
    /* No more than one attempt a second. */
    engine_sleep(next_connect - engine_now());
    next_connect = engine_now() + 1000;
    natsStatus status = natsOptions_Create(&options);
    if (status == NATS_OK) status = set_options(options);
    if (status == NATS_OK) status = natsConnection_Connect(&connection, options);
    natsOptions_Destroy(options);
    if (status == NATS_OK) status = natsInbox_Create(&inbox);
    if (status == NATS_OK) {
        snprintf(pattern, sizeof pattern, "%s.*.*", inbox);
        status = natsConnection_Subscribe(&acks, connection, pattern, take_answer, NULL);
    }
    if (status == NATS_OK) status = natsSubscription_SetPendingLimits(acks, -1, -1);
    if (status == NATS_OK) return true;
    engine_report(natsStatus_GetText(status), "cannot connect to %s: %s", servers[0], natsStatus_GetText(status));
    disconnect();
    return false;
}

static natsStatus publish(struct entry *entry, const upstream_message *message, size_t index)
{
    struct engine_headers headers;
    natsMsg *copy = NULL;
    char reply[ENGINE_NAME_SIZE];
    snprintf(reply, sizeof reply, "%s.%lu.%zu", inbox, call.number, index);
    natsStatus status = natsMsg_Create(&copy, entry->subject, reply, message->data.bytes, (int)message->data.length);
    if (status == NATS_OK) status = natsMsgHeader_Set(copy, "Nats-Msg-Id", message->message_key.bytes);
    engine_fill_headers(&headers, message);
    for (size_t i = 0; status == NATS_OK && i < headers.count; i++) {
        status = natsMsgHeader_Set(copy, headers.items[i].name, headers.items[i].value.bytes);
    }
    if (status == NATS_OK) status = natsConnection_PublishMsg(connection, copy);
    natsMsg_Destroy(copy);
    return status;
}

/* A subject that is the same for all messages is the configuration's fault, one that devices choose is the message's. */
static bool blame_subject(upstream_outcome *outcome, const char *kind, const char *subject, const char *reason)
{
    char text[ENGINE_NAME_SIZE + 128];
    snprintf(text, sizeof text, "subject %s: %s", subject, reason);
    if (engine_has_category(&settings[SUBJECT])) {
        upstream_retry(outcome, 0, text);
        return true;
    }
    engine_report(kind, "%s", text);
    return false;
}

/* Copies a member of the ack's error; JSON escapes quotes, so names can't imitate a member. */
static void copy_description(const char *json, char *text, size_t size)
{
    const char *start = strstr(json, "\"description\":\"");
    text[0] = 0;
    if (start != NULL) snprintf(text, size, "%.*s", (int)strcspn(start + 15, "\""), start + 15);
}

static long error_number(const char *json, const char *name)
{
    const char *start = strstr(json, name);
    return start == NULL ? 0 : strtol(start + strlen(name), NULL, 10);
}

/* A full stream, or an account or server at its limits or in trouble; a full subject is the message's. */
static bool is_refused_for_now(const char *json, const char *text)
{
    const long code = error_number(json, "\"code\":");
    if (strstr(text, "per subject") != NULL) return false;
    /* 10002: resource limits exceeded for account */
    return code == 429 || code >= 500 || error_number(json, "\"err_code\":") == 10002;
}

/* Settles a message by the answer to it; returns false if the stream can't work now. */
static bool settle(natsMsg *answer, const struct entry *entry, upstream_outcome *outcome)
{
    char json[1024], text[256];
    /* A stream without leader looks the same. */
    if (natsMsg_IsNoResponders(answer)) {
        return blame_subject(outcome, "stream", entry->subject, "no JetStream stream takes it");
    }
    snprintf(json, sizeof json, "%.*s", natsMsg_GetDataLength(answer), natsMsg_GetData(answer));
    if (strstr(json, "\"error\":{") == NULL) {
        if (strstr(json, "\"stream\":") != NULL && strstr(json, "\"seq\":") != NULL) {
            upstream_done(outcome);
            return true;
        }
        return blame_subject(outcome, "answer", entry->subject, "something other than a JetStream stream answers");
    }
    copy_description(json, text, sizeof text);
    /* message size exceeds maximum allowed */
    if (error_number(json, "\"err_code\":") == 10054) upstream_reject(outcome, text);
    else if (is_refused_for_now(json, text)) {
        engine_report(text, "the stream refuses messages: %s", text);
        return false;
    }
    else upstream_retry(outcome, 0, text);
    return true;
}

static void settle_entry(size_t index, bool is_settled)
{
    call.entries[index].is_pending = false;
    call.pending--;
    call.works &= is_settled;
    if (call.pending == 0) pthread_cond_signal(&call.changed);
}

static void take_answer(natsConnection *from, natsSubscription *subscription, natsMsg *answer, void *closure)
{
    const char *const subject = natsMsg_GetSubject(answer), *numbers = strrchr(subject, '.');
    unsigned long number = 0;
    size_t index = 0;
    (void)from;
    (void)subscription;
    (void)closure;
    while (numbers != NULL && numbers > subject && numbers[-1] != '.') numbers--;
    pthread_mutex_lock(&call.lock);
    if (numbers != NULL && sscanf(numbers, "%lu.%zu", &number, &index) == 2 && number == call.number && index < call.count &&
        call.entries[index].is_pending) {
        settle_entry(index, settle(answer, &call.entries[index], call.outcomes[index]));
    }
    pthread_mutex_unlock(&call.lock);
    natsMsg_Destroy(answer);
}

/* The server answers a forbidden message with an error that quotes the subject, and no more. */
static void take_error(natsConnection *from, natsSubscription *subscription, natsStatus status, void *closure)
{
    const char *text = NULL;
    char quoted[ENGINE_NAME_SIZE + 2];
    (void)subscription;
    (void)closure;
    if (status != NATS_NOT_PERMITTED || natsConnection_GetLastError(from, &text) == NATS_OK || text == NULL) return;
    pthread_mutex_lock(&call.lock);
    for (size_t i = 0; i < call.count; i++) {
        if (!call.entries[i].is_pending) continue;
        snprintf(quoted, sizeof quoted, "\"%.*s\"", SUBJECT_LIMIT, call.entries[i].subject);
        if (strstr(text, quoted) == NULL) continue;
        settle_entry(i, blame_subject(call.outcomes[i], "permission", call.entries[i].subject, "the server permits no publishing"));
    }
    if (strstr(text, "Subscription") != NULL) engine_report("inbox", "%s", text);
    /* The library keeps only the last of several errors, so some messages would wait in vain. */
    if (call.deadline > engine_now() + 1000) call.deadline = engine_now() + 1000;
    pthread_mutex_unlock(&call.lock);
}

/* Whether the call's time is up, which makes it fail. The library has a new time limit for each message. */
static bool is_time_up(void)
{
    pthread_mutex_lock(&call.lock);
    const bool is_up = engine_now() >= call.deadline;
    if (is_up) {
        engine_report("timeout", "the server takes messages too slowly");
        call.works = false;
    }
    pthread_mutex_unlock(&call.lock);
    return is_up;
}

/* Publishes all messages while acks come in. */
static void publish_all(const upstream_message *const *messages, size_t count)
{
    natsStatus status = NATS_OK;
    for (size_t i = 0; status == NATS_OK && i < count && !is_time_up(); i++) {
        struct entry *entry = &call.entries[i];
        char reason[128];
        if (!engine_fill(&settings[SUBJECT], messages[i], SUBJECT_LIMIT, entry->subject, reason, sizeof reason)) {
            upstream_reject(call.outcomes[i], reason);
            continue;
        }
        pthread_mutex_lock(&call.lock);
        entry->is_pending = true;
        call.pending++;
        pthread_mutex_unlock(&call.lock);
        status = publish(entry, messages[i], i);
        if (status == NATS_OK) continue;
        pthread_mutex_lock(&call.lock);
        if (entry->is_pending) settle_entry(i, status == NATS_MAX_PAYLOAD);
        if (status == NATS_MAX_PAYLOAD) upstream_reject(call.outcomes[i], "larger than the server's max_payload");
        else engine_report(natsStatus_GetText(status), "cannot publish: %s", natsStatus_GetText(status));
        pthread_mutex_unlock(&call.lock);
        if (status == NATS_MAX_PAYLOAD) status = NATS_OK;
    }
}

/* Waits until all have an answer, the connection ends or time is up. */
static void wait_for_answers(void)
{
    pthread_mutex_lock(&call.lock);
    while (call.pending > 0) {
        const int64_t now = engine_now(), until = now + 100 < call.deadline ? now + 100 : call.deadline;
        const struct timespec time = {until / 1000, until % 1000 * 1000000};
        if (now >= call.deadline) {
            engine_report("timeout", "no publish ack in time");
            break;
        }
        pthread_cond_timedwait(&call.changed, &call.lock, &time);
        if (call.pending > 0 && natsConnection_Status(connection) != NATS_CONN_STATUS_CONNECTED) {
            engine_report("connection", "the connection has ended");
            break;
        }
    }
    call.works &= call.pending == 0;
    pthread_mutex_unlock(&call.lock);
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_handle(
    const upstream_message *const *messages, size_t count, upstream_outcome *const *outcomes)
{
    if (!connect_now()) return 1;
    struct entry *const entries = calloc(count, sizeof *entries);
    if (entries == NULL) return 1;
    pthread_mutex_lock(&call.lock);
    call.number++;
    call.entries = entries;
    call.outcomes = outcomes;
    call.count = count;
    call.pending = 0;
    call.works = true;
    call.deadline = engine_now() + timeout;
    pthread_mutex_unlock(&call.lock);
    publish_all(messages, count);
    wait_for_answers();
    pthread_mutex_lock(&call.lock);
    const bool works = call.works, is_silent = call.pending == count;
    call.count = 0;
    call.entries = NULL;
    pthread_mutex_unlock(&call.lock);
    free(entries);
    /* Perhaps only the connection is dead. */
    if (is_silent) disconnect();
    if (works) engine_recovered();
    return works ? 0 : 1;
}

UPSTREAM_PLUGIN_EXPORT void upstream_plugin_close(void)
{
    disconnect();
}
