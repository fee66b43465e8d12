/*
 * A worker may die after any instruction of K1 to K4 (worker/cache/kv_ledger.h). A child process uses
 * pools, prefix cache and ledger in shared memory: blocks are taken, filled by steps, kept, evicted
 * and filled with other tokens. ptrace single-steps it, and after each instruction the test reads the
 * ledger as the next worker would: the memory is what a SIGKILL at this point leaves. Every
 * committed record must name the contents that its block has. The test fails if ptrace is
 * forbidden; the second test kills a child at the numbered steps without it.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "worker/cache/kv_pools.h"
#include "worker/cache/prefix_cache.h"

#define BLOCKS   2u
#define WORDS    4u /* of a block's contents */
#define PREFIXES 5u

/* What outlives the worker. */
struct shared {
    struct kv_ledger_record records[BLOCKS];
    volatile uint64_t contents[BLOCKS][WORDS]; /* written by steps: the first token of the prefix */
};

struct worker {
    struct shared *shared;
    struct kv_layout layout;
    struct kv_pools pools;
    struct kv_ledger *ledger;
};

static const struct keyed_hash_key key = {{1, 2}};

static struct shared *share(void)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED);
    return shared;
}

static void worker_open(struct worker *worker, struct shared *shared)
{
    const struct kv_ledger_memory memory = {
        .records = shared->records, .counts = {BLOCKS}, .key = key};
    *worker = (struct worker){.shared = shared, .layout = {.group_count = 1}};
    worker->layout.groups[0].kind = KV_FULL;
    must(kv_ledger_create(&memory, &worker->ledger) == RESULT_OK);
    struct kv_pools_options options = {.layout = &worker->layout,
                                       .blocks = {BLOCKS},
                                       .keeps_prefixes = true,
                                       .ledger = worker->ledger};
    must(kv_pools_init(&worker->pools, &options) == RESULT_OK);
}

static void worker_close(struct worker *worker)
{
    prefix_cache_detach(worker->pools.prefixes);
    kv_pools_fini(&worker->pools);
    kv_ledger_destroy(worker->ledger);
}

typedef void here(void *context, uint32_t step);

/* A block for the prefix that begins with `token`: taken, filled by a step, kept, given back. Calls
 * `at` after each numbered step. */
static void fill_block(struct worker *worker, uint32_t token, here *at, void *context)
{
    struct kv_block_ref ref;
    const struct prefix_block block = {.tokens = {token}};
    kv_pools_make_room(&worker->pools, 0, 1); /* K1 of the evicted block */
    at(context, 1);
    must(kv_block_pool_take(worker->pools.group[0], &ref) == RESULT_OK);
    kv_ledger_launched(worker->ledger); /* K3 */
    at(context, 2);
    volatile uint64_t *contents = worker->shared->contents[ref.block];
    contents[0] = contents[1] = token;
    at(context, 3);
    struct prefix_name name = prefix_cache_name(worker->pools.prefixes, &block);
    uint32_t place = prefix_cache_add(worker->pools.prefixes, name, &block);
    prefix_cache_keep(worker->pools.prefixes, place, 0, ref); /* K2 */
    at(context, 4);
    contents[2] = contents[3] = token; /* the step is done only now */
    at(context, 5);
    kv_ledger_finished(worker->ledger); /* K4 */
    at(context, 6);
    kv_block_pool_give(worker->pools.group[0], ref, KV_EVICT_LAST);
    at(context, 7);
}
#define NUMBERED_STEPS 7u

/* Every committed record names what its block holds. Returns their number. */
static uint32_t check_records(struct shared *shared)
{
    const struct kv_ledger_memory memory = {
        .records = shared->records, .counts = {BLOCKS}, .key = key};
    struct kv_ledger *ledger;
    uint32_t committed = 0;
    assert_int_equal(kv_ledger_create(&memory, &ledger), RESULT_OK);
    for (uint32_t number = 0; number < BLOCKS; number++) {
        struct kv_ledger_entry entry;
        enum result result = kv_ledger_read(ledger, 0, number, &entry);
        assert_int_not_equal(result, RESULT_CORRUPT);
        if (result != RESULT_OK)
            continue;
        committed++;
        assert_int_equal(entry.number, number);
        for (uint32_t i = 0; i < WORDS; i++)
            assert_int_equal(shared->contents[number][i], entry.block.tokens[0]);
    }
    kv_ledger_destroy(ledger);
    return committed;
}

/* --- every instruction ------------------------------------------------------------------------ */

static void go_on(void *context, uint32_t step)
{
    (void)context;
    (void)step;
}

static _Noreturn void run_traced(struct shared *shared)
{
    struct worker worker;
    worker_open(&worker, shared);
    for (uint32_t token = 1; token <= BLOCKS; token++) /* binds every symbol, fills all blocks */
        fill_block(&worker, token, go_on, NULL);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(1);
    raise(SIGSTOP);
    for (uint32_t token = BLOCKS + 1; token <= PREFIXES; token++)
        fill_block(&worker, token, go_on, NULL);
    raise(SIGSTOP);
    _exit(0);
}

static void test_each_instruction(void **state)
{
    (void)state;
    struct shared *shared = share();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_traced(shared);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status))
        fail_msg("PTRACE_TRACEME failed (wait status %#x): this test needs ptrace",
                 (unsigned)status);
    uint32_t seen[BLOCKS + 1] = {0}; /* instructions with so many committed records */
    for (;;) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status));
        if (WSTOPSIG(status) == SIGSTOP)
            break;
        seen[check_records(shared)]++;
    }
    assert_int_equal(seen[0], 0);
    assert_true(seen[BLOCKS - 1] > 100); /* from K1 to K4 a block is worth nothing */
    assert_true(seen[BLOCKS] > 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    munmap(shared, sizeof *shared);
}

/* --- the numbered steps ------------------------------------------------------------------------ */

struct death {
    uint32_t step;
    uint32_t left; /* blocks to fill before */
};

static void die_here(void *context, uint32_t step)
{
    const struct death *death = context;
    if (death->left == 0 && step == death->step)
        raise(SIGKILL);
}

/* The next worker finds the committed blocks, in the eviction order of the dead one, and fills the
 * others. */
static void check_next_worker(struct shared *shared, uint32_t committed)
{
    struct worker next;
    worker_open(&next, shared);
    struct prefix_restored restored = prefix_cache_restore(next.pools.prefixes);
    assert_int_equal(restored.blocks, committed);
    assert_int_equal(restored.damaged + restored.redundant, 0);
    assert_int_equal(kv_block_pool_idle(next.pools.group[0]), committed);
    assert_int_equal(kv_block_pool_free(next.pools.group[0]), BLOCKS - committed);
    for (uint32_t token = 100; token < 100 + BLOCKS; token++) {
        fill_block(&next, token, go_on, NULL);
        (void)check_records(shared);
    }
    assert_int_equal(check_records(shared), BLOCKS);
    worker_close(&next);
}

static void test_each_numbered_step(void **state)
{
    (void)state;
    for (uint32_t filled = 0; filled <= PREFIXES; filled++) {
        for (uint32_t step = 1; step <= NUMBERED_STEPS; step++) {
            struct shared *shared = share();
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                struct worker worker;
                struct death death = {.step = step, .left = filled};
                worker_open(&worker, shared);
                for (uint32_t token = 1;; token++, death.left--)
                    fill_block(&worker, token, die_here, &death);
            }
            int status = 0;
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            uint32_t before = filled < BLOCKS ? filled : BLOCKS - 1; /* K1 has made room for one */
            uint32_t committed = check_records(shared);
            assert_int_equal(committed, before + (step >= 6));
            check_next_worker(shared, committed);
            munmap(shared, sizeof *shared);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_instruction),
        cmocka_unit_test(test_each_numbered_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
