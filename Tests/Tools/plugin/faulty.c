/* A plugin that does to each message what its data asks for: {"do":"segfault"}. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "upstream_plugin.h"

static char folder[1024];

UPSTREAM_PLUGIN_EXPORT uint32_t upstream_plugin_abi(void)
{
#ifdef CRASHES_AT_LOAD
    abort();
#endif
#ifdef OTHER_ABI
    return UPSTREAM_PLUGIN_ABI + 1;
#else
    return UPSTREAM_PLUGIN_ABI;
#endif
}

static void note(const char *name, const char *text)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file >= 0 && write(file, text, strlen(text)) < 0) abort();
    close(file);
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_open(const char *configuration, char *error, size_t size)
{
    char text[32];
    if (strcmp(configuration, "refuse") == 0) {
        snprintf(error, size, "the shop is closed");
        return 1;
    }
    if (strcmp(configuration, "crash") == 0) raise(SIGSEGV);
    if (strncmp(configuration, "hang ", 5) == 0) {
        snprintf(folder, sizeof folder, "%s", configuration + 5);
        snprintf(text, sizeof text, "%d\n", (int)getpid());
        note("opening", text);
        for (;;) pause();
    }
    snprintf(folder, sizeof folder, "%s", configuration);
    snprintf(text, sizeof text, "%d\n", (int)getpid());
    note("starts", text);
    return 0;
}

#if defined(UPSTREAM_HAS) && !defined(NO_HANDLE)
static void note_trace(const upstream_message *message)
{
    char line[1200];
    /* As the first release's hosts gave it. */
    upstream_message old = *message;
    old.struct_size = offsetof(upstream_message, traceparent);
    if (UPSTREAM_HAS(&old, traceparent) || !UPSTREAM_HAS(&old, attempt) || !UPSTREAM_HAS(message, tracestate)) abort();
    old.struct_size = offsetof(upstream_message, tracestate);
    if (UPSTREAM_HAS(&old, tracestate) || !UPSTREAM_HAS(&old, traceparent)) abort();
    snprintf(
        line, sizeof line, "%s %s\n", message->traceparent.bytes == NULL ? "-" : message->traceparent.bytes,
        message->tracestate.bytes == NULL ? "-" : message->tracestate.bytes);
    note("traces", line);
}
#endif

#ifndef NO_HANDLE
/* Runs one message; returns what the call is to return at once, or -1 to go on. */
static int act(const upstream_message *message, upstream_outcome *outcome)
{
    const char *data = message->data.bytes == NULL ? "" : message->data.bytes;
#ifdef UPSTREAM_HAS
    if (strstr(data, "trace")) note_trace(message);
#endif
    if (strstr(data, "wait")) {
        char gate[1200];
        snprintf(gate, sizeof gate, "%s/gate", folder);
        close(open(gate, O_RDONLY));
    }
    if (strstr(data, "regroup") && setpgid(0, getpgid(getppid())) != 0) exit(3);
    if (strstr(data, "segfault")) *(volatile int *)8 = 1;
    if (strstr(data, "abort")) abort();
    if (strstr(data, "exit0")) exit(0);
    if (strstr(data, "loop") && !strstr(data, "fork")) for (;;) usleep(1000);
    if (strstr(data, "kill")) kill(getpid(), SIGKILL);
    if (strstr(data, "orphan")) kill(getppid(), SIGKILL);
    if (strstr(data, "scribble")) ((char *)(size_t)message->message_key.bytes)[0] = 'x';
    if (strstr(data, "allocate")) {
        volatile char *memory = malloc((size_t)1 << 30);
        for (size_t place = 0; place < (size_t)1 << 30; place += 4096) memory[place] = 1;
    }
    if (strstr(data, "garbage")) {
        static const char rubbish[] = "{\"outcome\":\"done\"}\n\x01\x02\xff\xff\xff\xff\n";
        int descriptor;
        for (descriptor = 0; descriptor < 1024; descriptor++) {
            if (write(descriptor, rubbish, sizeof rubbish - 1) < 0) continue;
        }
    }
    if (strstr(data, "close")) closefrom(0);
    if (strstr(data, "fork")) {
        char text[32];
        const pid_t child = fork();
        if (child == 0) {
            if (strstr(data, "forkreturn")) return 0;
            if (strstr(data, "forkaway")) setsid();
            for (;;) pause();
        }
        while (strstr(data, "forkaway") && getsid(child) != child) sched_yield();
        snprintf(text, sizeof text, "%d\n", (int)child);
        note("children", text);
        if (strstr(data, "forkaway crash")) abort();
        if (strstr(data, "forkloop")) for (;;) pause();
        if (strstr(data, "forkreturn")) waitpid(child, NULL, 0);
    }
    if (strstr(data, "stdout")) printf("hello from the plugin\n"), fflush(stdout);
    if (strstr(data, "unavailable")) return 7;
    if (strstr(data, "unset")) return -1;
    if (strstr(data, "unknown")) {
        outcome->kind = 77;
    } else if (strstr(data, "retry")) {
        upstream_retry(outcome, 90000, "busy");
    } else if (strstr(data, "reject")) {
        upstream_reject(outcome, "no");
    } else if (strstr(data, "long")) {
        char reason[5000];
        memset(reason, 'r', sizeof reason);
        reason[sizeof reason - 1] = 0;
        upstream_reject(outcome, reason);
        if (strstr(data, "longer")) outcome->reason_length = (size_t)1 << 40;
    } else {
        upstream_done(outcome);
    }
    return -1;
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_handle(
    const upstream_message *const *messages, size_t count, upstream_outcome *const *outcomes)
{
    char line[256];
    snprintf(line, sizeof line, "call %d of %zu\n", (int)getpid(), count);
    note("calls", line);
    for (size_t i = 0; i < count; i++) {
        snprintf(
            line, sizeof line, "%s %u %.100s\n", messages[i]->message_key.bytes, (unsigned)messages[i]->attempt,
            messages[i]->data.bytes == NULL ? "-" : messages[i]->data.bytes);
        note("messages", line);
        const int result = act(messages[i], outcomes[i]);
        if (result >= 0) return result;
    }
    return 0;
}
#endif

UPSTREAM_PLUGIN_EXPORT void upstream_plugin_close(void)
{
    note("closed", "closed\n");
}
