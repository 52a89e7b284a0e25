/*
 * Takes all messages from a queue of RabbitMQ and writes them to standard output as records (servers.py).
 *
 *     amqp_drain PORT USER PASSWORD QUEUE
 */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length and the bytes, for %.*s. */
#define TEXT(t) (int)(t).len, (const char *)(t).bytes

static void expect(amqp_rpc_reply_t reply, const char *what)
{
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    fprintf(stderr, "amqp_drain: %s failed\n", what);
    exit(1);
}

int main(int count, char *arguments[])
{
    if (count != 5) return 64;
    amqp_connection_state_t connection = amqp_new_connection();
    if (amqp_socket_open(amqp_tcp_socket_new(connection), "127.0.0.1", atoi(arguments[1])) != AMQP_STATUS_OK) return 1;
    expect(amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, arguments[2], arguments[3]), "the login");
    amqp_channel_open(connection, 1);
    expect(amqp_get_rpc_reply(connection), "opening a channel");
    const amqp_bytes_t queue = amqp_cstring_bytes(arguments[4]);
    amqp_queue_declare_ok_t *declared = amqp_queue_declare(connection, 1, queue, 1, 0, 0, 0, amqp_empty_table);
    expect(amqp_get_rpc_reply(connection), "asking for the queue");
    const uint32_t messages = declared->message_count;
    amqp_basic_consume(connection, 1, queue, amqp_empty_bytes, 0, 1, 0, amqp_empty_table);
    expect(amqp_get_rpc_reply(connection), "consuming");
    for (uint32_t i = 0; i < messages; i++) {
        amqp_envelope_t envelope;
        const struct timeval limit = {20, 0};
        expect(amqp_consume_message(connection, &envelope, &limit, 0), "a message");
        const amqp_basic_properties_t *properties = &envelope.message.properties;
        printf("key=%.*s\x1f", TEXT(properties->message_id));
        printf("mode=%d", properties->delivery_mode);
        for (int entry = 0; entry < properties->headers.num_entries; entry++) {
            const amqp_table_entry_t *header = &properties->headers.entries[entry];
            printf("\x1f%.*s=%.*s", TEXT(header->key), TEXT(header->value.value.bytes));
        }
        printf("\x1e%.*s\n", TEXT(envelope.message.body));
        amqp_destroy_envelope(&envelope);
        amqp_maybe_release_buffers(connection);
    }
    return 0;
}
