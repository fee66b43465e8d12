/*
 * Preloaded into a server by tests of clock jumps: adds the number of seconds that the file CLOCK_FILE
 * (set by the compiler's command line) holds, an int64_t that is read at each call, to the wall
 * clock. Other clocks are left as they are. Waits until a time of the wall clock are not translated:
 * a caller that computes one sees what a real clock that jumped afterwards would show it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;
static int (*real_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void attach(void)
{
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int fd = open(CLOCK_FILE, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED)
        offset_s = page;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = real_clock(clock, now);
    if (status == 0 && clock == CLOCK_REALTIME && offset_s)
        now->tv_sec += *offset_s;
    return status;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    *now = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
    return 0;
}
