/*
 * A handler of upstream-worker as a shared library.
 *
 * The worker starts upstream-plugin-host, which loads the library into a process of its own and gives it messages in
 * batches. A library that crashes, hangs or exits costs the message that it was working on one attempt, and nothing else.
 *
 *     #include "upstream_plugin.h"
 *
 *     UPSTREAM_PLUGIN_EXPORT uint32_t upstream_plugin_abi(void) { return UPSTREAM_PLUGIN_ABI; }
 *
 *     UPSTREAM_PLUGIN_EXPORT int upstream_plugin_handle(
 *         const upstream_message *const *messages, size_t count, upstream_outcome *const *outcomes)
 *     {
 *         size_t i;
 *         for (i = 0; i < count; i++) upstream_done(outcomes[i]);
 *         return 0;
 *     }
 *
 *     cc -shared -fPIC -O2 -o orders.so orders.c
 *
 * All functions are called one at a time, on the process's first thread. Everything that is passed in belongs to the host and
 * is valid during the call only; messages are read-only memory. What the library writes to its standard output or error goes to
 * the worker's log, bounded; it must hold no token and no payload. Of the environment there are PATH, LANG, LC_ALL,
 * TZ, and a setting that keeps Swift's runtime from printing crashes. SIGPIPE is ignored. Swift, Rust, Go or any other language that exports C functions will do.
 */
#ifndef UPSTREAM_PLUGIN_H
#define UPSTREAM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface; raised when a part that exists changes its meaning or its place. Members that are added at the
   end of a struct don't raise it: ask UPSTREAM_HAS before you read one that is newer than version 1. */
#define UPSTREAM_PLUGIN_ABI 1

#if defined(__GNUC__)
#define UPSTREAM_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define UPSTREAM_PLUGIN_EXPORT
#endif

#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define UPSTREAM_PLUGIN_INLINE static inline
#elif defined(__GNUC__)
#define UPSTREAM_PLUGIN_INLINE static __inline__
#else
#define UPSTREAM_PLUGIN_INLINE static
#endif

/* UTF-8 with its length in bytes. A NUL follows the last byte and isn't counted; a device can put further ones inside
   (as U+0000), so trust the length. bytes is NULL where the message has no such value. */
typedef struct upstream_text {
    const char *bytes;
    size_t length;
} upstream_text;

/* A message that is stored and acked. */
typedef struct upstream_message {
    size_t struct_size;               /* what the host knows of this struct, in bytes */
    upstream_text message_key;        /* a UUID: the same over retries and replays; use it as idempotency key */
    upstream_text message_id;         /* the device's id of it */
    upstream_text sender_id;
    upstream_text category;
    upstream_text registration_token; /* a secret: never log it */
    upstream_text device_key;         /* stands for the token in logs */
    upstream_text data;               /* verbatim JSON; NULL where the message has none */
    upstream_text extra;              /* a JSON object of its other members, or NULL */
    upstream_text message_type;       /* NULL, or "receipt" */
    upstream_text replay_id;          /* the replay that sends it again, or NULL */
    int64_t received_at;              /* microseconds since 1970, UTC */
    uint32_t attempt;                 /* from 1; attempts that failed before this one count */
    /* From here on look first: UPSTREAM_HAS(message, traceparent). */
    upstream_text traceparent;        /* the attempt's span as W3C Trace Context, NULL where tracing is off: pass it on */
    upstream_text tracestate;         /* what goes with traceparent, or NULL */
} upstream_message;

/* Whether the host, which may be older than this header, knows this member: UPSTREAM_HAS(messages[i], traceparent). */
#define UPSTREAM_HAS(object, member) \
    ((size_t)((const char *)(&(object)->member + 1) - (const char *)(object)) <= (object)->struct_size)

/* What became of a message. */
enum {
    UPSTREAM_UNSET = 0,  /* nothing yet; when the call returns 0, an attempt that failed */
    UPSTREAM_DONE = 1,   /* handled: not given again, unless it is replayed */
    UPSTREAM_RETRY = 2,  /* give it again later: an attempt that failed */
    UPSTREAM_REJECT = 3  /* a dead letter at once */
};

/* Where the library says it. Outcomes survive a crash: what is set before counts, and only messages without an outcome are
   given again. Set kind last, or use the functions below. */
typedef struct upstream_outcome {
    size_t struct_size;
    char *reason;          /* a buffer of the host's for UTF-8: kept with the failure; quote no payload and no token */
    size_t reason_size;    /* the buffer's bytes, 1024 */
    size_t reason_length;  /* how many are used; 0: up to the first NUL */
    uint64_t retry_after;  /* milliseconds, the shortest wait; 0 leaves it to the handler's retry settings */
    volatile int32_t kind; /* UPSTREAM_DONE, UPSTREAM_RETRY or UPSTREAM_REJECT */
} upstream_outcome;

/* Required: must return UPSTREAM_PLUGIN_ABI. Called before anything else. */
UPSTREAM_PLUGIN_EXPORT uint32_t upstream_plugin_abi(void);

/* Optional: called once in each process, before the first message. configuration is the text of the configuration's
   plugin.configuration, empty where there is none. Returns 0, or anything else where the library can't work: then write why to
   error (error_size bytes, with a NUL). No message's attempt counts for that, and it is tried again later. */
UPSTREAM_PLUGIN_EXPORT int upstream_plugin_open(const char *configuration, char *error, size_t error_size);

/* Required: takes count messages, at least 1; outcomes[i] belongs to messages[i]. Returns 0, or anything else where the
   library itself can't work now (its own database is down, say): then messages without an outcome are given again without
   counting an attempt, and the handler is paused for a while if that goes on. Threads may set outcomes during the call, but
   none after it has returned: the same memory then holds the outcomes of other messages. */
UPSTREAM_PLUGIN_EXPORT int upstream_plugin_handle(
    const upstream_message *const *messages, size_t count, upstream_outcome *const *outcomes);

/* Optional: called when the worker ends in an orderly way; the process is killed 1.5 s later. */
UPSTREAM_PLUGIN_EXPORT void upstream_plugin_close(void);

/* Writes an outcome. reason may be NULL; what doesn't fit is cut off. */
UPSTREAM_PLUGIN_INLINE void upstream_set_outcome(
    upstream_outcome *outcome, int32_t kind, uint64_t retry_after, const char *reason)
{
    size_t length = reason == NULL ? 0 : strlen(reason);
    if (length >= outcome->reason_size) length = outcome->reason_size - 1;
    if (length > 0) memcpy(outcome->reason, reason, length);
    outcome->reason[length] = 0;
    outcome->reason_length = length;
    outcome->retry_after = retry_after;
    outcome->kind = kind;
}

/* The message is handled. */
UPSTREAM_PLUGIN_INLINE void upstream_done(upstream_outcome *outcome)
{
    outcome->kind = UPSTREAM_DONE;
}

/* Give it again, not before so many milliseconds; with 0 when the handler's retry settings say. */
UPSTREAM_PLUGIN_INLINE void upstream_retry(upstream_outcome *outcome, uint64_t retry_after, const char *reason)
{
    upstream_set_outcome(outcome, UPSTREAM_RETRY, retry_after, reason);
}

/* Never again: a dead letter. */
UPSTREAM_PLUGIN_INLINE void upstream_reject(upstream_outcome *outcome, const char *reason)
{
    upstream_set_outcome(outcome, UPSTREAM_REJECT, 0, reason);
}

#ifdef __cplusplus
}
#endif

#endif
