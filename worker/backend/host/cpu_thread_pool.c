/*
 * Threads for one step at a time.
 *
 * A step is a few hundred short phases, so waking threads per phase would cost more than the work.
 * Instead the team is woken once per step and its members go from phase to phase together. All of
 * them watch one word, the *round*: an even number is a phase whose lanes may be taken, an odd one
 * the time between two walks. Waiting spins a bounded while, because the round usually changes
 * within microseconds, and then sleeps on the word with a futex.
 *
 * A machine with other tenants may wake a thread milliseconds late. So no phase waits for a member,
 * only for its lanes: each is taken once a round, by its own member or, when that has not come by
 * the time another one has spun for LATE_SPINS, by that one. Who finds lanes of late members
 * takes them without further ado in the next phase. A member that comes late joins at the round
 * that it finds. Only a thread that is stopped inside a lane holds the others up.
 *
 * Taking is a compare-and-swap of the lane's last round against the one before this: rounds are
 * taken in order, so a member that read the round long ago cannot take anything, and whoever took a
 * lane knows that the walk is not over, so that what the caller wrote about it stays as it is.
 *
 * Sleep and wake (store, fence, load on each side, so that one of the two sees the other):
 *   waiter: sleepers += 1 (seq_cst); futex_wait(round, old) unless it has changed
 *   waker:  round = new (seq_cst);   if sleepers > 0: sleepers = 0, futex_wake all
 * Who sleeps through several rounds was woken at the first and costs the others no more calls.
 *
 * Behind a walk everybody yields once: others that wait for these cores (the frontend, which hands
 * on what the walk has made) would else get them when a slice of the scheduler is over, 3 ms.
 *
 * It splits no work and knows no op; and it never spins without bound, so an idle worker uses no
 * CPU and a machine with other tenants is not starved by it.
 */
#include "worker/backend/host/cpu_thread_pool.h"

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

#define LATE_SPINS 64 /* about a microsecond */
/* About 50 us of pause instructions: longer than nearly every phase, shorter than a scheduler's
 * slice. */
#define SPINS_MOST 2000

struct pool_member {
    _Alignas(64) _Atomic uint32_t taken; /* the round in which the lane was taken last */
    struct cpu_thread_pool *pool;
    uint32_t index;
    pthread_t thread;
};

/* What everybody watches and what everybody writes in a round have cache lines of their own; the
 * rest is read in every round and written between walks at most. */
struct cpu_thread_pool {
    _Alignas(64) _Atomic uint32_t round;    /* wraps; what waiters sleep on */
    _Atomic uint32_t sleepers;              /* since the last waking */
    _Alignas(64) _Atomic uint32_t returned; /* lanes of the round */
    _Alignas(64) _Atomic bool own_lanes;    /* of this walk: nobody takes another member's */
    _Atomic bool stopping;
    uint32_t threads;
    /* Of the walk; for those who have taken a lane of it. */
    uint32_t first_round;
    uint32_t last_round;
    cpu_phase_fn *fn;
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

static bool is_phase(uint32_t round)
{
    return round % 2 == 0;
}

static void set_round(struct cpu_thread_pool *pool, uint32_t round)
{
    atomic_store(&pool->round, round);
    if (atomic_load(&pool->sleepers) > 0) {
        atomic_store(&pool->sleepers, 0);
        syscall(SYS_futex, &pool->round, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    }
}

/* Takes a lane of this round and runs it; false: somebody has, or the round is over. */
static bool run_lane(struct cpu_thread_pool *pool, uint32_t lane, uint32_t round)
{
    uint32_t before = round - 2;
    if (!atomic_compare_exchange_strong(&pool->members[lane].taken, &before, round))
        return false;
    pool->fn(pool->context, (round - pool->first_round) / 2, lane);
    bool is_last = round == pool->last_round;
    if (atomic_fetch_add(&pool->returned, 1) + 1 == pool->threads) {
        atomic_store_explicit(&pool->returned, 0, memory_order_relaxed);
        set_round(pool, is_last ? round + 1 : round + 2);
    }
    return true;
}

/* The lanes of members that are late; false: there were none. */
static bool run_late_lanes(struct cpu_thread_pool *pool, uint32_t index, uint32_t round)
{
    bool found = false;
    for (uint32_t i = 1; i < pool->threads; i++) {
        uint32_t lane = (index + i) % pool->threads;
        if (atomic_load_explicit(&pool->members[lane].taken, memory_order_relaxed) != round)
            found |= run_lane(pool, lane, round);
    }
    return found;
}

static bool round_is(const struct cpu_thread_pool *pool, uint32_t round)
{
    return atomic_load_explicit(&pool->round, memory_order_acquire) == round;
}

/* Until the round is another one; in a phase, *late says whether members were missing in the last
 * that this one has waited for. */
static void wait_for_change(struct cpu_thread_pool *pool, uint32_t index, uint32_t round,
                            bool *late)
{
    bool helps = is_phase(round) && !atomic_load_explicit(&pool->own_lanes, memory_order_relaxed);
    uint32_t patience = *late ? 0 : LATE_SPINS;
    for (uint32_t i = 0; i < SPINS_MOST; i++) {
        if (!round_is(pool, round))
            return;
        if (helps && i == patience)
            *late = run_late_lanes(pool, index, round);
        pause_briefly();
    }
    while (round_is(pool, round)) {
        atomic_fetch_add(&pool->sleepers, 1);
        if (atomic_load(&pool->round) == round)
            syscall(SYS_futex, &pool->round, FUTEX_WAIT_PRIVATE, round, NULL, NULL, 0);
    }
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

/* Returns when the round is another one. */
static void take_part(struct cpu_thread_pool *pool, uint32_t index, uint32_t round, bool *late)
{
    if (is_phase(round))
        (void)run_lane(pool, index, round);
    else
        (void)sched_yield();
    wait_for_change(pool, index, round, late);
}

static void *member_main(void *argument)
{
    struct pool_member *member = argument;
    struct cpu_thread_pool *pool = member->pool;
    bool late = false;
    while (!atomic_load(&pool->stopping))
        take_part(pool, member->index, atomic_load(&pool->round), &late);
    return NULL;
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
    p->round = 1;
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
    set_round(pool, atomic_load(&pool->round) + 2);
    for (uint32_t i = 1; i < pool->threads; i++)
        must(pthread_join(pool->members[i].thread, NULL) == 0);
    free(pool);
}

uint32_t cpu_thread_pool_threads(const struct cpu_thread_pool *pool)
{
    return pool->threads;
}

static void walk(struct cpu_thread_pool *pool, uint32_t phases)
{
    uint32_t first = atomic_load_explicit(&pool->round, memory_order_relaxed) + 1;
    bool late = false;
    must(phases > 0 && is_phase(first));
    pool->first_round = first;
    pool->last_round = first + 2 * (phases - 1);
    set_round(pool, first);
    for (uint32_t round = first; is_phase(round); round = atomic_load(&pool->round))
        take_part(pool, 0, round, &late);
}

void cpu_thread_pool_walk(struct cpu_thread_pool *pool, cpu_phase_fn *fn, void *context,
                          uint32_t phases)
{
    if (pool->threads == 1) {
        for (uint32_t phase = 0; phase < phases; phase++)
            fn(context, phase, 0);
    } else {
        pool->fn = fn;
        pool->context = context;
        atomic_store_explicit(&pool->own_lanes, false, memory_order_relaxed);
        walk(pool, phases);
    }
    (void)sched_yield();
}

struct thread_call {
    cpu_thread_fn *fn;
    void *context;
};

static void call_thread(void *context, uint32_t phase, uint32_t lane)
{
    const struct thread_call *call = context;
    (void)phase;
    call->fn(call->context, lane);
}

void cpu_thread_pool_run(struct cpu_thread_pool *pool, cpu_thread_fn *fn, void *context)
{
    struct thread_call call = {fn, context};
    pool->fn = call_thread;
    pool->context = &call;
    atomic_store_explicit(&pool->own_lanes, true, memory_order_relaxed);
    walk(pool, 1);
}
