/* Starts the runner, gives it commands, and watches for its end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

/* The minimum time between two starts in milliseconds: a plugin that always crashes must not take a core. */
#define PACE 100

/* How often a long wait checks for the end of the worker or the runner, in case a signal came too early. */
#define SLICE 50

/* The number of searches for orphans before giving up on a plugin that starts them faster than they are killed. */
#define ORPHAN_ROUNDS 1000

static struct shared *shared;
static struct plugin *plugin;
/* The source of the worker's requests; -1 if there is none. */
static int worker;
/* The leader of its own process group; 0 if there is none. */
static volatile pid_t runner;
/* Whether a child may have ended since the last check. */
static volatile sig_atomic_t child_ended;
static int64_t may_start;
/* Lists our children if the kernel has CONFIG_PROC_CHILDREN, as in distributions (proc(5)). */
static char children_file[64];

static int64_t milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Also interrupts a wait. */
static void note_child(int signal)
{
    (void)signal;
    child_ended = 1;
}

/* Kills the runner's group, and the runner itself, which may have joined another group. Only before it is reaped. */
static void kill_all(pid_t process)
{
    kill(-process, SIGKILL);
    kill(process, SIGKILL);
}

/* Kills and reaps the runner's descendants in any session and group: they have become our children
   (PR_SET_CHILD_SUBREAPER), and what they started becomes our child when they end. Only while there is no runner.
   Safe in a signal handler. */
static void end_orphans(void)
{
    for (int round = 0; round < ORPHAN_ROUNDS; round++) {
        char text[4096];
        const int file = open(children_file, O_RDONLY | O_CLOEXEC);
        if (file < 0) return;
        const ssize_t length = read(file, text, sizeof text);
        close(file);
        if (length <= 0) return;
        /* A space follows each number. */
        pid_t orphan = 0;
        for (ssize_t i = 0; i < length; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                orphan = orphan * 10 + (text[i] - '0');
            } else if (orphan > 0) {
                kill(orphan, SIGKILL);
                while (waitpid(orphan, NULL, 0) == -1 && errno == EINTR) {}
                orphan = 0;
            }
        }
    }
}

/* Reaps orphans that have ended by themselves, up to the runner's own end. */
static void reap_orphans(void)
{
    siginfo_t how;
    for (;;) {
        memset(&how, 0, sizeof how);
        if (waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0 || how.si_pid == runner) return;
        waitpid(how.si_pid, NULL, 0);
    }
}

/* Reaps the runner, and first kills the rest of its group: until the zombie is reaped, no other group can get its
   id. */
static void bury(siginfo_t *how)
{
    const pid_t ended = runner;
    kill_all(ended);
    runner = 0;
    while (waitid(P_PID, (id_t)ended, how, WEXITED) != 0 && errno == EINTR) {}
    end_orphans();
}

/* Handles the worker's signal: nothing that the plugin started may outlive us. */
static void end(int signal)
{
    siginfo_t how;
    if (runner > 0) bury(&how);
    _exit(128 + signal);
}

void start_supervising(struct shared *mapping, struct plugin *started, int from)
{
    shared = mapping;
    plugin = started;
    worker = from;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(children_file, sizeof children_file, "/proc/self/task/%d/children", (int)getpid());
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note_child;
    sigaction(SIGCHLD, &action, NULL);
    action.sa_handler = end;
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

/* Whether the runner has ended, and how. */
static bool has_ended(char detail[DETAIL_SIZE])
{
    siginfo_t how;
    memset(&how, 0, sizeof how);
    if (runner == 0) return true;
    child_ended = 0;
    reap_orphans();
    if (waitid(P_PID, (id_t)runner, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid == 0) return false;
    bury(&how);
    if (how.si_code == CLD_EXITED) {
        snprintf(detail, DETAIL_SIZE, "it called exit(%d)", how.si_status);
    } else {
        snprintf(detail, DETAIL_SIZE, "signal %d (%s) ended it", how.si_status, strsignal(how.si_status));
    }
    return true;
}

/* Waits until the command is done; returns an END_*. */
static int wait_for(uint32_t command, unsigned milliseconds, char detail[DETAIL_SIZE])
{
    const int64_t deadline = milliseconds_now() + milliseconds;
    siginfo_t how;
    for (;;) {
        const uint32_t finished = atomic_load(&shared->finished);
        if (finished == command) return (int)shared->result;
        const int64_t left = deadline - milliseconds_now();
        if (left <= 0) {
            bury(&how);
            snprintf(detail, DETAIL_SIZE, "it took longer than %u ms and was killed", milliseconds);
            return END_TIMED_OUT;
        }
        const int64_t slice = left < SLICE ? left : SLICE;
        const struct timespec timeout = {.tv_sec = 0, .tv_nsec = slice * 1000000};
        if (syscall(SYS_futex, &shared->finished, FUTEX_WAIT, finished, &timeout, NULL, 0) == 0 || errno == EAGAIN) continue;
        /* It may have finished and ended since. */
        if (has_ended(detail)) return atomic_load(&shared->finished) == command ? (int)shared->result : END_CRASHED;
        /* Asks for no event; the end of the other side is always reported. */
        struct pollfd pipe = {.fd = worker, .events = 0};
        if (poll(&pipe, 1, 0) > 0) {
            /* Nobody waits for an answer any more. */
            if (runner > 0) bury(&how);
            _exit(0);
        }
    }
}

static uint32_t command(uint32_t kind)
{
    shared->kind = kind;
    shared->detail[0] = 0;
    const uint32_t number = atomic_fetch_add(&shared->command, 1) + 1;
    syscall(SYS_futex, &shared->command, FUTEX_WAKE, 1, NULL, NULL, 0);
    return number;
}

/* Copies the runner's text, which may be anything: the runner shares its memory with the plugin. */
static void copy_detail(char detail[DETAIL_SIZE])
{
    memcpy(detail, shared->detail, DETAIL_SIZE);
    detail[DETAIL_SIZE - 1] = 0;
}

static int checked(int end, char detail[DETAIL_SIZE])
{
    switch (end) {
    case END_RETURNED:
    case END_UNAVAILABLE:
    case END_NOT_LOADED:
        copy_detail(detail);
        return end;
    case END_CRASHED:
    case END_TIMED_OUT:
        return end;
    default: return END_UNAVAILABLE;
    }
}

/* Starts the runner unless it runs, and waits until the library is loaded and open. */
int start_runner(unsigned milliseconds, char detail[DETAIL_SIZE])
{
    detail[0] = 0;
    if (runner != 0 && (child_ended == 0 || !has_ended(detail))) return END_RETURNED;
    for (int64_t wait; (wait = may_start - milliseconds_now()) > 0;) {
        const struct timespec pause = {.tv_sec = 0, .tv_nsec = wait * 1000000};
        nanosleep(&pause, NULL);
    }
    const uint32_t number = command(REQUEST_OPEN);
    const pid_t supervisor = getpid();
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        run_plugin(shared, plugin, supervisor);
    }
    if (child < 0) {
        snprintf(detail, DETAIL_SIZE, "cannot start a process: %s", strerror(errno));
        return END_NOT_LOADED;
    }
    /* Both processes do, as either may be first. */
    setpgid(child, child);
    runner = child;
    may_start = milliseconds_now() + PACE;
    char how[DETAIL_SIZE] = "";
    const int end = checked(wait_for(number, milliseconds, how), detail);
    if (end == END_RETURNED) return end;
    if (end == END_CRASHED || end == END_TIMED_OUT) {
        snprintf(detail, DETAIL_SIZE, "'%s' could not be loaded and opened: %.700s", plugin->path, how);
    }
    stop_runner(0);
    return END_NOT_LOADED;
}

/* Has the runner carry out the call in the mapping. */
int call_runner(unsigned milliseconds, char detail[DETAIL_SIZE])
{
    const uint32_t number = command(REQUEST_HANDLE);
    char how[DETAIL_SIZE] = "";
    const int end = checked(wait_for(number, milliseconds, how), detail);
    if (end == END_CRASHED || end == END_TIMED_OUT) memcpy(detail, how, DETAIL_SIZE);
    return end;
}

/* Ends the runner, giving upstream_plugin_close that much time unless it is 0. */
void stop_runner(unsigned milliseconds)
{
    char detail[DETAIL_SIZE];
    siginfo_t how;
    if (runner == 0) return;
    if (milliseconds > 0 && !has_ended(detail)) {
        /* The worker has gone: its end must not cut this short. */
        worker = -1;
        (void)wait_for(command(REQUEST_CLOSE), milliseconds, detail);
    }
    if (runner != 0) bury(&how);
}
