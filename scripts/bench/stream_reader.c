/*
 * Reads many event streams at once and measures the server's CPU time for each event.
 *
 *   stream_reader PORT STREAMS SECONDS STEP_US PID < REQUEST
 *
 * Opens STREAMS connections to 127.0.0.1:PORT and sends REQUEST, a whole HTTP request, on each.
 * Once every stream has had WARM_EVENTS events, it measures for SECONDS and prints one line of JSON.
 * It must cost little beside the server, so it parses nothing: an empty line ends an event. It looks
 * for bytes every LOOK_US and is never woken, because on one machine the server would pay for that.
 *
 * STEP_US: the tokens of all streams are made at multiples of this time of the monotonic clock
 * (tests/process/scripted_worker.c). The delay of an event is the time since the last multiple;
 * the time that a gap between two events of one stream exceeds STEP_US was added on the way.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/must.h"

#define STREAMS_MAX   1024
#define SAMPLES_MAX   (1u << 23)
#define REQUEST_BYTES (1u << 16)
#define READ_BYTES    65536u
#define WARM_EVENTS   20u
#define LOOK_US       250

struct stream {
    int fd;
    bool line_ended; /* the last byte read was a line's end */
    uint32_t events;
    int64_t last_us;
};

struct samples {
    uint32_t count;
    int32_t *us; /* [SAMPLES_MAX] */
};

struct reader {
    struct stream streams[STREAMS_MAX];
    uint32_t stream_count;
    uint32_t warm; /* streams with WARM_EVENTS events */
    int64_t step_us;
    bool measuring;
    uint64_t events;
    struct samples added; /* by event, to the gap before it */
    struct samples delay; /* by read */
};

static int64_t clock_us(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void fail(const char *problem)
{
    fprintf(stderr, "stream_reader: %s: %s\n", problem, strerror(errno));
    exit(1);
}

/* --- streams --------------------------------------------------------------------------------- */

static void streams_open(struct reader *reader, int poll, int port, const char *request,
                         size_t request_bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (uint32_t i = 0; i < reader->stream_count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            fail("connect");
        if (send(fd, request, request_bytes, 0) != (ssize_t)request_bytes)
            fail("send");
        reader->streams[i].fd = fd;
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0)
            fail("epoll_ctl");
    }
}

static uint32_t count_events(struct stream *stream, const char *bytes, size_t count)
{
    uint32_t events = stream->line_ended && bytes[0] == '\n';
    const char *end = bytes + count;
    for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), "\n\n", 2)); at += 2)
        events++;
    stream->line_ended = end[-1] == '\n' && (count < 2 || end[-2] != '\n');
    return events;
}

static void sample_add(struct samples *samples, int64_t us)
{
    if (samples->count < SAMPLES_MAX)
        samples->us[samples->count++] = (int32_t)us;
}

static void stream_read(struct reader *reader, struct stream *stream)
{
    static char bytes[READ_BYTES];
    ssize_t count = recv(stream->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN)
        return;
    if (count <= 0)
        fail("a stream ended before the measurement did");
    uint32_t events = count_events(stream, bytes, (size_t)count);
    if (events == 0)
        return;
    int64_t now_us = clock_us();
    if (reader->measuring) {
        sample_add(&reader->delay, now_us % reader->step_us);
        sample_add(&reader->added, now_us - stream->last_us - reader->step_us);
        for (uint32_t i = 1; i < events; i++)
            sample_add(&reader->added, -reader->step_us);
        reader->events += events;
    }
    stream->last_us = now_us;
    reader->warm += stream->events < WARM_EVENTS && stream->events + events >= WARM_EVENTS;
    stream->events += events;
}

static void streams_read(struct reader *reader, int poll, int64_t until_us)
{
    struct epoll_event ready[64];
    while (clock_us() < until_us && (reader->measuring || reader->warm < reader->stream_count)) {
        int count = epoll_wait(poll, ready, sizeof ready / sizeof ready[0], 0);
        if (count == 0)
            (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = LOOK_US * 1000},
                                  NULL);
        for (int i = 0; i < count; i++)
            stream_read(reader, &reader->streams[ready[i].data.u32]);
    }
}

/* --- figures --------------------------------------------------------------------------------- */

struct cpu_time {
    double user_s;
    double system_s;
};

/* Of all threads of the process. */
static struct cpu_time cpu_time_of(int pid)
{
    char path[64], text[1024];
    unsigned long user, system;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path);
    size_t count = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[count] = '\0';
    const char *rest = strrchr(text, ')');
    must(rest && sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                        &system) == 2);
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    return (struct cpu_time){(double)user * tick_s, (double)system * tick_s};
}

static int compare_samples(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

static void percentiles_print(const char *name, struct samples *samples)
{
    must(samples->count > 0);
    qsort(samples->us, samples->count, sizeof *samples->us, compare_samples);
    printf(", \"%s_p50_us\": %d, \"%s_p99_us\": %d", name, samples->us[samples->count / 2], name,
           samples->us[(uint64_t)samples->count * 99 / 100]);
}

int main(int argc, char **argv)
{
    static struct reader reader;
    static char request[REQUEST_BYTES];
    if (argc != 6) {
        fprintf(stderr, "usage: stream_reader PORT STREAMS SECONDS STEP_US PID < REQUEST\n");
        return 2;
    }
    int poll = epoll_create1(0);
    int pid = atoi(argv[5]);
    double seconds = atof(argv[3]);
    reader.stream_count = (uint32_t)atoi(argv[2]);
    reader.step_us = atoi(argv[4]);
    reader.added.us = must_alloc(SAMPLES_MAX, sizeof *reader.added.us);
    reader.delay.us = must_alloc(SAMPLES_MAX, sizeof *reader.delay.us);
    must(poll >= 0 && reader.stream_count <= STREAMS_MAX && reader.step_us > 0);
    size_t request_bytes = fread(request, 1, sizeof request, stdin);
    streams_open(&reader, poll, atoi(argv[1]), request, request_bytes);
    streams_read(&reader, poll, clock_us() + 120000000);
    if (reader.warm < reader.stream_count)
        fail("the streams did not start within two minutes");
    reader.measuring = true;
    struct cpu_time before = cpu_time_of(pid);
    int64_t begin_us = clock_us();
    streams_read(&reader, poll, begin_us + (int64_t)(seconds * 1e6));
    double took_s = (double)(clock_us() - begin_us) / 1e6;
    struct cpu_time after = cpu_time_of(pid);
    printf(
        "{\"events\": %llu, \"reads\": %u, \"seconds\": %.6f, \"user_s\": %.3f, \"system_s\": %.3f",
        (unsigned long long)reader.events, reader.delay.count, took_s, after.user_s - before.user_s,
        after.system_s - before.system_s);
    percentiles_print("added", &reader.added);
    percentiles_print("delay", &reader.delay);
    printf("}\n");
    return 0;
}
