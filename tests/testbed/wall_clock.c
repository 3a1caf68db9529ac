/* Wall time of one's own: LD_PRELOAD this, and CLOCK_REALTIME is off by the seconds that the file $WALL_OFFSET_FILE holds (8
   bytes, native order). All other clocks are left alone. For tests/faults/test_wall_clock.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset_s;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *file = getenv("WALL_OFFSET_FILE");
    int descriptor = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) return;
    void *page = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (page != MAP_FAILED) offset_s = page;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!real_clock_gettime) begin();
    int result = real_clock_gettime(clock, at);
    if (result == 0 && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += *offset_s;
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
