/*
 * A standby against processes that wait, hang, die or talk too early: which are taken, which are
 * replaced, and when none follows. The worker program is this one, started by its name shoal-worker;
 * the part that it plays is the name of its model.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/base/program_spawn.h"
#include "frontend/serve/settings/option_parser.h"
#include "frontend/serve/worker/worker_standby.h"
#include "shm/segment.h"

#define PATIENCE 20000 /* ms */
#define PAUSE    1000  /* of worker_standby.c, before another process */

/* --- the worker ------------------------------------------------------------------------------ */

static const char *flag_text(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return "";
}

static int flag_value(int argc, char **argv, const char *name)
{
    return atoi(flag_text(argc, argv, name));
}

static void state_tell(struct segment *segment, struct doorbell *bell, enum worker_state state)
{
    atomic_store_explicit(&segment->gauges->state, state, memory_order_release);
    doorbell_ring(bell);
}

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

/* `beat`: its heartbeat goes on. */
static void eventfd_wait(int fd, struct segment *segment, bool beat)
{
    uint64_t count;
    while (read(fd, &count, sizeof count) != sizeof count) {
        if (beat)
            atomic_fetch_add(&segment->gauges->heartbeat, 1);
        usleep(2000);
    }
}

static void event_send(struct segment *segment, struct doorbell *bell)
{
    struct spsc_ring events;
    void *place;
    spsc_ring_attach_producer(&events, segment->event_shared, segment->event_records,
                              sizeof(struct token_event), segment->event_capacity);
    if (spsc_ring_claim(&events, &place) != RESULT_OK)
        exit(9);
    *(struct token_event *)place = (struct token_event){.kind = TOKEN_EVENT_TOKEN, .token = 1};
    spsc_ring_commit(&events);
    doorbell_ring(bell);
}

static int play(int argc, char **argv)
{
    struct segment segment;
    struct error_text error;
    const char *part = flag_text(argc, argv, "--model");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (segment_attach(flag_value(argc, argv, "--segment-fd"), &segment, &error) != RESULT_OK)
        return 9;
    struct doorbell bell = {.shared = segment.event_bell,
                            .event_fd = flag_value(argc, argv, "--event-bell-fd")};
    int rung = flag_value(argc, argv, "--standby-fd");
    if (strcmp(part, "dies") == 0)
        return 2;
    if (strcmp(part, "hangs") == 0)
        sleep_for_ever();
    if (strcmp(part, "loads long") == 0) {
        eventfd_wait(rung, &segment, true);
        state_tell(&segment, &bell, WORKER_READY);
        sleep_for_ever();
    }
    state_tell(&segment, &bell, WORKER_STANDBY);
    if (strcmp(part, "talks") == 0)
        event_send(&segment, &bell);
    eventfd_wait(rung, &segment, false);
    state_tell(&segment, &bell, WORKER_READY);
    event_send(&segment, &bell);
    if (strcmp(part, "dies after an event") == 0)
        return 3;
    sleep_for_ever();
    return 0;
}

/* --- the test -------------------------------------------------------------------------------- */

static struct event_base *base;
static struct options options;
static struct worker_settings settings;
static struct worker_standby *standby;
static uint32_t generation;
static uint32_t bells;
static uint32_t events;

static void on_bell(void *context)
{
    (void)context;
    bells++;
}

static void on_corrupt(void *context, const char *why)
{
    (void)context;
    fail_msg("%s", why);
}

static enum result on_event(void *context, uint32_t worker, const struct token_event *event)
{
    (void)context;
    (void)worker;
    assert_int_equal(event->token, 1);
    events++;
    return RESULT_OK;
}

static void on_batch_end(void *context)
{
    (void)context;
}

static const struct worker_link_owner server = {
    .bell = on_bell,
    .corrupt = on_corrupt,
    .listener = {.ready = on_batch_end, .event = on_event, .batch_end = on_batch_end}};

static int setup(void **state)
{
    (void)state;
    static char *arguments[] = {"--model",   "m",  "--device",         "cpu",
                                "--standby", "on", "--worker-timeout", "1"};
    char path[PROGRAM_PATH_BYTES];
    char self[PROGRAM_PATH_BYTES] = "";
    struct error_text error;
    if (options_parse(OPTIONS_SERVE, sizeof arguments / sizeof arguments[0], arguments, &options,
                      &error) != RESULT_OK ||
        program_path("shoal-worker", path, &error) != RESULT_OK ||
        readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        return -1;
    if (symlink(self, path) != 0 && errno != EEXIST)
        return -1;
    base = event_base_new();
    settings = (struct worker_settings){.base = base,
                                        .options = &options,
                                        .weights = vault_holder_create(DEVICE_CPU, "test"),
                                        .adapter_memory = -1,
                                        .device_workers = 1,
                                        .live_requests = 4};
    generation = bells = events = 0;
    standby = worker_standby_create(&settings, &generation);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    worker_standby_destroy(standby);
    vault_holder_destroy(settings.weights);
    event_base_free(base);
    return 0;
}

static void begin(const char *part)
{
    options.model = part;
    worker_standby_begin(standby, -1);
}

static void turn(void)
{
    event_base_loop(base, EVLOOP_NONBLOCK);
    usleep(1000);
}

static void run_until(const char *state)
{
    int64_t until = monotonic_clock_ms() + PATIENCE;
    while (strcmp(worker_standby_state_name(standby), state) != 0) {
        assert_true(monotonic_clock_ms() < until);
        turn();
    }
}

static void run_for(int64_t ms)
{
    int64_t until = monotonic_clock_ms() + ms;
    while (monotonic_clock_ms() < until)
        turn();
}

static void run_until_count(const uint32_t *count, uint32_t value)
{
    int64_t until = monotonic_clock_ms() + PATIENCE;
    while (*count < value) {
        assert_true(monotonic_clock_ms() < until);
        turn();
    }
}

/* Ends the taken process as a supervisor does. */
static void run_end(struct worker_run *run)
{
    struct error_text how;
    child_process_kill(&run->process);
    (void)child_process_reap(&run->process, &how);
    worker_link_destroy(run->link);
}

static void one_that_waits_is_taken(void **state)
{
    (void)state;
    struct worker_run run;
    assert_false(worker_standby_take(standby, &server, &run)); /* there is none */
    begin("waits");
    assert_string_equal(worker_standby_state_name(standby), "loading");
    run_until("waiting");
    int pid = worker_standby_pid(standby);
    worker_standby_begin(standby, -1); /* there is one */
    assert_int_equal(worker_standby_pid(standby), pid);
    assert_true(worker_standby_take(standby, &server, &run));
    assert_int_equal(run.process.pid, pid);
    assert_string_equal(worker_standby_state_name(standby), "none");
    assert_int_equal(worker_standby_pid(standby), 0);
    worker_link_set_vocab(run.link, 10);
    run_until_count(&events, 1);
    assert_true(bells > 0);
    run_for(PAUSE + 300);
    assert_int_equal(generation, 1); /* no other one before the next begin */
    run_end(&run);
}

static void one_that_loads_is_taken_and_goes_on(void **state)
{
    (void)state;
    struct worker_run run;
    begin("loads long");
    run_for(1500); /* its heartbeat goes on, so the timeout of 1 s does not end it */
    assert_string_equal(worker_standby_state_name(standby), "loading");
    assert_true(worker_standby_take(standby, &server, &run));
    run_until_count(&bells, 1);
    run_end(&run);
}

static void one_that_dies_after_an_event_has_sent_it(void **state)
{
    (void)state;
    struct worker_run run;
    struct error_text how;
    begin("dies after an event");
    run_until("waiting");
    assert_true(worker_standby_take(standby, &server, &run));
    worker_link_set_vocab(run.link, 10);
    assert_int_equal(child_process_reap(&run.process, &how) >> 8, 3);
    worker_link_take_rest(run.link);
    assert_int_equal(events, 1);
    worker_link_destroy(run.link);
    begin("waits"); /* the next one, as after a supervisor's restart */
    run_until("waiting");
    assert_int_equal(generation, 2);
}

static void one_that_is_killed_is_replaced_and_not_taken(void **state)
{
    (void)state;
    struct worker_run run;
    begin("waits");
    run_until("waiting");
    int pid = worker_standby_pid(standby);
    assert_int_equal(kill(pid, SIGKILL), 0);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_false(
        worker_standby_take(standby, &server, &run)); /* the loop does not know of it yet */
    run_until("none");
    run_until("waiting");
    assert_int_not_equal(worker_standby_pid(standby), pid);
    assert_int_equal(generation, 2);
}

static void one_that_hangs_while_loading_is_killed(void **state)
{
    (void)state;
    int64_t begun = monotonic_clock_ms();
    begin("hangs");
    int pid = worker_standby_pid(standby);
    run_until("none");
    assert_in_range(monotonic_clock_ms() - begun, 1000, PATIENCE);
    assert_int_equal(kill(pid, 0), -1); /* reaped */
    run_until("loading");
    run_until("none");
    assert_int_equal(generation, 2);
    run_for(PAUSE + 500); /* two failures in a row: none follows */
    assert_int_equal(generation, 2);
    begin("waits");
    run_until("waiting");
}

static void two_that_die_while_loading_are_enough(void **state)
{
    (void)state;
    begin("dies");
    run_until("none");
    assert_int_equal(generation, 1);
    run_for(2 * PAUSE + 800);
    assert_int_equal(generation, 2);
    assert_string_equal(worker_standby_state_name(standby), "none");
    begin("dies"); /* counts anew, and one that waits in between forgets the first */
    run_until("none");
    options.model = "waits";
    run_until("waiting");
    assert_int_equal(kill(worker_standby_pid(standby), SIGKILL), 0);
    run_until("none");
    run_until("waiting");
    assert_int_equal(generation, 5);
}

static void one_that_talks_before_it_is_rung_is_killed(void **state)
{
    (void)state;
    begin("talks");
    int pid = worker_standby_pid(standby);
    options.model = "waits";
    int64_t until = monotonic_clock_ms() + PATIENCE;
    while (worker_standby_pid(standby) == pid) {
        assert_true(monotonic_clock_ms() < until);
        turn();
    }
    run_until("waiting");
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(events, 0);
}

static void a_dropped_one_is_gone_at_once(void **state)
{
    (void)state;
    begin("waits");
    run_until("waiting");
    int pid = worker_standby_pid(standby);
    worker_standby_drop(standby);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    run_for(PAUSE + 300);
    assert_int_equal(generation, 1);
    worker_standby_drop(standby);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--segment-fd") == 0)
        return play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_waits_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_loads_is_taken_and_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_dies_after_an_event_has_sent_it, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_killed_is_replaced_and_not_taken, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_hangs_while_loading_is_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(two_that_die_while_loading_are_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_talks_before_it_is_rung_is_killed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_dropped_one_is_gone_at_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
