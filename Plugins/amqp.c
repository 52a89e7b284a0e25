/*
 * A plugin of upstream-worker that publishes messages to RabbitMQ (AMQP 0-9-1). docs/engines.md tells how it is used.
 *
 * Messages are persistent and mandatory. A message is done once the publisher confirm has come; one that reached no queue comes
 * back before its confirm and is rejected. When the server closes the channel, which doesn't tell over which message, each
 * message without a confirm is sent alone. Without a connection, or without confirms until the timeout, the call fails, and the
 * messages come again without counting an attempt.
 */
#include "engine.h"

#include <amqp.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

enum { SERVERS = ENGINE_SETTINGS, VHOST, EXCHANGE, ROUTING_KEY, SETTINGS };
static struct engine_setting settings[SETTINGS] = {
    ENGINE_SETTINGS_LIST,
    [SERVERS] = {"servers", NULL, NULL},
    [VHOST] = {"vhost", "/", NULL},
    [EXCHANGE] = {"exchange", "", NULL}, /* the default exchange: the routing key names a queue */
    [ROUTING_KEY] = {"routing_key", NULL, NULL},
};
#define KEY_LIMIT 255
#define CHANNEL 1
/* Answers are read after so many bytes: a server that can't get rid of its answers stops reading. */
#define UNREAD_LIMIT 65536

static size_t next_server;
static int64_t next_connect;
static amqp_connection_state_t connection;
/* The connection or the channel can't be used any more. */
static bool is_broken, is_channel_closed;
/* The code and text with which the server closed the channel. */
static int close_code;
static char close_text[256];
/* The delivery tag of the last message on the channel. */
static uint64_t published;

/* The current call. */
static struct {
    const upstream_message *const *messages;
    upstream_outcome *const *outcomes;
    uint64_t *tags; /* of messages without an answer, else 0 */
    bool *returned;
    size_t count, pending;
    int64_t deadline;
} call;

/* The library sends without a time limit, so a timer shuts the connection down. -1: there is none to watch. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int watched = -1;
static timer_t timer;

UPSTREAM_PLUGIN_EXPORT uint32_t upstream_plugin_abi(void)
{
    return UPSTREAM_PLUGIN_ABI;
}

static void shut_down(union sigval unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    if (watched >= 0) shutdown(watched, SHUT_RDWR);
    pthread_mutex_unlock(&lock);
}

static void watch(int socket, int64_t milliseconds)
{
    const struct itimerspec time = {.it_value = {milliseconds / 1000, milliseconds % 1000 * 1000000}};
    pthread_mutex_lock(&lock);
    watched = socket;
    pthread_mutex_unlock(&lock);
    timer_settime(timer, 0, &time, NULL);
}

/* Reads the address `index` modulo their number into host, and returns its port, or 0 if it is none. */
static int server_at(size_t index, char host[ENGINE_NAME_SIZE])
{
    size_t count = 1, position = 0;
    char *port;
    const char *list = settings[SERVERS].value;
    for (const char *each = list; *each != 0; each++) count += *each == ',';
    for (index %= count; position < index; list++) position += *list == ',';
    snprintf(host, ENGINE_NAME_SIZE, "%.*s", (int)strcspn(list, ","), list);
    memmove(host, engine_trim(host), strlen(engine_trim(host)) + 1);
    port = strrchr(host, ':');
    if (port == NULL || port == host || strchr(host, '@') != NULL || strchr(host, '/') != NULL) return 0;
    *port = 0;
    return atoi(port + 1);
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_open(const char *configuration, char *error, size_t error_size)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = shut_down};
    char host[ENGINE_NAME_SIZE];
    bool is_valid = engine_open(settings, SETTINGS, ROUTING_KEY, configuration, error, error_size);
    if (is_valid && settings[USER].value[0] == 0) is_valid = engine_fail(error, error_size, "user and password_file are missing");
    for (size_t i = 0; is_valid && i < 16; i++) {
        const int port = server_at(i, host);
        if (port < 1 || port > 65535) is_valid = engine_fail(error, error_size, "servers must be host:port, separated by commas");
    }
    if (is_valid && timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) is_valid = engine_fail(error, error_size, "no timer");
    return is_valid ? 0 : 1;
}

static struct timeval left_until(int64_t deadline)
{
    const int64_t left = deadline - engine_now();
    if (left <= 0) return (struct timeval){0, 0};
    return (struct timeval){left / 1000, left % 1000 * 1000};
}

static void disconnect(void)
{
    watch(-1, 0);
    if (connection != NULL) amqp_destroy_connection(connection);
    connection = NULL;
}

static void note_close(const amqp_method_t *method)
{
    /* Of the same form as amqp_connection_close_t. */
    const amqp_channel_close_t *close = method->decoded;
    if (method->id != AMQP_CHANNEL_CLOSE_METHOD && method->id != AMQP_CONNECTION_CLOSE_METHOD) return;
    close_code = close->reply_code;
    snprintf(close_text, sizeof close_text, "%.*s", (int)close->reply_text.len, (const char *)close->reply_text.bytes);
    is_channel_closed = true;
    if (method->id == AMQP_CHANNEL_CLOSE_METHOD) return;
    is_broken = true;
    engine_report(close_text, "the server closed the connection: %s", close_text);
}

/* These tell what went wrong, and return false. */
static bool report(const char *what, const char *text)
{
    engine_report(text, "%s: %s", what, text);
    return false;
}

static bool report_reply(const char *what, amqp_rpc_reply_t reply)
{
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) return report(what, amqp_error_string2(reply.library_error));
    note_close(&reply.reply);
    return report(what, close_text);
}

static bool open_channel(void)
{
    is_channel_closed = false;
    close_code = 0;
    published = 0;
    if (amqp_channel_open(connection, CHANNEL) == NULL || amqp_confirm_select(connection, CHANNEL) == NULL) {
        return report_reply("cannot open a channel", amqp_get_rpc_reply(connection));
    }
    return true;
}

static amqp_socket_t *make_socket(void)
{
    amqp_socket_t *socket = has_tls ? amqp_ssl_socket_new(connection) : amqp_tcp_socket_new(connection);
    if (!has_tls || socket == NULL) return socket;
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    int status = amqp_ssl_socket_set_cacert(socket, settings[CA_FILE].value);
    if (status == AMQP_STATUS_OK && settings[CERTIFICATE_FILE].value[0] != 0) {
        status = amqp_ssl_socket_set_key(socket, settings[CERTIFICATE_FILE].value, settings[KEY_FILE].value);
    }
    return status == AMQP_STATUS_OK ? socket : NULL;
}

static bool log_in(const char *host, int port)
{
    char secret[ENGINE_SECRET_SIZE], error[512];
    struct timeval limit = left_until(engine_now() + (timeout / 2 < 5000 ? timeout / 2 : 5000));
    amqp_socket_t *socket = make_socket();
    if (socket == NULL) return report("cannot connect", "ca_file, certificate_file or key_file is no such file");
    amqp_set_handshake_timeout(connection, &limit);
    amqp_set_rpc_timeout(connection, &limit);
    const int status = amqp_socket_open_noblock(socket, host, port, &limit);
    if (status != AMQP_STATUS_OK) {
        snprintf(error, sizeof error, "cannot connect to %s:%d", host, port);
        return report(error, amqp_error_string2(status));
    }
    if (!engine_read_secret(&settings[PASSWORD_FILE], secret, error, sizeof error)) return report("cannot log in", error);
    /* No heartbeats: between calls nobody would send them. */
    const amqp_rpc_reply_t reply = amqp_login(
        connection, settings[VHOST].value, CHANNEL, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN,
        settings[USER].value, secret);
    explicit_bzero(secret, sizeof secret);
    return reply.reply_type == AMQP_RESPONSE_NORMAL ? open_channel() : report_reply("cannot log in", reply);
}

static bool connect_now(void)
{
    char host[ENGINE_NAME_SIZE];
    disconnect();
    /* No more than one attempt a second. */
    engine_sleep(next_connect - engine_now());
    next_connect = engine_now() + 1000;
    is_broken = false;
    connection = amqp_new_connection();
    const int port = server_at(next_server, host);
    if (connection != NULL && log_in(host, port)) return true;
    next_server++;
    disconnect();
    return false;
}

/* A message that no queue took; its confirm follows. */
static void take_return(void)
{
    amqp_message_t message;
    if (amqp_read_message(connection, CHANNEL, &message, 0).reply_type != AMQP_RESPONSE_NORMAL) {
        is_broken = true;
        return;
    }
    const amqp_bytes_t id = message.properties.message_id;
    for (size_t i = 0; i < call.count; i++) {
        const upstream_text key = call.messages[i]->message_key;
        if (key.length == id.len && memcmp(key.bytes, id.bytes, id.len) == 0) call.returned[i] = true;
    }
    amqp_destroy_message(&message);
}

static void take_confirm(uint64_t tag, bool is_multiple, bool is_taken)
{
    for (size_t i = 0; i < call.count; i++) {
        if (call.tags[i] == 0 || (is_multiple ? call.tags[i] > tag : call.tags[i] != tag)) continue;
        call.tags[i] = 0;
        call.pending--;
        if (!is_taken) upstream_retry(call.outcomes[i], 0, "the queue refuses it (nack)");
        else if (call.returned[i]) upstream_reject(call.outcomes[i], "no queue is bound for its routing key");
        else upstream_done(call.outcomes[i]);
    }
}

/* Reads one answer if there is one before the deadline; returns whether there may be more. */
static bool read_answer(int64_t deadline)
{
    amqp_frame_t frame;
    const struct timeval limit = left_until(deadline);
    const int status = amqp_simple_wait_frame_noblock(connection, &frame, &limit);
    if (status == AMQP_STATUS_TIMEOUT) return false;
    if (status != AMQP_STATUS_OK) {
        is_broken = true;
        return report("the connection has ended", amqp_error_string2(status));
    }
    if (frame.frame_type == AMQP_FRAME_METHOD) {
        const amqp_basic_ack_t *ack = frame.payload.method.decoded;
        const amqp_basic_nack_t *nack = frame.payload.method.decoded;
        switch (frame.payload.method.id) {
        case AMQP_BASIC_ACK_METHOD: take_confirm(ack->delivery_tag, ack->multiple, true); break;
        case AMQP_BASIC_NACK_METHOD: take_confirm(nack->delivery_tag, nack->multiple, false); break;
        case AMQP_BASIC_RETURN_METHOD: take_return(); break;
        default: note_close(&frame.payload.method);
        }
    }
    amqp_maybe_release_buffers(connection);
    return !is_broken && !is_channel_closed;
}

static void publish(size_t index, const char *key)
{
    const upstream_message *message = call.messages[index];
    struct engine_headers headers;
    amqp_table_entry_t entries[ENGINE_HEADERS];
    amqp_basic_properties_t properties;
    engine_fill_headers(&headers, message);
    for (size_t i = 0; i < headers.count; i++) {
        const upstream_text value = headers.items[i].value;
        entries[i].key = amqp_cstring_bytes(headers.items[i].name);
        entries[i].value.kind = AMQP_FIELD_KIND_UTF8;
        entries[i].value.value.bytes = (amqp_bytes_t){value.length, (void *)value.bytes};
    }
    memset(&properties, 0, sizeof properties);
    properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
        AMQP_BASIC_HEADERS_FLAG;
    properties.content_type = amqp_cstring_bytes("application/json");
    properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
    properties.message_id = (amqp_bytes_t){message->message_key.length, (void *)message->message_key.bytes};
    properties.headers = (amqp_table_t){(int)headers.count, entries};
    const int status = amqp_basic_publish(
        connection, CHANNEL, amqp_cstring_bytes(settings[EXCHANGE].value), amqp_cstring_bytes(key), 1, 0, &properties,
        (amqp_bytes_t){message->data.length, (void *)message->data.bytes});
    if (status == AMQP_STATUS_OK) {
        call.tags[index] = ++published;
        call.returned[index] = false;
        call.pending++;
    } else {
        is_broken = true;
        report("cannot publish", amqp_error_string2(status));
    }
}

/* The channel was closed over this message alone. Returns false if that is not the message's fault. */
static bool blame_message(upstream_outcome *outcome)
{
    if (close_code == AMQP_CONTENT_TOO_LARGE || close_code == AMQP_PRECONDITION_FAILED) {
        upstream_reject(outcome, close_text);
        return true;
    }
    if (engine_has_category(&settings[ROUTING_KEY]) && close_code == AMQP_ACCESS_REFUSED) {
        upstream_retry(outcome, 0, close_text);
        return true;
    }
    return report("the server closed the channel", close_text);
}

/* Sends the messages from `first` to before `end` that have no outcome, and waits for their confirms. */
static void send_range(size_t first, size_t end)
{
    size_t unread = 0;
    for (size_t i = first; i < end && !is_broken && !is_channel_closed; i++) {
        char key[ENGINE_NAME_SIZE], reason[128];
        if (call.outcomes[i]->kind != UPSTREAM_UNSET) continue;
        if (!engine_fill(&settings[ROUTING_KEY], call.messages[i], KEY_LIMIT, key, reason, sizeof reason)) {
            upstream_reject(call.outcomes[i], reason);
            continue;
        }
        publish(i, key);
        unread += call.messages[i]->data.length + 1024;
        if (unread < UNREAD_LIMIT) continue;
        unread = 0;
        while (!is_broken && read_answer(0)) {}
    }
    while (call.pending > 0 && !is_broken && !is_channel_closed && read_answer(call.deadline)) {}
    memset(call.tags, 0, call.count * sizeof *call.tags);
    if (call.pending > 0 && !is_broken && !is_channel_closed) {
        engine_report("timeout", "no publisher confirm within %d s", (int)(timeout / 1000));
        is_broken = true;
    }
    call.pending = 0;
}

/* Acknowledges the server's closing and opens the channel again. */
static bool renew_channel(void)
{
    amqp_channel_close_ok_t ok = {0};
    if (amqp_send_method(connection, CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok) != AMQP_STATUS_OK || !open_channel()) {
        is_broken = true;
        return false;
    }
    return true;
}

/* Sends all; returns whether every message has an outcome. */
static bool send_all(void)
{
    send_range(0, call.count);
    const bool was_closed = is_channel_closed;
    for (size_t i = 0; was_closed && i < call.count && !is_broken; i++) {
        if (call.outcomes[i]->kind != UPSTREAM_UNSET) continue;
        if (call.count > 1) {
            if (is_channel_closed && !renew_channel()) break;
            send_range(i, i + 1);
        }
        if (is_channel_closed && !blame_message(call.outcomes[i])) break;
    }
    for (size_t i = 0; i < call.count; i++) {
        if (call.outcomes[i]->kind == UPSTREAM_UNSET) return false;
    }
    return true;
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_handle(
    const upstream_message *const *messages, size_t count, upstream_outcome *const *outcomes)
{
    /* The server may have ended the idle connection. */
    while (connection != NULL && read_answer(0)) {}
    if ((connection == NULL || is_broken || is_channel_closed) && !connect_now()) return 1;
    call.messages = messages;
    call.outcomes = outcomes;
    call.count = count;
    call.tags = calloc(count, sizeof *call.tags);
    call.returned = calloc(count, sizeof *call.returned);
    call.deadline = engine_now() + timeout;
    watch(amqp_get_sockfd(connection), timeout + 1000);
    const bool is_settled = call.tags != NULL && call.returned != NULL && send_all();
    watch(-1, 0);
    free(call.tags);
    free(call.returned);
    call.tags = NULL;
    call.returned = NULL;
    call.count = 0;
    if (is_broken || is_channel_closed) disconnect();
    if (is_settled) engine_recovered();
    return is_settled ? 0 : 1;
}

/* Waits for no answer of the server: all messages have theirs. */
UPSTREAM_PLUGIN_EXPORT void upstream_plugin_close(void)
{
    disconnect();
}
