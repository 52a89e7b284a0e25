/*
 * A Kafka cluster in memory (librdkafka's mock), and a consumer that writes what it holds to a file.
 *
 *     kafka_broker TOPIC FILE
 *
 * Prints the brokers' addresses, then obeys lines: "down N", "up N" (a broker), "error KEY CODE" (the next answer to a request of
 * that kind), "topic NAME CODE", "end" (prints "ended" once all is in the file). Records are as in servers.py.
 */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTITIONS 4

static rd_kafka_t *consumer;
static FILE *file;
static const char *topic;
static _Atomic int64_t positions[PARTITIONS];

static void write_record(const rd_kafka_message_t *message)
{
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t size;
    fprintf(file, "key=%.*s", (int)message->key_len, (const char *)message->key);
    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
            fprintf(file, "\x1f%s=%.*s", name, (int)size, (const char *)value);
        }
    }
    fprintf(file, "\x1e%.*s\n", (int)message->len, (const char *)message->payload);
}

static void *consume(void *unused)
{
    for (;;) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 100);
        if (message == NULL) continue;
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            const int64_t expected = atomic_load(&positions[message->partition]);
            if (message->offset != expected) {
                fprintf(stderr, "kafka_broker: offset %ld, not %ld\n", (long)message->offset, (long)expected);
                exit(1);
            }
            write_record(message);
            atomic_store(&positions[message->partition], message->offset + 1);
        }
        rd_kafka_message_destroy(message);
    }
    return unused;
}

static rd_kafka_t *client(rd_kafka_type_t type, const char *const pairs[][2], size_t count)
{
    char error[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (size_t i = 0; i < count; i++) rd_kafka_conf_set(conf, pairs[i][0], pairs[i][1], error, sizeof error);
    rd_kafka_t *client = rd_kafka_new(type, conf, error, sizeof error);
    if (client != NULL) return client;
    fprintf(stderr, "kafka_broker: %s\n", error);
    exit(1);
}

static void wait_for_end(void)
{
    for (int32_t partition = 0; partition < PARTITIONS; partition++) {
        int64_t low, high = -1;
        while (rd_kafka_query_watermark_offsets(consumer, topic, partition, &low, &high, 5000) != RD_KAFKA_RESP_ERR_NO_ERROR ||
               atomic_load(&positions[partition]) < high) {
            const struct timespec pause = {0, 20000000};
            nanosleep(&pause, NULL);
        }
    }
    fflush(file);
}

int main(int count, char *arguments[])
{
    const char *const quiet[][2] = {{"log_level", "0"}};
    char line[256], name[200];
    int number, code;
    pthread_t thread;
    if (count != 3) return 64;
    topic = arguments[1];
    file = fopen(arguments[2], "w");
    rd_kafka_t *host = client(RD_KAFKA_PRODUCER, quiet, 1);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(host, 3);
    rd_kafka_mock_topic_create(cluster, topic, PARTITIONS, 3);
    const char *const settings[][2] = {
        {"log_level", "0"}, {"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster)}, {"group.id", "test"},
        {"auto.offset.reset", "error"}, {"reconnect.backoff.max.ms", "500"}, {"fetch.wait.max.ms", "50"}};
    consumer = client(RD_KAFKA_CONSUMER, settings, 6);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(PARTITIONS);
    for (int32_t i = 0; i < PARTITIONS; i++) rd_kafka_topic_partition_list_add(list, topic, i)->offset = 0;
    rd_kafka_assign(consumer, list);
    pthread_create(&thread, NULL, consume, NULL);
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "down %d", &number) == 1) rd_kafka_mock_broker_set_down(cluster, number);
        else if (sscanf(line, "up %d", &number) == 1) rd_kafka_mock_broker_set_up(cluster, number);
        else if (sscanf(line, "error %d %d", &number, &code) == 2)
            rd_kafka_mock_push_request_errors(cluster, (int16_t)number, 1, (rd_kafka_resp_err_t)code);
        else if (sscanf(line, "topic %199s %d", name, &code) == 2)
            rd_kafka_mock_topic_set_error(cluster, name, (rd_kafka_resp_err_t)code);
        else if (strcmp(line, "end\n") == 0) {
            wait_for_end();
            printf("ended\n");
            fflush(stdout);
        }
    }
    exit(0);
}
