/*
 * A handler of upstream-worker as a shared library.
 *
 * The worker starts upstream-plugin-host, which loads the library into a separate process and gives it messages in batches.
 * A library that crashes, hangs or exits costs the message that it was handling one attempt, and nothing else.
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
 * All functions are called one at a time, on the process's first thread. All arguments belong to the host and are valid only
 * during the call; messages are read-only memory. The library's standard output and error go to the worker's log, bounded;
 * they must hold no token and no payload. The environment has PATH, LANG, LC_ALL, TZ, and a setting that keeps Swift's
 * runtime from printing crashes. SIGPIPE is ignored. Swift, Rust, Go or any other language that exports C functions will do.
 */
#ifndef UPSTREAM_PLUGIN_H
#define UPSTREAM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface; raised when an existing part changes its meaning or place. Members added at the end of a
   struct don't raise it: ask UPSTREAM_HAS before you read one that is newer than version 1. */
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

/* UTF-8 with its length in bytes. A NUL follows the last byte and isn't counted; a device can put others inside (as
   U+0000), so trust the length. bytes is NULL if the message has no such value. */
typedef struct upstream_text {
    const char *bytes;
    size_t length;
} upstream_text;

/* A stored and acked message. */
typedef struct upstream_message {
    size_t struct_size;               /* the size of the host's version of this struct */
    upstream_text message_key;        /* a UUID, kept over retries and replays; use it as idempotency key */
    upstream_text message_id;         /* the id that the device gave it */
    upstream_text sender_id;
    upstream_text category;
    upstream_text registration_token; /* a secret: never log it */
    upstream_text device_key;         /* identifies the device in logs */
    upstream_text data;               /* verbatim JSON; NULL if the message has none */
    upstream_text extra;              /* a JSON object of the other members, or NULL */
    upstream_text message_type;       /* NULL, or "receipt" */
    upstream_text replay_id;          /* the replay that sent it again, or NULL */
    int64_t received_at;              /* microseconds since 1970, UTC */
    uint32_t attempt;                 /* from 1; counts earlier failed attempts */
    /* From here on check first: UPSTREAM_HAS(message, traceparent). */
    upstream_text traceparent;        /* the attempt's span as W3C Trace Context, NULL if tracing is off: pass it on */
    upstream_text tracestate;         /* belongs to traceparent, or NULL */
} upstream_message;

/* Whether the host, which may be older than this header, knows this member: UPSTREAM_HAS(messages[i], traceparent). */
#define UPSTREAM_HAS(object, member) \
    ((size_t)((const char *)(&(object)->member + 1) - (const char *)(object)) <= (object)->struct_size)

/* The outcome of a message. */
enum {
    UPSTREAM_UNSET = 0,  /* none yet; a failed attempt once the call returns 0 */
    UPSTREAM_DONE = 1,   /* handled; given again only by a replay */
    UPSTREAM_RETRY = 2,  /* a failed attempt: give it again later */
    UPSTREAM_REJECT = 3  /* a dead letter at once */
};

/* Receives an outcome. Outcomes survive a crash: those set before count, and only messages without one are given again.
   Set kind last, or use the functions below. */
typedef struct upstream_outcome {
    size_t struct_size;
    char *reason;          /* the host's buffer for UTF-8, stored with the failure; quote no payload and no token */
    size_t reason_size;    /* the buffer's bytes, 1024 */
    size_t reason_length;  /* the bytes used; 0: up to the first NUL */
    uint64_t retry_after;  /* milliseconds, the shortest wait; 0 leaves it to the handler's retry settings */
    volatile int32_t kind; /* UPSTREAM_DONE, UPSTREAM_RETRY or UPSTREAM_REJECT */
} upstream_outcome;

/* Required: must return UPSTREAM_PLUGIN_ABI. Called before anything else. */
UPSTREAM_PLUGIN_EXPORT uint32_t upstream_plugin_abi(void);

/* Optional: called once in each process, before the first message. configuration is the text of plugin.configuration,
   empty if there is none. Returns 0, or anything else if the library can't work: then write the reason to error
   (error_size bytes, with a NUL). This counts as no message's attempt, and is retried later. */
UPSTREAM_PLUGIN_EXPORT int upstream_plugin_open(const char *configuration, char *error, size_t error_size);

/* Required: handles count messages, at least 1; outcomes[i] belongs to messages[i]. Returns 0, or anything else if the
   library itself can't work now (for example, its own database is down): then messages without an outcome are given again
   without counting an attempt, and if that continues, the handler is paused for a while. Threads may set outcomes during
   the call, but not after it: the same memory then holds the outcomes of other messages. */
UPSTREAM_PLUGIN_EXPORT int upstream_plugin_handle(
    const upstream_message *const *messages, size_t count, upstream_outcome *const *outcomes);

/* Optional: called at the worker's orderly shutdown; the process is killed 1.5 s later. */
UPSTREAM_PLUGIN_EXPORT void upstream_plugin_close(void);

/* Writes an outcome. reason may be NULL; an overlong one is cut off. */
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

UPSTREAM_PLUGIN_INLINE void upstream_done(upstream_outcome *outcome)
{
    outcome->kind = UPSTREAM_DONE;
}

/* Retries the message after at least that many milliseconds; 0 leaves the wait to the handler's retry settings. */
UPSTREAM_PLUGIN_INLINE void upstream_retry(upstream_outcome *outcome, uint64_t retry_after, const char *reason)
{
    upstream_set_outcome(outcome, UPSTREAM_RETRY, retry_after, reason);
}

/* Makes the message a dead letter. */
UPSTREAM_PLUGIN_INLINE void upstream_reject(upstream_outcome *outcome, const char *reason)
{
    upstream_set_outcome(outcome, UPSTREAM_REJECT, 0, reason);
}

#ifdef __cplusplus
}
#endif

#endif
