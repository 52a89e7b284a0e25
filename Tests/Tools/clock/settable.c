// A wall clock that a test sets while the program runs: LD_PRELOAD, and CLOCK_FILE with the seconds that it is ahead.
//
// Nothing but what the wall clock shows is changed, as when somebody sets it: libfaketime also moves timers of the monotonic clock, which
// then never end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    char text[32] = {0};
    const char *path = getenv("CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    return count > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
