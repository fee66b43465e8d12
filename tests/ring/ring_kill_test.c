/*
 * The worker is killed at each instruction of the ring operations: ptrace single-steps the real
 * functions (claim, fill, commit, ring; peek, copy, release, prepare to sleep, cancel) and sends
 * SIGKILL after the first instruction, after the second, and so on to the end. The frontend must
 * then see all records of a commit or none, and all slots of a release free or none. The test fails
 * if ptrace is forbidden; ring_death_test.c covers the numbered steps without it. Under qemu, which has no ptrace,
 * qemu_death_plugin.c kills the worker.
 */
// tags: threads arm-deaths
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "shm/peer_watch.h"
#include "tests/ring/qemu_death.h"
#include "tests/support/process_pair.h"

#define CAPACITY 8u
#define BATCH    3u
/* in all, some 50 us each; a sanitizer's longer code is killed at every n-th instruction */
#define STEPS_MAX 60000

/* One operation; it runs once unharmed, so that every symbol is bound, then once to be killed. */
typedef void operation(struct process_pair *worker);

/* A run of it that ends by SIGKILL after `instructions`. */
struct short_run {
    operation *run;
    long instructions;
};

static void publish_batch(struct process_pair *worker)
{
    void *slot = NULL;
    for (uint32_t i = 0; i < BATCH; i++) {
        must(spsc_ring_claim(&worker->event, &slot) == RESULT_OK);
        memset(slot, 'x', sizeof(struct token_event));
    }
    spsc_ring_commit(&worker->event);
    doorbell_ring(&worker->event_bell);
}

static void consume_batch(struct process_pair *worker)
{
    const void *slot = NULL;
    struct submit_record copy;
    for (uint32_t i = 0; i < BATCH; i++) {
        must(spsc_ring_peek(&worker->submit, &slot) == RESULT_OK);
        memcpy(&copy, slot, sizeof copy);
        must(copy.kind == SUBMIT_RUN);
    }
    spsc_ring_release(&worker->submit);
    doorbell_prepare_sleep(&worker->submit_bell);
    doorbell_cancel_sleep(&worker->submit_bell);
}

static void run_unharmed(struct process_pair *worker, operation *run)
{
    doorbell_prepare_sleep(&worker->event_bell); /* stands for a sleeping frontend */
    run(worker);
    doorbell_woken(&worker->event_bell);
}

static void run_traced(struct process_pair *worker, void *argument)
{
    const struct short_run *death = argument;
    run_unharmed(worker, death->run);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(1);
    raise(SIGSTOP);
    death->run(worker);
    raise(SIGSTOP);
    _exit(0);
}

/* Under qemu. */
static void run_emulated(struct process_pair *worker, void *argument)
{
    const struct short_run *death = argument;
    run_unharmed(worker, death->run);
    doorbell_prepare_sleep(&worker->event_bell);
    (void)syscall(QEMU_DEATH_CALL, death->instructions);
    death->run(worker);
    (void)syscall(QEMU_DEATH_CALL, -1L);
}

/* qemu-aarch64 answers ptrace() so. */
static bool lacks_ptrace(void)
{
    errno = 0;
    return ptrace(PTRACE_PEEKDATA, getpid(), NULL, NULL) == -1 && errno == ENOSYS;
}

/* Kills the child and reaps it. */
static void kill_child(struct process_pair *pair)
{
    assert_int_equal(kill(pair->child, SIGKILL), 0);
    int status = process_pair_reap(pair);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/*
 * Starts `run` in a child and lets it take `instructions` steps of the second run, or all if there
 * are fewer. Returns the number taken. Fails the test if the child may not be traced.
 */
static long start_and_step(struct process_pair *pair, operation *run, long instructions)
{
    struct short_run death = {run, instructions};
    process_pair_start(pair, run_traced, &death);
    int status = 0;
    assert_int_equal(waitpid(pair->child, &status, 0), pair->child);
    if (!WIFSTOPPED(status))
        fail_msg("PTRACE_TRACEME failed (wait status %#x): this test needs ptrace",
                 (unsigned)status);
    doorbell_prepare_sleep(&pair->event_bell); /* so that the worker's ring goes all the way */
    for (long taken = 0; taken < instructions; taken++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pair->child, NULL, NULL), 0);
        assert_int_equal(waitpid(pair->child, &status, 0), pair->child);
        assert_true(WIFSTOPPED(status));
        if (WSTOPSIG(status) == SIGSTOP)
            return taken;
    }
    return instructions;
}

static void open_loaded(struct process_pair *pair)
{
    process_pair_open(pair, CAPACITY, CAPACITY, 4096);
    void *slot = NULL;
    for (uint32_t i = 0; i < 2 * BATCH; i++) {
        assert_int_equal(spsc_ring_claim(&pair->submit, &slot), RESULT_OK);
        ((struct submit_record *)slot)->kind = SUBMIT_RUN;
    }
    spsc_ring_commit(&pair->submit);
}

/* Starts `run` and kills it after so many instructions, or at its end; then false. */
static bool start_and_kill(struct process_pair *pair, operation *run, long instructions)
{
    if (!lacks_ptrace()) {
        const long taken = start_and_step(pair, run, instructions);
        kill_child(pair);
        return taken == instructions;
    }
    struct short_run death = {run, instructions};
    process_pair_start(pair, run_emulated, &death);
    int status = process_pair_reap(pair);
    if (process_pair_clean(status))
        return false;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return true;
}

/* Every how many instructions of `run` to kill it. */
static long choose_stride(operation *run)
{
    struct process_pair pair;
    if (lacks_ptrace())
        return 1;
    open_loaded(&pair);
    const long length = start_and_step(&pair, run, LONG_MAX);
    kill_child(&pair);
    process_pair_close(&pair);
    return 1 + length * length / 2 / STEPS_MAX;
}

static uint32_t count_whole_records(struct process_pair *pair)
{
    uint8_t expected[sizeof(struct token_event)];
    memset(expected, 'x', sizeof expected);
    const void *slot = NULL;
    uint32_t seen = 0;
    enum result result;
    while ((result = spsc_ring_peek(&pair->event, &slot)) == RESULT_OK) {
        assert_memory_equal(slot, expected, sizeof expected);
        seen++;
    }
    assert_int_equal(result, RESULT_EMPTY);
    return seen;
}

static uint32_t count_claimable(struct process_pair *pair)
{
    void *slot = NULL;
    uint32_t claimed = 0;
    enum result result;
    while ((result = spsc_ring_claim(&pair->submit, &slot)) == RESULT_OK)
        claimed++;
    assert_int_equal(result, RESULT_FULL);
    return claimed;
}

/* The effect of `run` must be all or nothing: `before` until the one instruction that publishes,
 * `after` from then on. */
static void kill_everywhere(operation *run, uint32_t (*effect)(struct process_pair *pair),
                            uint32_t before, uint32_t after)
{
    const long stride = choose_stride(run);
    uint32_t last = before;
    long instructions = 0;
    for (bool killed = true; killed; instructions += stride) {
        struct process_pair pair;
        open_loaded(&pair);
        killed = start_and_kill(&pair, run, instructions);
        /* The doorbell may have been rung or not; the survivor reads on either way and never waits
         * in vain. */
        (void)doorbell_wait(&pair.event_bell, -1, 0);
        uint32_t now = effect(&pair);
        assert_true(now == before || now == after);
        assert_true(now >= last);
        last = now;
        process_pair_close(&pair);
    }
    print_message("  %ld instructions, killed after every %ld\n", instructions - stride, stride);
    assert_true(instructions > 50);
    assert_int_equal(last, after);
}

static void producer_killed_at_every_instruction(void **state)
{
    (void)state;
    kill_everywhere(publish_batch, count_whole_records, BATCH, 2 * BATCH);
}

static void consumer_killed_at_every_instruction(void **state)
{
    (void)state;
    kill_everywhere(consume_batch, count_claimable, CAPACITY - BATCH, CAPACITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(producer_killed_at_every_instruction),
        cmocka_unit_test(consumer_killed_at_every_instruction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
