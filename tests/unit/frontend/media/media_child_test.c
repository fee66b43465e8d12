/*
 * A media process that does what it likes, from the frontend's side: each way to break the agreement
 * has its outcome, and the frontend is left as it was.
 *
 * This program is also the hostile process: it is started through a symbolic link, whose name says
 * what to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/base/program_spawn.h"
#include "frontend/media/media_child.h"
#include "frontend/media/media_service.h"
#include "proto/must.h"
#include "tests/support/sanitized.h"

#define WIDTH  40u
#define HEIGHT 30u

/* --- the hostile process ---------------------------------------------------------------------- */

struct visit {
    struct media_request request;
    struct media_reply reply;
    uint8_t *pixels; /* the whole area of pixels */
    size_t reply_bytes;
    bool sends_descriptor;
};

static void send_bytes(const void *bytes, size_t count, int descriptor)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    must(sendmsg(MEDIA_SOCKET_FD, &message, MSG_NOSIGNAL) == (ssize_t)count);
}

static void be_honest(struct visit *visit)
{
    (void)visit;
}

/* The area keeps its size and its seals. */
static void change_size(struct visit *visit)
{
    (void)visit;
    must(ftruncate(MEDIA_AREA_FD, 0) != 0 && ftruncate(MEDIA_AREA_FD, 1 << 30) != 0);
    must(fcntl(MEDIA_AREA_FD, F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

static void punch_holes(struct visit *visit)
{
    must(fallocate(MEDIA_AREA_FD, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                   (off_t)MEDIA_AREA_BYTES) == 0);
    memset(visit->pixels, 200, WIDTH * HEIGHT * 3);
}

static void send_descriptor(struct visit *visit)
{
    visit->sends_descriptor = true;
}

/* What an end looks like at the other side, from a process that goes on. */
static void send_nothing(struct visit *visit)
{
    visit->reply_bytes = 0;
}

static void close_socket(struct visit *visit)
{
    (void)visit;
    close(MEDIA_SOCKET_FD);
    pause();
}

static void send_nothing_and_close(struct visit *visit)
{
    send_bytes(&visit->reply, 0, -1);
    close_socket(visit);
}

static void other_id(struct visit *visit)
{
    visit->reply.id++;
}

static void short_reply(struct visit *visit)
{
    visit->reply_bytes = 100;
}

static void long_reply(struct visit *visit)
{
    visit->reply_bytes = sizeof visit->reply + 100;
}

static void endless_text(struct visit *visit)
{
    visit->reply.result = RESULT_INVALID;
    memset(visit->reply.text, 'a', sizeof visit->reply.text);
}

static void huge_header(struct visit *visit)
{
    visit->reply.kind = IMAGE_PNG;
    visit->reply.width = visit->reply.height = UINT32_MAX;
    visit->reply.orientation = visit->reply.scans = 1;
}

static void end(struct visit *visit)
{
    (void)visit;
    _exit(0);
}

static void crash(struct visit *visit)
{
    (void)visit;
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void be_killed(struct visit *visit)
{
    (void)visit;
    raise(SIGKILL);
}

static void spin(struct visit *visit)
{
    for (volatile uint32_t i = 0;; i++)
        (void)visit;
}

static void sleep_on(struct visit *visit)
{
    (void)visit;
    pause();
}

static const struct conduct {
    const char *name;
    void (*act)(struct visit *visit);
    enum media_action action;
    enum media_outcome outcome;
} conducts[] = {
    {"honest", be_honest, MEDIA_DECODE, MEDIA_ANSWERED},
    {"changes-size", change_size, MEDIA_DECODE, MEDIA_ANSWERED},
    {"punches-holes", punch_holes, MEDIA_DECODE, MEDIA_ANSWERED},
    {"sends-descriptor", send_descriptor, MEDIA_DECODE, MEDIA_ANSWERED},
    {"other-id", other_id, MEDIA_DECODE, MEDIA_CRASHED},
    {"short", short_reply, MEDIA_DECODE, MEDIA_CRASHED},
    {"empty", send_nothing, MEDIA_DECODE, MEDIA_CRASHED},
    {"closes", close_socket, MEDIA_DECODE, MEDIA_CRASHED},
    {"empty-and-closes", send_nothing_and_close, MEDIA_PROBE, MEDIA_CRASHED},
    {"long", long_reply, MEDIA_DECODE, MEDIA_CRASHED},
    {"endless-text", endless_text, MEDIA_DECODE, MEDIA_CRASHED},
    {"header-of-decode", huge_header, MEDIA_DECODE, MEDIA_CRASHED},
    {"huge-header", huge_header, MEDIA_PROBE, MEDIA_CRASHED},
    {"ends", end, MEDIA_DECODE, MEDIA_CRASHED},
    {"crashes", crash, MEDIA_DECODE, MEDIA_CRASHED},
    {"killed", be_killed, MEDIA_PROBE, MEDIA_KILLED},
    {"spins", spin, MEDIA_PROBE, MEDIA_OVER_BUDGET},
    {"sleeps", sleep_on, MEDIA_PROBE, MEDIA_CANCELLED},
    {"mute", NULL, MEDIA_PROBE, MEDIA_NOT_STARTED},
    {"no-greeting", NULL, MEDIA_PROBE, MEDIA_NOT_STARTED},
};
#define CONDUCTS (sizeof conducts / sizeof conducts[0])

static void hostile_main(const char *name)
{
    struct visit visit = {.reply_bytes = sizeof visit.reply};
    const struct media_reply greeting = {.result = RESULT_OK};
    const struct conduct *conduct = &conducts[0];
    while (strcmp(conduct->name, name) != 0)
        conduct++;
    if (strcmp(name, "no-greeting") == 0)
        _exit(7);
    send_bytes(&greeting, conduct->act ? sizeof greeting : 1, -1);
    must(recv(MEDIA_SOCKET_FD, &visit.request, sizeof visit.request, 0) ==
         (ssize_t)sizeof visit.request);
    visit.pixels = mmap(NULL, MEDIA_PIXELS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, MEDIA_AREA_FD,
                        (off_t)MEDIA_PIXELS_OFFSET);
    must(visit.pixels != MAP_FAILED);
    memset(visit.pixels, 200, WIDTH * HEIGHT * 3);
    visit.reply = (struct media_reply){.id = visit.request.id, .result = RESULT_OK};
    conduct->act(&visit);
    char bytes[sizeof visit.reply + 100] = {0};
    memcpy(bytes, &visit.reply, sizeof visit.reply);
    send_bytes(bytes, visit.reply_bytes, visit.sends_descriptor ? STDERR_FILENO : -1);
    pause();
}

/* --- the frontend ----------------------------------------------------------------------------- */

static char folder[64];

static int setup(void **state)
{
    (void)state;
    char own[PROGRAM_PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-media-child-XXXXXX");
    assert_non_null(mkdtemp(folder));
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    assert_true(length > 0);
    own[length] = '\0';
    for (size_t i = 0; i < CONDUCTS; i++) {
        char path[200];
        (void)snprintf(path, sizeof path, "%s/%s", folder, conducts[i].name);
        assert_int_equal(symlink(own, path), 0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONDUCTS; i++) {
        char path[200];
        (void)snprintf(path, sizeof path, "%s/%s", folder, conducts[i].name);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *listing = opendir("/proc/self/fd");
    assert_non_null(listing);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count;
}

static enum media_outcome ask_conduct(const struct conduct *conduct, struct media_child *child,
                                      struct image_pixels *pixels)
{
    static const uint8_t bytes[100];
    static const atomic_bool cancelled = true;
    struct media_reply reply;
    struct error_text error = {""};
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", folder, conduct->name);
    const struct image_header header = {IMAGE_PNG, WIDTH, HEIGHT, 1, 1};
    const struct image_input input = {bytes, sizeof bytes,
                                      conduct->outcome == MEDIA_CANCELLED ? &cancelled : NULL};
    const struct media_question question = {.action = conduct->action,
                                            .input = &input,
                                            .header =
                                                conduct->action == MEDIA_DECODE ? &header : NULL};
    assert_int_equal(media_child_open(child, path, &error), RESULT_OK);
    enum media_outcome outcome = media_child_ask(child, &question, &reply, pixels, &error);
    if (outcome != conduct->outcome)
        fail_msg("%s: outcome %d instead of %d: %s", conduct->name, outcome, conduct->outcome,
                 error.text);
    assert_true(outcome == MEDIA_ANSWERED || error.text[0] != '\0');
    return outcome;
}

static void each_conduct_has_its_outcome(void **state)
{
    (void)state;
    size_t before = open_descriptors();
    for (size_t i = 0; i < CONDUCTS; i++) {
        struct media_child child = {0};
        struct image_pixels pixels = {0};
        if (SANITIZED && conducts[i].act == spin)
            continue; /* its budget is 20 times as long there */
        enum media_outcome outcome = ask_conduct(&conducts[i], &child, &pixels);
        assert_true(media_child_is_alive(&child) == (outcome == MEDIA_ANSWERED));
        if (outcome == MEDIA_ANSWERED) {
            assert_true(pixels.width == WIDTH && pixels.height == HEIGHT);
            for (size_t at = 0; at < WIDTH * HEIGHT * 3; at++)
                assert_int_equal(pixels.rgb[at], 200);
            image_pixels_fini(&pixels);
        }
        media_child_close(&child, NULL);
        media_child_close(&child, NULL); /* safe */
        assert_int_equal(open_descriptors(), before);
    }
}

static void a_missing_program_is_an_error(void **state)
{
    (void)state;
    size_t before = open_descriptors();
    struct media_child child = {0};
    struct error_text error = {""};
    assert_int_equal(media_child_open(&child, "/nowhere/shoal-media", &error), RESULT_IO);
    assert_true(strstr(error.text, "/nowhere/shoal-media") != NULL);
    assert_false(media_child_is_alive(&child));
    assert_int_equal(open_descriptors(), before);
}

static void cpu_time_is_counted_over_processes(void **state)
{
    (void)state;
    struct media_child child = {0};
    struct image_pixels pixels = {0};
    (void)ask_conduct(&conducts[0], &child, &pixels);
    image_pixels_fini(&pixels);
    int64_t first_us = child.total_cpu_us;
    assert_true(first_us > 0);
    media_child_close(&child, NULL);
    (void)ask_conduct(&conducts[0], &child, &pixels);
    image_pixels_fini(&pixels);
    assert_true(child.total_cpu_us > first_us);
    assert_int_equal(child.total_cpu_us, first_us + child.cpu_us);
    media_child_close(&child, NULL);
}

int main(int argc, char *argv[])
{
    const char *name = strrchr(argv[0], '/');
    if (argc == 2 && name && strstr(argv[0], "shoal-media-child-"))
        hostile_main(name + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_conduct_has_its_outcome),
        cmocka_unit_test(a_missing_program_is_an_error),
        cmocka_unit_test(cpu_time_is_counted_over_processes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
