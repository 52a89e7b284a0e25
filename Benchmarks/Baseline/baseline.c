// A bare worker to compare with: the same libraries (OpenSSL, libxml2, libpq), one table, and none of upstream-worker's
// promises beyond "stored once, then acked": no ledger, conflicts, quarantine, checks of XML, JSON or senders,
// partitions, look-up indexes, reconnects or draining. Never part of the product.
//
// The table's key is message_id, and a known id is left alone: servers redeliver unacked messages, so real workers are
// idempotent on it. Without the key it would store every redelivery again.
//
//   baseline HOST PORT DOMAIN SENDER SECRET_FILE CA_FILE DATABASE_URL CONNECTIONS WRITERS
//
// One thread reads all connections (epoll) and writes acks; each writer is a thread with a database connection that
// stores all waiting messages, up to 500, in one INSERT. With BASELINE_NONBLOCKING set the one thread does that too, over
// one database connection by libpq's non-blocking calls: what the two hand-overs between threads cost.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <libxml/parser.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { batch_limit = 500, fields = 4 };  // message_id, from, category, data

static void fail(const char *what) {
    fprintf(stderr, "baseline: %s: %s\n", what, errno ? strerror(errno) : "failed");
    exit(70);
}

// MARK: bytes that grow

struct bytes {
    char *start;
    size_t count, capacity;
};

static char *grow(struct bytes *bytes, size_t count) {
    if (bytes->count + count > bytes->capacity) {
        bytes->capacity = (bytes->count + count) * 2;
        bytes->start = realloc(bytes->start, bytes->capacity);
        if (!bytes->start) fail("memory");
    }
    char *place = bytes->start + bytes->count;
    bytes->count += count;
    return place;
}

static void append(struct bytes *bytes, const void *more, size_t count) { memcpy(grow(bytes, count), more, count); }

static void append_text(struct bytes *bytes, const char *text) { append(bytes, text, strlen(text)); }

// MARK: messages on their way to the database

struct connection;

struct message {
    struct connection *connection;
    size_t offset[fields], count[fields];  // into the batch's text
};

struct batch {
    struct bytes text;
    struct message messages[batch_limit];
    int count;
    struct batch *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct batch *first, *last, *done, *unused;
static int wakeup;

static struct batch *empty_batch(void) {  // with the lock held
    struct batch *batch = unused;
    if (batch) unused = batch->next;
    else if (!(batch = calloc(1, sizeof *batch))) fail("memory");
    batch->count = 0;
    batch->text.count = 0;
    batch->next = NULL;
    return batch;
}

// MARK: one connection

enum stage { features_1, success, features_2, bound, ready };

struct connection {
    int socket;
    SSL *ssl;
    xmlParserCtxtPtr parser;
    xmlSAXHandler handler;
    enum stage stage;
    int depth;
    bool in_gcm, restart;
    struct bytes text, out;
    size_t sent;
};

static const char *domain, *sender;
static char *credentials;
static bool has_arrivals;  // since the last wake-up of the writers; under the lock

static void open_stream(struct connection *c) {
    append_text(&c->out, "<stream:stream to='");
    append_text(&c->out, domain);
    append_text(&c->out, "' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>");
}

// The span of a member's value, without validation.
static bool find(const char *text, size_t count, const char *key, size_t *start, size_t *length) {
    const char *place = memmem(text, count, key, strlen(key)), *end = text + count;
    if (!place) return false;
    place += strlen(key);
    while (place < end && (*place == ' ' || *place == ':')) place++;
    if (place == end) return false;
    const char *from = place;
    if (*place == '"') {
        for (from = ++place; place < end && *place != '"'; place++) {
            if (*place == '\\') place++;
        }
    } else {
        int depth = 0;
        bool quoted = false;
        for (; place < end; place++) {
            if (quoted) {
                if (*place == '\\') place++;
                else if (*place == '"') quoted = false;
            } else if (*place == '"') quoted = true;
            else if (*place == '{' || *place == '[') depth++;
            else if (*place == '}' || *place == ']') {
                if (depth-- == 0) break;
                if (depth == 0) { place++; break; }
            } else if (*place == ',' && depth == 0) break;
        }
    }
    *start = (size_t)(from - text);
    *length = (size_t)(place - from);
    return true;
}

static void take(struct connection *c) {
    static const char *keys[fields] = {"\"message_id\"", "\"from\"", "\"category\"", "\"data\""};
    struct message message = {.connection = c};
    for (int field = 0; field < fields; field++) {
        if (!find(c->text.start, c->text.count, keys[field], &message.offset[field], &message.count[field])) return;
    }
    pthread_mutex_lock(&lock);
    if (!last || last->count == batch_limit) {
        struct batch *batch = empty_batch();
        if (last) last->next = batch;
        else first = batch;
        last = batch;
    }
    size_t base = last->text.count;
    append(&last->text, c->text.start, c->text.count);
    for (int field = 0; field < fields; field++) message.offset[field] += base;
    last->messages[last->count++] = message;
    has_arrivals = true;
    pthread_mutex_unlock(&lock);
}

static void element_started(
    void *context, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri, int namespaces,
    const xmlChar **namespace_list, int attributes, int defaulted, const xmlChar **attribute_list
) {
    struct connection *c = context;
    c->depth++;
    if (c->depth == 3 && c->stage == ready && !strcmp((const char *)name, "gcm")) {
        c->in_gcm = true;
        c->text.count = 0;
    }
}

static void text_came(void *context, const xmlChar *text, int count) {
    struct connection *c = context;
    if (c->in_gcm) append(&c->text, text, (size_t)count);
}

static void element_ended(void *context, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri) {
    struct connection *c = context;
    c->depth--;
    if (c->in_gcm && c->depth == 2) {
        c->in_gcm = false;
        take(c);
    }
    if (c->depth != 1) return;
    switch (c->stage) {
    case features_1:
        append_text(&c->out, "<auth mechanism='PLAIN' xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>");
        append_text(&c->out, credentials);
        append_text(&c->out, "</auth>");
        c->stage = success;
        break;
    case success:
        if (strcmp((const char *)name, "success")) fail("SASL");
        open_stream(c);
        c->restart = true;
        c->stage = features_2;
        break;
    case features_2:
        append_text(
            &c->out, "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
        c->stage = bound;
        break;
    case bound: c->stage = ready; break;
    case ready: break;
    }
}

static void new_parser(struct connection *c) {
    if (c->parser) xmlFreeParserCtxt(c->parser);
    c->depth = 0;
    c->parser = xmlCreatePushParserCtxt(&c->handler, c, NULL, 0, NULL);
    if (!c->parser) fail("libxml2");
}

static void flush(struct connection *c) {
    while (c->sent < c->out.count) {
        int count = SSL_write(c->ssl, c->out.start + c->sent, (int)(c->out.count - c->sent));
        if (count <= 0) {
            // The window is small: the rest goes with the next read or the next acks.
            if (SSL_get_error(c->ssl, count) == SSL_ERROR_WANT_WRITE) return;
            fail("SSL_write");
        }
        c->sent += (size_t)count;
    }
    c->sent = c->out.count = 0;
}

static void receive(struct connection *c) {
    static char buffer[65536];
    for (;;) {
        int count = SSL_read(c->ssl, buffer, sizeof buffer);
        if (count <= 0) {
            int error = SSL_get_error(c->ssl, count);
            if (error == SSL_ERROR_WANT_READ) break;
            exit(error == SSL_ERROR_ZERO_RETURN ? 0 : 76);
        }
        if (xmlParseChunk(c->parser, buffer, count, 0)) fail("XML");
        if (c->restart) {
            c->restart = false;
            new_parser(c);
        }
    }
    flush(c);
}

static void connect_to(struct connection *c, const char *host, const char *port, SSL_CTX *context, int poll) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &hints, &found)) fail("getaddrinfo");
    c->socket = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(c->socket, found->ai_addr, found->ai_addrlen)) fail("connect");
    freeaddrinfo(found);
    int on = 1;
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->ssl = SSL_new(context);
    SSL_set_fd(c->ssl, c->socket);
    if (SSL_connect(c->ssl) != 1) fail("TLS");
    fcntl(c->socket, F_SETFL, O_NONBLOCK);
    c->handler.initialized = XML_SAX2_MAGIC;
    c->handler.startElementNs = element_started;
    c->handler.endElementNs = element_ended;
    c->handler.characters = text_came;
    new_parser(c);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poll, EPOLL_CTL_ADD, c->socket, &event);
    open_stream(c);
    flush(c);
}

// MARK: the database

// A one-dimensional text array in binary form.
static void encode(struct bytes *bytes, const struct batch *batch, int field) {
    bytes->count = 0;
    const uint32_t header[5] = {htonl(1), 0, htonl(25), htonl((uint32_t)batch->count), htonl(1)};
    append(bytes, header, sizeof header);
    for (int index = 0; index < batch->count; index++) {
        const struct message *message = &batch->messages[index];
        uint32_t length = htonl((uint32_t)message->count[field]);
        append(bytes, &length, 4);
        append(bytes, batch->text.start + message->offset[field], message->count[field]);
    }
}

static PGconn *prepared(const char *url) {
    PGconn *database = PQconnectdb(url);
    if (PQstatus(database) != CONNECTION_OK) fail(PQerrorMessage(database));
    PQclear(PQprepare(
        database, "store",
        "INSERT INTO baseline (message_id, token, category, data) "
        "SELECT id, token, category, data::json FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) "
        "AS input (id, token, category, data) ON CONFLICT DO NOTHING",
        0, NULL));
    return database;
}

static struct batch *first_batch(void) {  // with the lock held
    struct batch *batch = first;
    if (batch) first = batch->next;
    if (!first) last = NULL;
    return batch;
}

static void send_batch(PGconn *database, const struct batch *batch) {
    static _Thread_local struct bytes arrays[fields];
    const char *values[fields];
    int lengths[fields], formats[fields];
    for (int field = 0; field < fields; field++) {
        encode(&arrays[field], batch, field);
        values[field] = arrays[field].start;
        lengths[field] = (int)arrays[field].count;
        formats[field] = 1;
    }
    if (!PQsendQueryPrepared(database, "store", fields, values, lengths, formats, 1)) fail(PQerrorMessage(database));
}

static void expect_stored(PGconn *database) {
    for (PGresult *result; (result = PQgetResult(database)); PQclear(result)) {
        if (PQresultStatus(result) != PGRES_COMMAND_OK) fail(PQerrorMessage(database));
    }
}

static void finish(struct batch *batch) {
    pthread_mutex_lock(&lock);
    batch->next = done;
    done = batch;
    pthread_mutex_unlock(&lock);
}

static void *write_batches(void *url) {
    PGconn *database = prepared(url);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!first) pthread_cond_wait(&arrived, &lock);
        struct batch *batch = first_batch();
        pthread_mutex_unlock(&lock);
        send_batch(database, batch);
        expect_stored(database);
        finish(batch);
        eventfd_write(wakeup, 1);
    }
    return NULL;
}

// The reading thread's own database connection, and the batch that it stores.
static PGconn *own;
static struct batch *sent;

static void store_own(int poll) {
    if (!sent) {
        pthread_mutex_lock(&lock);
        sent = first_batch();
        pthread_mutex_unlock(&lock);
        if (!sent) return;
        send_batch(own, sent);
    }
    struct epoll_event event = {.events = EPOLLIN | (PQflush(own) ? EPOLLOUT : 0), .data.ptr = &own};
    epoll_ctl(poll, EPOLL_CTL_MOD, PQsocket(own), &event);
}

static bool has_stored(void) {
    if (!PQconsumeInput(own)) fail(PQerrorMessage(own));
    if (!sent || PQisBusy(own)) return false;
    expect_stored(own);
    finish(sent);
    sent = NULL;
    return true;
}

static void send_acks(struct connection *all, int connections) {
    eventfd_t count;
    if (!own) eventfd_read(wakeup, &count);
    pthread_mutex_lock(&lock);
    struct batch *batch = done;
    done = NULL;
    pthread_mutex_unlock(&lock);
    while (batch) {
        for (int index = 0; index < batch->count; index++) {
            struct message *message = &batch->messages[index];
            struct bytes *out = &message->connection->out;
            append_text(out, "<message id=\"\"><gcm xmlns=\"google:mobile:data\">{\"to\":\"");
            append(out, batch->text.start + message->offset[1], message->count[1]);
            append_text(out, "\",\"message_id\":\"");
            append(out, batch->text.start + message->offset[0], message->count[0]);
            append_text(out, "\",\"message_type\":\"ack\"}</gcm></message>");
        }
        struct batch *next = batch->next;
        pthread_mutex_lock(&lock);
        batch->next = unused;
        unused = batch;
        pthread_mutex_unlock(&lock);
        batch = next;
    }
    for (int index = 0; index < connections; index++) flush(&all[index]);
}

int main(int count, char **arguments) {
    if (count != 10) {
        fprintf(stderr, "usage: baseline HOST PORT DOMAIN SENDER SECRET_FILE CA_FILE DATABASE_URL CONNECTIONS WRITERS\n");
        return 64;
    }
    signal(SIGPIPE, SIG_IGN);
    domain = arguments[3];
    sender = arguments[4];
    char secret[256] = {0}, plain[768];
    FILE *file = fopen(arguments[5], "r");
    if (!file || !fgets(secret, sizeof secret, file)) fail(arguments[5]);
    fclose(file);
    secret[strcspn(secret, "\r\n")] = 0;
    int length = snprintf(plain, sizeof plain, "%c%s@%s%c%s", 0, sender, domain, 0, secret);
    credentials = calloc(1, 2048);
    EVP_EncodeBlock((unsigned char *)credentials, (const unsigned char *)plain, length);

    PGconn *database = PQconnectdb(arguments[7]);
    if (PQstatus(database) != CONNECTION_OK) fail(PQerrorMessage(database));
    PQclear(PQexec(
        database,
        "CREATE TABLE IF NOT EXISTS baseline (message_id text PRIMARY KEY, token text, category text, data json, "
        "received_at timestamptz DEFAULT now())"));
    PQfinish(database);

    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (!SSL_CTX_load_verify_locations(context, arguments[6], NULL)) fail(arguments[6]);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    int poll = epoll_create1(EPOLL_CLOEXEC), connections = atoi(arguments[8]), writers = atoi(arguments[9]);
    wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, wakeup, &event);
    if (getenv("BASELINE_NONBLOCKING")) {
        own = prepared(arguments[7]);
        PQsetnonblocking(own, 1);
        event.data.ptr = &own;
        epoll_ctl(poll, EPOLL_CTL_ADD, PQsocket(own), &event);
    }
    for (int index = 0; index < writers && !own; index++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, write_batches, arguments[7])) fail("pthread_create");
    }
    struct connection *all = calloc((size_t)connections, sizeof *all);
    for (int index = 0; index < connections; index++) {
        connect_to(&all[index], arguments[1], arguments[2], context, poll);
    }
    for (;;) {
        int ready_count = epoll_wait(poll, events, 64, -1);
        bool has_acks = false;
        for (int index = 0; index < ready_count; index++) {
            if (events[index].data.ptr == &own) has_acks = has_stored();
            else if (events[index].data.ptr) receive(events[index].data.ptr);
            else has_acks = true;
        }
        if (own) {
            store_own(poll);
            if (has_acks) send_acks(all, connections);
            continue;
        }
        pthread_mutex_lock(&lock);
        bool wake = has_arrivals;
        has_arrivals = false;
        pthread_mutex_unlock(&lock);
        if (wake) pthread_cond_signal(&arrived);
        if (has_acks) send_acks(all, connections);
    }
}
