/*
 * The thread pool: every member runs once per run, phases are ordered, late members are not waited
 * for, waits sleep instead of spinning, and pools of one thread work too. Also for ThreadSanitizer:
 * the phases write plain memory that the next phase reads.
 */
// tags: threads arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include "proto/limits.h"
#include "worker/backend/host/thread_pool.h"

enum { THREADS_MAX = 5, PHASES = 60, RUNS = 20 };

struct phase_job {
    struct thread_pool *pool;
    uint32_t threads;
    uint32_t values[2][THREADS_MAX]; /* plain: only phases order them */
    uint32_t mistakes[THREADS_MAX];
    uint32_t calls[THREADS_MAX];
};

/* In each phase every lane checks all values of the last phase and writes its own value. */
static void run_phase(void *context, uint32_t phase, uint32_t lane)
{
    struct phase_job *job = context;
    for (uint32_t t = 0; phase > 0 && t < job->threads; t++)
        job->mistakes[lane] += job->values[(phase - 1) % 2][t] != phase + t;
    job->values[phase % 2][lane] = phase + 1 + lane;
    job->calls[lane]++;
}

static void test_phases_are_ordered(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
        struct phase_job job = {.threads = threads};
        struct error_text error;
        uint32_t walked = 0;
        assert_int_equal(thread_pool_create(threads, &job.pool, &error), RESULT_OK);
        assert_int_equal(thread_pool_threads(job.pool), threads);
        for (uint32_t run = 0; run < RUNS; run++) {
            uint32_t phases = run % 3 == 0 ? PHASES : 1 + run % 2;
            thread_pool_walk(job.pool, run_phase, &job, phases);
            walked += phases;
        }
        for (uint32_t t = 0; t < threads; t++) {
            assert_int_equal(job.mistakes[t], 0);
            assert_int_equal(job.calls[t], walked);
        }
        thread_pool_destroy(job.pool);
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
    struct thread_pool *pool;
    struct error_text error;
    assert_int_equal(thread_pool_create(THREADS_MAX, &pool, &error), RESULT_OK);
    for (uint32_t run = 0; run < 20; run++) {
        thread_pool_run(pool, count_calls, calls);
        sleep_ms(run % 3);
    }
    for (uint32_t t = 0; t < THREADS_MAX; t++)
        assert_int_equal(calls[t], 20);
    thread_pool_destroy(pool);
}

static void wait_for_slow_lane(void *context, uint32_t phase, uint32_t lane)
{
    (void)context;
    if (phase == 0 && lane == 0)
        sleep_ms(200);
}

static void test_idle_and_waiting_members_use_no_cpu(void **state)
{
    (void)state;
    struct thread_pool *pool;
    struct error_text error;
    assert_int_equal(thread_pool_create(THREADS_MAX, &pool, &error), RESULT_OK);
    double before = process_cpu_s();
    sleep_ms(200);                                       /* waiting for a run */
    thread_pool_walk(pool, wait_for_slow_lane, NULL, 2); /* waiting for a phase */
    /* continuous spinning would take 1.6 s */
    assert_true(process_cpu_s() - before < 0.1);
    thread_pool_destroy(pool);
}

static sem_t stopped, released;

/* Keeps a thread of the pool from running, as if it were not scheduled. */
static void stand_still(int number)
{
    (void)number;
    sem_post(&stopped);
    while (sem_wait(&released) != 0)
        ;
}

static void tell_self(void *context, uint32_t thread)
{
    pthread_t *selves = context;
    selves[thread] = pthread_self();
}

/* A walk completes with the caller alone; threads that return take part again. */
static void test_late_members_are_not_waited_for(void **state)
{
    (void)state;
    pthread_t selves[THREADS_MAX];
    struct phase_job job = {.threads = THREADS_MAX};
    struct error_text error;
    struct sigaction action = {.sa_handler = stand_still};
    assert_int_equal(sem_init(&stopped, 0, 0) | sem_init(&released, 0, 0), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(thread_pool_create(THREADS_MAX, &job.pool, &error), RESULT_OK);
    for (uint32_t late = 1; late < THREADS_MAX; late++) {
        thread_pool_run(job.pool, tell_self, selves);
        assert_true(pthread_equal(selves[0], pthread_self()));
        for (uint32_t t = 1; t <= late; t++) {
            assert_int_equal(pthread_kill(selves[t], SIGUSR1), 0);
            assert_int_equal(sem_wait(&stopped), 0);
        }
        thread_pool_walk(job.pool, run_phase, &job, PHASES);
        thread_pool_walk(job.pool, run_phase, &job, 1);
        for (uint32_t t = 1; t <= late; t++)
            sem_post(&released);
    }
    for (uint32_t t = 0; t < THREADS_MAX; t++) {
        assert_int_equal(job.mistakes[t], 0);
        assert_int_equal(job.calls[t], (THREADS_MAX - 1) * (PHASES + 1));
    }
    thread_pool_destroy(job.pool);
}

static void test_bounds(void **state)
{
    (void)state;
    struct thread_pool *pool;
    struct error_text error;
    uint32_t usable = thread_pool_usable_cpus();
    assert_in_range(usable, 1, LIMIT_THREADS);
    assert_int_equal(thread_pool_create(LIMIT_THREADS + 1, &pool, &error), RESULT_TOO_LARGE);
    assert_int_equal(thread_pool_create(0, &pool, &error), RESULT_OK);
    assert_int_equal(thread_pool_threads(pool), usable);
    thread_pool_destroy(pool);
}

/* A member that is about to wait when the pool ends must not wait: before the order of its two reads was
 * mended, one of some 100,000 ends hung on a loaded machine. */
static void test_pools_end(void **state)
{
    (void)state;
    struct error_text error;
    for (uint32_t i = 0; i < 10000; i++) {
        struct thread_pool *pool;
        assert_int_equal(thread_pool_create(2 + i % 3, &pool, &error), RESULT_OK);
        thread_pool_destroy(pool);
    }
}

static void sleep_in_first_lane(void *context, uint32_t phase, uint32_t lane)
{
    (void)context;
    (void)phase;
    if (lane == 0)
        sleep_ms(4);
}

static void test_spinning_is_counted_and_bounded(void **state)
{
    (void)state;
    struct thread_pool *pool;
    struct error_text error;
    assert_int_equal(thread_pool_create(2, &pool, &error), RESULT_OK);
    assert_true(thread_pool_spun_s(pool) < 0.001);
    thread_pool_walk(pool, sleep_in_first_lane, NULL, 15); /* 60 ms in which the other one waits */
    const double spun_s = thread_pool_spun_s(pool);
    print_message("  %.2f ms spun\n", 1e3 * spun_s);
    assert_true(spun_s > 0.0 && spun_s < 0.01);
    thread_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases_are_ordered),
        cmocka_unit_test(test_members_run_once_each_also_after_sleeping),
        cmocka_unit_test(test_idle_and_waiting_members_use_no_cpu),
        cmocka_unit_test(test_late_members_are_not_waited_for),
        cmocka_unit_test(test_spinning_is_counted_and_bounded),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_pools_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
