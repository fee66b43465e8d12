/*
 * Threads for one step at a time.
 *
 * A step is a few hundred short phases, so waking threads per phase would cost more than the work.
 * Instead the team is started once per step (cpu_thread_pool_run) and its members meet at barriers.
 * Both waits, for the next run and for the last one at a barrier, are the same thing: wait until a
 * word changes. That wait spins a bounded while, because the change usually comes within
 * microseconds, and then sleeps on the word with a futex.
 *
 * Sleep and wake (store, fence, load on each side, so that one of the two sees the other):
 *   waiter: sleepers += 1 (seq_cst); futex_wait(word, old) unless the word has changed; sleepers -=
 * 1 waker:  word = new (seq_cst);    if sleepers > 0 (seq_cst): futex_wake
 *
 * It splits no work and knows no op; and it never spins without bound, so an idle worker uses no
 * CPU and a machine with other tenants is not starved by it.
 */
#include "worker/backend/cpu/cpu_thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/must.h"

/* About 50 us of pause instructions: longer than nearly every phase, shorter than a scheduler's
 * slice. */
#define SPIN_ROUNDS 2000

/* A word that waiters watch, alone on its cache line with its count of sleepers. */
struct watched_word {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};

struct pool_member {
    struct cpu_thread_pool *pool;
    uint32_t index;
    pthread_t thread;
};

struct cpu_thread_pool {
    struct watched_word run;     /* counts runs; members other than the caller wait for the next */
    struct watched_word barrier; /* counts barriers passed */
    _Alignas(64) _Atomic uint32_t arrived;
    _Atomic bool stopping;
    uint32_t threads;
    cpu_thread_fn *fn;
    void *context;
    struct pool_member members[]; /* [threads]; 0 is the caller */
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void word_wait_change(struct watched_word *word, uint32_t old)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(&word->value, memory_order_acquire) != old)
            return;
        pause_briefly();
    }
    atomic_fetch_add(&word->sleepers, 1);
    while (atomic_load(&word->value) == old)
        syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&word->sleepers, 1);
}

static void word_advance(struct watched_word *word)
{
    atomic_fetch_add(&word->value, 1);
    if (atomic_load(&word->sleepers) > 0)
        syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

uint32_t cpu_thread_pool_usable_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    uint32_t count = (uint32_t)CPU_COUNT(&set);
    return count < 1 ? 1 : count < LIMIT_THREADS ? count : LIMIT_THREADS;
}

static void *member_main(void *argument)
{
    struct pool_member *member = argument;
    struct cpu_thread_pool *pool = member->pool;
    for (uint32_t seen = 0;; seen++) {
        word_wait_change(&pool->run, seen);
        if (atomic_load(&pool->stopping))
            return NULL;
        pool->fn(pool->context, member->index);
        cpu_thread_pool_barrier(pool);
    }
}

enum result cpu_thread_pool_create(uint32_t threads, struct cpu_thread_pool **pool,
                                   struct error_text *error)
{
    if (threads == 0)
        threads = cpu_thread_pool_usable_cpus();
    if (threads > LIMIT_THREADS)
        return error_set(error, RESULT_TOO_LARGE, "%u threads are more than %u", threads,
                         LIMIT_THREADS);
    size_t bytes = sizeof **pool + threads * sizeof(struct pool_member);
    struct cpu_thread_pool *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a thread pool");
    memset(p, 0, bytes);
    for (p->threads = 1; p->threads < threads; p->threads++) {
        struct pool_member *member = &p->members[p->threads];
        *member = (struct pool_member){.pool = p, .index = p->threads};
        int code = pthread_create(&member->thread, NULL, member_main, member);
        if (code != 0) {
            uint32_t started = p->threads;
            cpu_thread_pool_destroy(p);
            return error_set(error, RESULT_OUT_OF_MEMORY, "thread %u of %u did not start: %s",
                             started, threads, strerror(code));
        }
    }
    *pool = p;
    return RESULT_OK;
}

void cpu_thread_pool_destroy(struct cpu_thread_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stopping, true);
    word_advance(&pool->run);
    for (uint32_t i = 1; i < pool->threads; i++)
        must(pthread_join(pool->members[i].thread, NULL) == 0);
    free(pool);
}

uint32_t cpu_thread_pool_threads(const struct cpu_thread_pool *pool)
{
    return pool->threads;
}

void cpu_thread_pool_run(struct cpu_thread_pool *pool, cpu_thread_fn *fn, void *context)
{
    pool->fn = fn;
    pool->context = context;
    word_advance(&pool->run);
    fn(context, 0);
    cpu_thread_pool_barrier(pool);
}

void cpu_thread_pool_barrier(struct cpu_thread_pool *pool)
{
    if (pool->threads == 1)
        return;
    /* read before arriving: after the last arrival the word may move at any moment */
    uint32_t passed = atomic_load_explicit(&pool->barrier.value, memory_order_relaxed);
    if (atomic_fetch_add(&pool->arrived, 1) + 1 == pool->threads) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        word_advance(&pool->barrier);
    } else {
        word_wait_change(&pool->barrier, passed);
    }
}
