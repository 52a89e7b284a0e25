/*
 * Shared by the parts of upstream-plugin-host.
 *
 * There are two processes. The supervisor (main.c, supervisor.c) talks with the worker and never runs the plugin's code. The
 * runner (runner.c), its child, loads the library and calls it. They share one mapping and no descriptor: a plugin that
 * closes or writes to every descriptor it finds disturbs nobody, and outcomes outlive the runner.
 */
#ifndef UPSTREAM_PLUGIN_HOST_H
#define UPSTREAM_PLUGIN_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "upstream_plugin.h"

/*
 * The protocol with the worker: one reply to each request, both as frames of a length (u32) and as many bytes. Numbers are
 * little-endian. A text is its length (u32, ABSENT for none), then its bytes; in requests a NUL follows.
 *
 * open    u8 REQUEST_OPEN, u8 PROTOCOL, u32 milliseconds, u64 bytes of memory (0: no limit), text configuration
 * opened  u8 REQUEST_OPEN, u8 END_*, text detail
 * handle  u8 REQUEST_HANDLE, u32 milliseconds, u32 count, then for each message: i64 received_at, u32 attempt, the texts
 *         of upstream_message in their order
 * handled u8 REQUEST_HANDLE, u8 END_*, text detail, u32 count, then for each message: u8 kind, u64 retry_after, text reason
 */
#define PROTOCOL 2
#define ABSENT UINT32_MAX
enum { REQUEST_OPEN = 1, REQUEST_HANDLE = 2, REQUEST_CLOSE = 3 };

/* How a call ended. */
enum {
    END_RETURNED = 0,    /* it returned 0 */
    END_UNAVAILABLE = 1, /* it returned something else */
    END_CRASHED = 2,     /* its process ended during the call */
    END_TIMED_OUT = 3,   /* the call took too long, and its process was killed */
    END_NOT_LOADED = 4   /* the library could not be loaded or opened: nothing was called */
};

/* The largest request, which holds 16 MiB of messages or a single one, and the most messages in it. */
#define FRAME_LIMIT ((size_t)32 << 20)
#define MESSAGE_LIMIT 1000
#define REASON_SIZE 1024
#define DETAIL_SIZE 1024
#define TEXTS 12

struct slot {
    upstream_outcome outcome;
    char reason[REASON_SIZE];
};

/* The mapping shared by both processes. */
struct shared {
    /* The number of the newest command, on which the runner waits; and of the newest that it has carried out, on which the
       supervisor waits. Both are futexes: no descriptor that the plugin could close is needed to wake anybody. */
    _Atomic uint32_t command, finished;
    /* The command: a REQUEST_*. */
    uint32_t kind;
    /* The runner's result: an END_*, and the reason. */
    uint32_t result;
    char detail[DETAIL_SIZE];
    /* The messages of the call, in the form of the request. */
    uint32_t count;
    uint64_t start, length;
    struct slot slots[MESSAGE_LIMIT];
    /* Read-only for the runner. */
    _Alignas(65536) unsigned char frame[FRAME_LIMIT];
};

/* The plugin's settings. */
struct plugin {
    const char *path;
    char *configuration; /* owned */
    uint64_t memory;
    bool probes; /* loaded and checked, but not opened */
};

/* Reads values with bounds checks; after one failure every call fails. */
struct reader {
    const unsigned char *bytes;
    size_t left;
    bool failed;
};

static inline uint64_t read_number(struct reader *reader, size_t size)
{
    uint64_t number = 0;
    if (reader->failed || reader->left < size) {
        reader->failed = true;
        return 0;
    }
    for (size_t i = 0; i < size; i++) number |= (uint64_t)reader->bytes[i] << (8 * i);
    reader->bytes += size;
    reader->left -= size;
    return number;
}

static inline upstream_text read_text(struct reader *reader)
{
    upstream_text text = {NULL, 0};
    const uint64_t length = read_number(reader, 4);
    if (reader->failed || length == ABSENT) return text;
    if (length + 1 > reader->left || reader->bytes[length] != 0) {
        reader->failed = true;
        return text;
    }
    text.bytes = (const char *)reader->bytes;
    text.length = length;
    reader->bytes += length + 1;
    reader->left -= length + 1;
    return text;
}

/* runner.c: the child's whole life. */
_Noreturn void run_plugin(struct shared *shared, const struct plugin *plugin, pid_t supervisor);

/* supervisor.c. Each returns an END_*; unless it is END_RETURNED, shared->detail or the text has the reason. */
void start_supervising(struct shared *shared, struct plugin *plugin, int worker);
int start_runner(unsigned milliseconds, char detail[DETAIL_SIZE]);
int call_runner(unsigned milliseconds, char detail[DETAIL_SIZE]);
void stop_runner(unsigned milliseconds);

#endif
