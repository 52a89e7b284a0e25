/*
 * A plugin of upstream-worker that produces messages to Apache Kafka. docs/engines.md tells how it is used.
 *
 * A message is done once its delivery report says that all in-sync replicas have it. The producer is idempotent: its own retries
 * neither lose, repeat nor reorder. A message that couldn't be delivered before the timeout comes again without counting an
 * attempt, and then may be there twice, with the same message_key.
 */
#include "engine.h"

#include <librdkafka/rdkafka.h>

enum { BROKERS = ENGINE_SETTINGS, TOPIC, MECHANISM, COMPRESSION, LARGEST, SETTINGS };
static struct engine_setting settings[SETTINGS] = {
    ENGINE_SETTINGS_LIST,
    [BROKERS] = {"brokers", NULL, NULL},
    [TOPIC] = {"topic", NULL, NULL},
    [MECHANISM] = {"mechanism", "SCRAM-SHA-512", NULL},
    [COMPRESSION] = {"compression", "none", NULL},
    [LARGEST] = {"message_max_bytes", "1000000", NULL},
};
/* Kafka's limit for the name of a topic. */
#define TOPIC_LIMIT 249

static rd_kafka_t *producer;
static int64_t next_start;
/* The producer can't go on: a fatal error, or credentials that may have changed. */
static bool is_broken;
/* The last trouble with a connection; worth a line only when messages fail. */
static char trouble[256];

/* The current call. Reports of earlier calls carry another number and are ignored. */
static struct {
    uintptr_t number;
    const upstream_message *const *messages;
    upstream_outcome *const *outcomes;
    char *states; /* one of the states below for each message */
    size_t count, pending;
    bool is_alone; /* one message at a time, after a refused batch */
    bool works;
} call;
enum { SETTLED, PENDING, SUSPECT, LATE };

UPSTREAM_PLUGIN_EXPORT uint32_t upstream_plugin_abi(void)
{
    return UPSTREAM_PLUGIN_ABI;
}

static void refuse_topic(size_t index, const char *topic, const char *reason)
{
    char text[ENGINE_NAME_SIZE + 256];
    snprintf(text, sizeof text, "topic %s: %s", topic, reason);
    /* A topic that devices choose is the message's fault, one that is the same for all the configuration's. */
    if (engine_has_category(&settings[TOPIC])) {
        upstream_retry(call.outcomes[index], 0, text);
    } else {
        engine_report(reason, "%s", text);
        call.works = false;
    }
}

/* Settles a message by its delivery's result. */
static void settle(size_t index, rd_kafka_resp_err_t result, const char *topic)
{
    call.states[index] = SETTLED;
    switch (result) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        upstream_done(call.outcomes[index]);
        break;
    /* Brokers refuse a whole batch for its size, or for one record: each is then sent alone. */
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        if (call.is_alone) upstream_reject(call.outcomes[index], rd_kafka_err2str(result));
        else call.states[index] = SUSPECT;
        break;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        refuse_topic(index, topic, rd_kafka_err2str(result));
        break;
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
        call.states[index] = LATE;
        break;
    /* Raised between two calls, so that no error was taken yet. */
    case RD_KAFKA_RESP_ERR__FATAL:
        is_broken = true;
        rd_kafka_fatal_error(producer, trouble, sizeof trouble);
        call.works = false;
        break;
    default:
        engine_report(rd_kafka_err2name(result), "no delivery to Kafka: %s %s", rd_kafka_err2str(result), trouble);
        call.works = false;
    }
}

static void take_report(rd_kafka_t *from, const rd_kafka_message_t *report, void *opaque)
{
    const uintptr_t number = (uintptr_t)report->_private >> 16, index = (uintptr_t)report->_private & 0xffff;
    (void)from;
    (void)opaque;
    if (number != call.number || index >= call.count || call.states[index] != PENDING) return;
    call.pending--;
    settle(index, report->err, report->rkt == NULL ? "" : rd_kafka_topic_name(report->rkt));
}

/* The library goes on trying. */
static void take_error(rd_kafka_t *from, int number, const char *reason, void *opaque)
{
    (void)opaque;
    switch (number) {
    case RD_KAFKA_RESP_ERR__FATAL:
        is_broken = true;
        rd_kafka_fatal_error(from, trouble, sizeof trouble);
        break;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
        is_broken = true;
        snprintf(trouble, sizeof trouble, "%s", reason);
        break;
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
        break;
    default:
        snprintf(trouble, sizeof trouble, "%s", reason);
    }
}

/* Everything worth saying comes as an error or a report. */
static void drop_log(const rd_kafka_t *from, int level, const char *facility, const char *text)
{
    (void)from;
    (void)level;
    (void)facility;
    (void)text;
}

static bool set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error, size_t error_size)
{
    return rd_kafka_conf_set(conf, name, value, error, error_size) == RD_KAFKA_CONF_OK;
}

static bool set_security(rd_kafka_conf_t *conf, char *error, size_t error_size)
{
    const bool has_user = settings[USER].value[0] != 0;
    const char *const protocol = has_tls ? (has_user ? "sasl_ssl" : "ssl") : (has_user ? "sasl_plaintext" : "plaintext");
    bool is_set = set(conf, "security.protocol", protocol, error, error_size);
    if (is_set && has_tls) {
        /* Older versions of the library don't verify the server's name by default. */
        is_set = set(conf, "ssl.ca.location", settings[CA_FILE].value, error, error_size) &&
            set(conf, "ssl.endpoint.identification.algorithm", "https", error, error_size);
    }
    if (is_set && has_tls && settings[CERTIFICATE_FILE].value[0] != 0) {
        is_set = set(conf, "ssl.certificate.location", settings[CERTIFICATE_FILE].value, error, error_size) &&
            set(conf, "ssl.key.location", settings[KEY_FILE].value, error, error_size);
    }
    if (is_set && has_user) {
        char secret[ENGINE_SECRET_SIZE];
        is_set = engine_read_secret(&settings[PASSWORD_FILE], secret, error, error_size) &&
            set(conf, "sasl.password", secret, error, error_size) &&
            set(conf, "sasl.username", settings[USER].value, error, error_size) &&
            set(conf, "sasl.mechanisms", settings[MECHANISM].value, error, error_size);
        explicit_bzero(secret, sizeof secret);
    }
    return is_set;
}

/* Makes the producer; it connects by itself. */
static bool start(char *error, size_t error_size)
{
    char milliseconds[24], half[24];
    snprintf(milliseconds, sizeof milliseconds, "%lld", (long long)timeout);
    snprintf(half, sizeof half, "%lld", (long long)(timeout / 2));
    const char *const pairs[][2] = {
        {"bootstrap.servers", settings[BROKERS].value},
        {"client.id", "upstream-worker"},
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"message.timeout.ms", milliseconds},
        {"socket.timeout.ms", milliseconds},
        {"socket.connection.setup.timeout.ms", milliseconds},
        {"reconnect.backoff.max.ms", "2000"},
        {"topic.metadata.propagation.max.ms", half},
        {"message.max.bytes", settings[LARGEST].value},
        {"compression.type", settings[COMPRESSION].value},
        /* As Java's producers do. */
        {"partitioner", "murmur2_random"},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    bool is_set = true;
    for (size_t i = 0; is_set && i < sizeof pairs / sizeof pairs[0]; i++) {
        is_set = set(conf, pairs[i][0], pairs[i][1], error, error_size);
    }
    rd_kafka_conf_set_dr_msg_cb(conf, take_report);
    rd_kafka_conf_set_error_cb(conf, take_error);
    rd_kafka_conf_set_log_cb(conf, drop_log);
    is_set = is_set && set_security(conf, error, error_size);
    /* Takes conf if it succeeds. */
    producer = is_set ? rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, error_size) : NULL;
    if (producer == NULL) rd_kafka_conf_destroy(conf);
    is_broken = false;
    return producer != NULL;
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_open(const char *configuration, char *error, size_t error_size)
{
    if (!engine_open(settings, SETTINGS, TOPIC, configuration, error, error_size)) return 1;
    return start(error, error_size) ? 0 : 1;
}

/* Gives a message to the library, which keeps a copy. */
static void send_message(size_t index)
{
    const upstream_message *message = call.messages[index];
    char topic[ENGINE_NAME_SIZE], reason[128];
    struct engine_headers fields;
    if (!engine_fill(&settings[TOPIC], message, TOPIC_LIMIT, topic, reason, sizeof reason)) {
        upstream_reject(call.outcomes[index], reason);
        call.states[index] = SETTLED;
        return;
    }
    engine_fill_headers(&fields, message);
    rd_kafka_headers_t *headers = rd_kafka_headers_new(fields.count);
    for (size_t i = 0; i < fields.count; i++) {
        const upstream_text value = fields.items[i].value;
        rd_kafka_header_add(headers, fields.items[i].name, -1, value.bytes, (ssize_t)value.length);
    }
    call.states[index] = PENDING;
    call.pending++;
    /* A value of NULL would delete the device's record from a compacted topic. */
    const rd_kafka_resp_err_t result = rd_kafka_producev(
        producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(message->device_key.bytes, message->device_key.length),
        RD_KAFKA_V_VALUE((void *)(message->data.bytes == NULL ? "" : message->data.bytes), message->data.length),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE((void *)(call.number << 16 | index)), RD_KAFKA_V_END);
    if (result == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    rd_kafka_headers_destroy(headers);
    call.pending--;
    settle(index, result, topic);
}

/* Waits for the delivery reports, which come by themselves at the messages' timeout. */
static void wait_for_reports(int64_t deadline)
{
    while (call.pending > 0 && engine_now() < deadline && !is_broken) rd_kafka_flush(producer, 100);
    if (call.pending == 0) return;
    /* A fatal error leaves reports to be taken. */
    rd_kafka_purge(producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_flush(producer, 200);
    is_broken = true;
    call.works = false;
}

/* A message is late because its topic is forbidden, for example, or because brokers are away: asks them. */
static void settle_late(size_t index)
{
    const struct rd_kafka_metadata *answer;
    char topic[ENGINE_NAME_SIZE], reason[128];
    rd_kafka_resp_err_t result = RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
    engine_fill(&settings[TOPIC], call.messages[index], TOPIC_LIMIT, topic, reason, sizeof reason);
    rd_kafka_topic_t *const handle = rd_kafka_topic_new(producer, topic, NULL);
    if (handle != NULL && rd_kafka_metadata(producer, 0, handle, &answer, 500) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (answer->topic_cnt == 1) result = answer->topics[0].err;
        rd_kafka_metadata_destroy(answer);
    }
    if (handle != NULL) rd_kafka_topic_destroy(handle);
    if (result == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED || result == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION ||
        result == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
        settle(index, result, topic);
        return;
    }
    engine_report("late", "no delivery to Kafka in time %s", trouble);
    call.works = false;
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_handle(
    const upstream_message *const *messages, size_t count, upstream_outcome *const *outcomes)
{
    const int64_t deadline = engine_now() + timeout + 1000;
    char error[512];
    if (count > UINT16_MAX) return 1;
    if (producer == NULL) {
        /* No more than one a second. */
        engine_sleep(next_start - engine_now());
        next_start = engine_now() + 1000;
        if (!start(error, sizeof error)) {
            engine_report("start", "%s", error);
            return 1;
        }
    }
    call.number++;
    call.messages = messages;
    call.outcomes = outcomes;
    call.count = count;
    call.pending = 0;
    call.is_alone = false;
    call.works = true;
    call.states = calloc(count, 1);
    if (call.states == NULL) return 1;
    for (size_t i = 0; i < count; i++) send_message(i);
    wait_for_reports(deadline);
    call.is_alone = true;
    for (size_t i = 0; i < count && !is_broken; i++) {
        if (call.states[i] != SUSPECT) continue;
        if (engine_now() + 1000 >= deadline) {
            call.works = false;
            break;
        }
        send_message(i);
        wait_for_reports(deadline);
    }
    for (size_t i = 0; i < count; i++) {
        if (call.states[i] != LATE) continue;
        /* The brokers are asked for two seconds at most. */
        if (!is_broken && engine_now() < deadline + 2000) settle_late(i);
        else call.works = false;
    }
    free(call.states);
    call.states = NULL;
    call.count = 0;
    if (is_broken) {
        engine_report("broken", "a new producer is needed: %s", trouble);
        rd_kafka_destroy(producer);
        producer = NULL;
        call.works = false;
    }
    if (call.works) engine_recovered();
    return call.works ? 0 : 1;
}

/* Nothing is under way, and destroying the producer could wait for a name server. The process ends now. */
UPSTREAM_PLUGIN_EXPORT void upstream_plugin_close(void)
{
}
