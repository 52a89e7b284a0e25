#ifndef UPSTREAM_CGLIBC_SHIM_H
#define UPSTREAM_CGLIBC_SHIM_H

/* What Swift's own Glibc module leaves out. */

#include <arpa/nameser.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <resolv.h>
#include <string.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc declares these only with _GNU_SOURCE, which Swift's Glibc module lacks; declared here as documented. */
extern int pipe2(int ends[2], int flags);
extern void *memmem(const void *haystack, size_t haystack_length, const void *needle, size_t needle_length);

/* The number of bytes waiting to be read; Swift can't call variadic functions. */
static inline int upstream_unread(int descriptor) {
    int count = 0;
    return ioctl(descriptor, FIONREAD, &count) == 0 ? count : 0;
}

/* How many bytes a pipe holds (F_GETPIPE_SZ, which is GNU's; fcntl is variadic). */
static inline int upstream_pipe_size(int descriptor) { return fcntl(descriptor, 1032); }

extern void closefrom(int from);

/* A mutable global, which Swift 6 refuses. */
extern char **environ;
static inline char **upstream_environment(void) { return environ; }

/* Whether a child has ended; it stays a zombie, so that its id is not reused. siginfo_t's members are macros. */
static inline int upstream_has_ended(pid_t child) {
    siginfo_t information = {0};
    return waitid(P_PID, child, &information, WEXITED | WNOWAIT | WNOHANG) != 0 || information.si_pid != 0;
}

/* Starts a program as the leader of a new process group, with all signals at their defaults and unblocked, and only the
   three descriptors; -1 is /dev/null. Keeps or frees nothing of ours. Returns the process id, or a negative errno.

   With `bound`, the program is killed when the thread that started it ends, which it does when our process is killed:
   posix_spawn can't ask for that (prctl(2), PR_SET_PDEATHSIG).

   The child shares our memory until it runs the program, as posix_spawn's does: signals are blocked meanwhile, it makes
   system calls only, and it writes only to `failure`. */
__attribute__((noinline)) static inline pid_t upstream_start(
    const char *path, char *const arguments[], char *const environment[], int input, int output, int error, int bound) {
    volatile int failure = 0;
    const pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t child = vfork();
    if (child == 0) {
        struct sigaction action = {0};
        action.sa_handler = SIG_DFL;
        for (int number = 1; number < NSIG; number++) sigaction(number, &action, NULL);
        setpgid(0, 0);
        /* Away from 0 to 2 first: each may have any number. */
        const int in = input < 0 ? open("/dev/null", O_RDONLY) : fcntl(input, F_DUPFD, 3);
        const int out = output < 0 ? open("/dev/null", O_WRONLY) : fcntl(output, F_DUPFD, 3);
        const int err = error < 0 ? open("/dev/null", O_WRONLY) : fcntl(error, F_DUPFD, 3);
        if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) {
            failure = errno;
            _exit(127);
        }
        /* Nothing else of ours: a pipe that it held would never end for its reader. */
        closefrom(3);
        if (bound && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
            failure = errno;
            _exit(127);
        }
        /* The parent ended before the request took effect. */
        if (bound && getppid() != parent) _exit(127);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execve(path, arguments, environment);
        failure = errno;
        _exit(127);
    }
    const int number = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0) return -number;
    if (failure == 0) return child;
    while (waitpid(child, NULL, 0) == -1 && errno == EINTR) {}
    return -failure;
}

/* The first members of dl_iterate_phdr(3)'s description of an object; <link.h> has it only with _GNU_SOURCE. */
struct upstream_object {
    ElfW(Addr) base;
    const char *name;
    const ElfW(Phdr) *segments;
    ElfW(Half) count;
};
extern int dl_iterate_phdr(int (*visit)(struct upstream_object *object, size_t size, void *data), void *data);

/* A macro of <resolv.h> that clashes with the field. */
#undef p_type

static int upstream_release_segments(struct upstream_object *object, size_t size, void *data) {
    (void)size;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int index = 0; index < object->count; index++) {
        const ElfW(Phdr) *segment = &object->segments[index];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0) continue;
        const uintptr_t start = (object->base + segment->p_vaddr) & ~(uintptr_t)(page - 1);
        const size_t length = object->base + segment->p_vaddr + segment->p_filesz - start;
        if (madvise((void *)start, length, MADV_DONTNEED) == 0) *(size_t *)data += length;
    }
    return 0;
}

/* Releases the pages of all read-only segments, code and constants; they are read from the page cache again on use. Data
   that the loader relocates is in writable segments. Holds the loader's lock, so that no object is unloaded meanwhile.
   Returns the number of bytes released. */
static inline size_t upstream_release_code(void) {
    size_t bytes = 0;
    dl_iterate_phdr(upstream_release_segments, &bytes);
    return bytes;
}

/* A file's status. Several Swift modules have a `struct stat`, and which of them a source file gets depends on the files
   compiled beside it, so that it may or may not build. */
struct upstream_file {
    uint64_t device, inode, links;
    int64_t size;
    /* Nanoseconds since 1970-01-01 UTC. */
    int64_t modified;
    uint32_t mode, owner;
};

static inline int upstream_file_from(int result, const struct stat *status, struct upstream_file *file) {
    if (result == 0) {
        *file = (struct upstream_file){
            status->st_dev, status->st_ino, status->st_nlink, status->st_size,
            (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec, status->st_mode, status->st_uid};
    }
    return result;
}

static inline int upstream_stat(const char *path, struct upstream_file *file) {
    struct stat status;
    return upstream_file_from(stat(path, &status), &status, file);
}

static inline int upstream_lstat(const char *path, struct upstream_file *file) {
    struct stat status;
    return upstream_file_from(lstat(path, &status), &status, file);
}

static inline int upstream_fstat(int descriptor, struct upstream_file *file) {
    struct stat status;
    return upstream_file_from(fstat(descriptor, &status), &status, file);
}

/* Asks the name servers of /etc/resolv.conf, or the given IPv4 server, for a name's records and waits: over UDP, or over
   TCP if the answer doesn't fit. Applies no search list. The state is the call's own, so that threads may ask
   concurrently; the file is read anew each time.

   The system's time-outs apply, 5 s and 3 tries at most. Returns the answer's length whatever its code (more than `size`
   if it did not fit), or -1 if no server gave a usable answer. In C, because res_state has unions and bit fields that
   Swift can't set. */
static inline int upstream_dns_ask(
    const char *name, int type, const struct sockaddr_in *server, unsigned char *answer, int size) {
    struct __res_state state;
    unsigned char query[NS_PACKETSZ];
    memset(&state, 0, sizeof state);
    if (res_ninit(&state) != 0) return -1;
    if (server != NULL) {
        state.nsaddr_list[0] = *server;
        state.nscount = 1;
    }
    if (state.retrans > 5) state.retrans = 5;
    if (state.retry > 3) state.retry = 3;
    int length = res_nmkquery(&state, ns_o_query, name, ns_c_in, type, NULL, 0, NULL, query, sizeof query);
    if (length > 0) length = res_nsend(&state, query, length, answer, size);
    res_nclose(&state);
    return length;
}

#endif
