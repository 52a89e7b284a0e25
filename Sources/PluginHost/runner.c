/* The process that runs the plugin's code. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

static struct shared *shared;
static pid_t supervisor, self;
static int (*handle)(const upstream_message *const *, size_t, upstream_outcome *const *);
static void (*close_plugin)(void);
static upstream_message messages[MESSAGE_LIMIT];
static const upstream_message *message_pointers[MESSAGE_LIMIT];
static upstream_outcome *outcome_pointers[MESSAGE_LIMIT];

/* Tells the supervisor that a command is done. */
static void finish(uint32_t command, uint32_t result)
{
    /* A child that the plugin forked returns from the call as well: only its parent reports. */
    if (getpid() != self) _exit(0);
    shared->result = result;
    atomic_store(&shared->finished, command);
    syscall(SYS_futex, &shared->finished, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint32_t wait_for_command(uint32_t last)
{
    for (;;) {
        const uint32_t command = atomic_load(&shared->command);
        if (command != last) return command;
        syscall(SYS_futex, &shared->command, FUTEX_WAIT, last, NULL, NULL, 0);
    }
}

/* Sets up signals, descriptors and memory for the plugin. */
static void settle_in(void)
{
    sigset_t none;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    /* All of them: a language's runtime may have caught some, and a crash must end the process. */
    for (int number = 1; number < NSIG; number++) {
        if (number != SIGPIPE) sigaction(number, &action, NULL);
    }
    /* Swift's runtime would catch them again, and write what it finds in memory to the log. */
    setenv("SWIFT_BACKTRACE", "enable=no", 1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Ends with the supervisor, however that ends. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) _exit(1);
    /* Leaves only the null device and the log: nothing of the worker's. */
    closefrom(3);
    mprotect(shared->frame, FRAME_LIMIT, PROT_READ);
}

/* Loads the library, and opens it unless it is only probed; returns an END_*. */
static uint32_t load(const struct plugin *plugin)
{
    uint32_t (*abi)(void);
    int (*open_plugin)(const char *, char *, size_t);
    const struct rlimit limit = {plugin->memory, plugin->memory};
    if (plugin->memory > 0 && setrlimit(RLIMIT_AS, &limit) != 0) {
        snprintf(shared->detail, DETAIL_SIZE, "cannot limit its memory: %s", strerror(errno));
        return END_NOT_LOADED;
    }
    void *library = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        snprintf(shared->detail, DETAIL_SIZE, "cannot load it: %s", reason == NULL ? "unknown error" : reason);
        return END_NOT_LOADED;
    }
    /* With dlsym, POSIX returns functions as pointers to data. */
    *(void **)&abi = dlsym(library, "upstream_plugin_abi");
    *(void **)&handle = dlsym(library, "upstream_plugin_handle");
    *(void **)&open_plugin = dlsym(library, "upstream_plugin_open");
    *(void **)&close_plugin = dlsym(library, "upstream_plugin_close");
    if (abi == NULL || handle == NULL) {
        snprintf(
            shared->detail, DETAIL_SIZE, "'%s' has no function %s (see upstream_plugin.h)", plugin->path,
            abi == NULL ? "upstream_plugin_abi" : "upstream_plugin_handle");
        return END_NOT_LOADED;
    }
    const unsigned version = abi();
    if (version != UPSTREAM_PLUGIN_ABI) {
        snprintf(
            shared->detail, DETAIL_SIZE,
            "'%s' is built for version %u of upstream_plugin.h, and this host is of version %u: build it anew", plugin->path,
            version, UPSTREAM_PLUGIN_ABI);
        return END_NOT_LOADED;
    }
    if (open_plugin == NULL || plugin->probes) return END_RETURNED;
    char error[DETAIL_SIZE - 64] = "";
    if (open_plugin(plugin->configuration == NULL ? "" : plugin->configuration, error, sizeof error) != 0) {
        error[sizeof error - 1] = 0;
        snprintf(shared->detail, DETAIL_SIZE, "upstream_plugin_open failed: %s", error[0] == 0 ? "it gives no reason" : error);
        return END_NOT_LOADED;
    }
    return END_RETURNED;
}

/* Gives the messages of the request to the plugin; returns an END_*. */
static uint32_t call(void)
{
    struct reader reader = {shared->frame + shared->start, shared->length, false};
    const uint32_t count = shared->count;
    for (uint32_t i = 0; i < count; i++) {
        upstream_message *message = &messages[i];
        message->struct_size = sizeof *message;
        message->received_at = (int64_t)read_number(&reader, 8);
        message->attempt = (uint32_t)read_number(&reader, 4);
        upstream_text *const texts[TEXTS] = {
            &message->message_key,        &message->message_id, &message->sender_id,   &message->category,
            &message->registration_token, &message->device_key, &message->data,        &message->extra,
            &message->message_type,       &message->replay_id,  &message->traceparent, &message->tracestate};
        for (int text = 0; text < TEXTS; text++) *texts[text] = read_text(&reader);
        message_pointers[i] = message;
        outcome_pointers[i] = &shared->slots[i].outcome;
    }
    if (reader.failed || reader.left != 0) {
        snprintf(shared->detail, DETAIL_SIZE, "the worker's request is malformed");
        return END_NOT_LOADED;
    }
    return handle(message_pointers, count, outcome_pointers) == 0 ? END_RETURNED : END_UNAVAILABLE;
}

_Noreturn void run_plugin(struct shared *mapping, const struct plugin *plugin, pid_t parent)
{
    shared = mapping;
    supervisor = parent;
    self = getpid();
    settle_in();
    uint32_t command = atomic_load(&shared->command);
    const uint32_t result = load(plugin);
    finish(command, result);
    for (;;) {
        command = wait_for_command(command);
        if (shared->kind == REQUEST_HANDLE) {
            finish(command, call());
        } else {
            if (close_plugin != NULL) close_plugin();
            finish(command, END_RETURNED);
            _exit(0);
        }
    }
}
