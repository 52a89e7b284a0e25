/* upstream-plugin-host: loads a handler's shared library for upstream-worker, in a separate process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include "host.h"

/* The time limit for loading a library that is only probed. */
#define PROBE_MILLISECONDS 30000
/* The time limit of upstream_plugin_close; the worker waits for 2 s. */
#define CLOSE_MILLISECONDS 1500

/* The largest reply: every message with a full reason. */
#define REPLY_SIZE (16 + DETAIL_SIZE + (size_t)MESSAGE_LIMIT * (13 + REASON_SIZE))

static struct shared *shared;
static struct plugin plugin;
static int requests, replies;
static unsigned char reply[4 + REPLY_SIZE];
static size_t reply_length;

static _Noreturn void refuse(const char *reason)
{
    fprintf(stderr, "upstream-plugin-host: %s\n", reason);
    stop_runner(0);
    exit(EX_PROTOCOL);
}

static void put_number(uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++) reply[reply_length++] = (unsigned char)(number >> (8 * i));
}

static void put_text(const char *bytes, size_t length)
{
    put_number(length, 4);
    memcpy(reply + reply_length, bytes, length);
    reply_length += length;
}

static void begin_reply(int kind, int end, const char *detail)
{
    reply_length = 4;
    put_number((uint64_t)kind, 1);
    put_number((uint64_t)end, 1);
    put_text(detail, strlen(detail));
}

/* Ends the process properly if nobody listens any more. */
static void send_reply(void)
{
    const size_t length = reply_length;
    reply_length = 0;
    put_number(length - 4, 4);
    for (size_t sent = 0; sent < length;) {
        const ssize_t count = write(replies, reply + sent, length - sent);
        if (count > 0) {
            sent += (size_t)count;
        } else if (count == 0 || errno != EINTR) {
            stop_runner(CLOSE_MILLISECONDS);
            exit(0);
        }
    }
}

/* Reads exactly `length` bytes; false at the end of the input. */
static bool receive(unsigned char *bytes, size_t length)
{
    while (length > 0) {
        const ssize_t count = read(requests, bytes, length);
        if (count > 0) {
            bytes += count;
            length -= (size_t)count;
        } else if (count == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

static void open_plugin(struct reader *reader)
{
    char detail[DETAIL_SIZE] = "";
    if (read_number(reader, 1) != PROTOCOL) refuse("the worker is of another version: install both from one release");
    const unsigned milliseconds = (unsigned)read_number(reader, 4);
    plugin.memory = read_number(reader, 8);
    const upstream_text configuration = read_text(reader);
    if (reader->failed || configuration.bytes == NULL) refuse("the worker's request is malformed");
    free(plugin.configuration);
    plugin.configuration = strdup(configuration.bytes);
    if (plugin.configuration == NULL) refuse("out of memory");
    const int end = start_runner(milliseconds, detail);
    begin_reply(REQUEST_OPEN, end, detail);
    send_reply();
}

static void handle_messages(struct reader *reader)
{
    char detail[DETAIL_SIZE] = "";
    const unsigned milliseconds = (unsigned)read_number(reader, 4);
    const uint64_t count = read_number(reader, 4);
    if (reader->failed || count < 1 || count > MESSAGE_LIMIT) refuse("the worker's request is malformed");
    shared->count = (uint32_t)count;
    shared->start = (uint64_t)(reader->bytes - shared->frame);
    shared->length = reader->left;
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = &shared->slots[i];
        memset(&slot->outcome, 0, sizeof slot->outcome);
        slot->outcome.struct_size = sizeof slot->outcome;
        slot->outcome.reason = slot->reason;
        slot->outcome.reason_size = REASON_SIZE;
        slot->reason[0] = 0;
    }
    int end = start_runner(milliseconds, detail);
    if (end == END_RETURNED) end = call_runner(milliseconds, detail);
    begin_reply(REQUEST_HANDLE, end, detail);
    put_number(count, 4);
    for (size_t i = 0; i < count; i++) {
        /* Read once each, and not trusted: the plugin may still be writing. */
        const volatile upstream_outcome *outcome = &shared->slots[i].outcome;
        const char *reason = shared->slots[i].reason;
        const int32_t kind = outcome->kind;
        const uint64_t retry_after = outcome->retry_after;
        size_t length = outcome->reason_length;
        if (length == 0 && kind != UPSTREAM_DONE) length = strnlen(reason, REASON_SIZE);
        if (length > REASON_SIZE) length = REASON_SIZE;
        put_number(kind < 0 || kind > UINT8_MAX ? UINT8_MAX : (uint64_t)kind, 1);
        put_number(retry_after, 8);
        put_text(reason, length);
    }
    send_reply();
}

/* Answers requests until there are no more. */
static void serve(void)
{
    unsigned char head[4];
    while (receive(head, sizeof head)) {
        struct reader prefix = {head, sizeof head, false};
        const uint64_t length = read_number(&prefix, 4);
        if (length == 0 || length > FRAME_LIMIT) refuse("the worker's request is too large");
        if (!receive(shared->frame, length)) break;
        struct reader reader = {shared->frame, length, false};
        switch (read_number(&reader, 1)) {
        case REQUEST_OPEN: open_plugin(&reader); break;
        case REQUEST_HANDLE: handle_messages(&reader); break;
        default: refuse("the worker's request is unknown");
        }
    }
    stop_runner(CLOSE_MILLISECONDS);
}

/* Moves the worker's pipes away from the numbers that libraries write to, and leaves the log there. */
static bool move_pipes(void)
{
    requests = fcntl(0, F_DUPFD_CLOEXEC, 3);
    replies = fcntl(1, F_DUPFD_CLOEXEC, 3);
    const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return requests >= 0 && replies >= 0 && none >= 0 && dup2(none, 0) == 0 && dup2(2, 1) == 1;
}

/* Prevents dumps, since the process holds payloads and tokens: both as a file (the limit) and to a program of the
   system, which ignores the limit and checks this flag (core(5)). */
static void forbid_dumps(void)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
}

int main(int count, char *arguments[])
{
    plugin.probes = count == 3 && strcmp(arguments[1], "--probe") == 0;
    if (count != (plugin.probes ? 3 : 2) || arguments[count - 1][0] != '/') {
        fprintf(
            stderr,
            "usage: upstream-plugin-host --probe /path/of/plugin.so\n"
            "Tells whether a shared library is a plugin of interface version %d (exit 0), or why not (exit 78).\n"
            "Without --probe it is upstream-worker that starts it and talks to it.\n",
            UPSTREAM_PLUGIN_ABI);
        return EX_USAGE;
    }
    plugin.path = arguments[count - 1];
    forbid_dumps();
    closefrom(3);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED) {
        perror("upstream-plugin-host: mmap");
        return EX_OSERR;
    }
    if (plugin.probes) {
        char detail[DETAIL_SIZE] = "";
        start_supervising(shared, &plugin, -1);
        const int end = start_runner(PROBE_MILLISECONDS, detail);
        if (end != END_RETURNED) fprintf(stderr, "%s\n", detail);
        stop_runner(0);
        return end == END_RETURNED ? 0 : EX_CONFIG;
    }
    if (!move_pipes()) {
        perror("upstream-plugin-host");
        return EX_OSERR;
    }
    start_supervising(shared, &plugin, requests);
    serve();
    return 0;
}
