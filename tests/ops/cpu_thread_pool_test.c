/*
 * The thread pool: every member runs once per run, barriers separate phases, waits sleep instead of
 * spinning, and pools of one thread work too. Meant for ThreadSanitizer as well: the phases write
 * plain memory that the next phase reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <time.h>

#include "proto/limits.h"
#include "worker/backend/cpu/cpu_thread_pool.h"

enum { THREADS_MAX = 5, PHASES = 60, RUNS = 20 };

struct phase_job {
    struct cpu_thread_pool *pool;
    uint32_t threads;
    uint32_t values[2][THREADS_MAX]; /* plain: only barriers order them */
    uint32_t mistakes[THREADS_MAX];
};

/* Each phase every member checks all values of the last phase and writes its own of this one. */
static void run_phases(void *context, uint32_t thread)
{
    struct phase_job *job = context;
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        for (uint32_t t = 0; phase > 0 && t < job->threads; t++)
            job->mistakes[thread] += job->values[(phase - 1) % 2][t] != phase + t;
        job->values[phase % 2][thread] = phase + 1 + thread;
        cpu_thread_pool_barrier(job->pool);
    }
}

static void test_barriers_separate_phases(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
        struct phase_job job = {.threads = threads};
        struct error_text error;
        assert_int_equal(cpu_thread_pool_create(threads, &job.pool, &error), RESULT_OK);
        assert_int_equal(cpu_thread_pool_threads(job.pool), threads);
        for (uint32_t run = 0; run < RUNS / threads; run++)
            cpu_thread_pool_run(job.pool, run_phases, &job);
        for (uint32_t t = 0; t < threads; t++)
            assert_int_equal(job.mistakes[t], 0);
        cpu_thread_pool_destroy(job.pool);
    }
}

static void count_calls(void *context, uint32_t thread)
{
    uint32_t *calls = context;
    calls[thread]++;
}

static void sleep_ms(long ms)
{
    struct timespec pause = {0, ms * 1000000L};
    nanosleep(&pause, NULL);
}

static double process_cpu_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void test_members_run_once_each_also_after_sleeping(void **state)
{
    (void)state;
    uint32_t calls[THREADS_MAX] = {0};
    struct cpu_thread_pool *pool;
    struct error_text error;
    assert_int_equal(cpu_thread_pool_create(THREADS_MAX, &pool, &error), RESULT_OK);
    for (uint32_t run = 0; run < 20; run++) {
        cpu_thread_pool_run(pool, count_calls, calls);
        sleep_ms(run % 3);
    }
    for (uint32_t t = 0; t < THREADS_MAX; t++)
        assert_int_equal(calls[t], 20);
    cpu_thread_pool_destroy(pool);
}

static void wait_for_slow_member(void *context, uint32_t thread)
{
    struct cpu_thread_pool *pool = context;
    if (thread == 0)
        sleep_ms(200);
    cpu_thread_pool_barrier(pool);
}

static void test_idle_and_waiting_members_use_no_cpu(void **state)
{
    (void)state;
    struct cpu_thread_pool *pool;
    struct error_text error;
    assert_int_equal(cpu_thread_pool_create(THREADS_MAX, &pool, &error), RESULT_OK);
    double before = process_cpu_s();
    sleep_ms(200);                                         /* waiting for a run */
    cpu_thread_pool_run(pool, wait_for_slow_member, pool); /* waiting at a barrier */
    /* spinning all along would be 1.6 s */
    assert_true(process_cpu_s() - before < 0.1);
    cpu_thread_pool_destroy(pool);
}

static void test_bounds(void **state)
{
    (void)state;
    struct cpu_thread_pool *pool;
    struct error_text error;
    uint32_t usable = cpu_thread_pool_usable_cpus();
    assert_in_range(usable, 1, LIMIT_THREADS);
    assert_int_equal(cpu_thread_pool_create(LIMIT_THREADS + 1, &pool, &error), RESULT_TOO_LARGE);
    assert_int_equal(cpu_thread_pool_create(0, &pool, &error), RESULT_OK);
    assert_int_equal(cpu_thread_pool_threads(pool), usable);
    cpu_thread_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barriers_separate_phases),
        cmocka_unit_test(test_members_run_once_each_also_after_sleeping),
        cmocka_unit_test(test_idle_and_waiting_members_use_no_cpu),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
