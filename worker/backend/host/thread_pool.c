/*
 * Threads for one step at a time.
 *
 * A step is a few hundred short phases; waking threads for each would cost more than the work.
 * Instead the team is woken once per step and its members go through the phases together. All of
 * them watch one word, the *round*: an even number is a phase whose lanes may be taken, an odd one
 * the time between two runs. Waiting spins for a bounded time, because the round usually changes
 * within microseconds, and then sleeps on the word with a futex. The bounds
 * are counted in pauses, which take 1 to 50 ns by CPU, so a pause is measured when the pool is made.
 *
 * A machine with other tenants may wake a thread milliseconds late. So a phase does not wait for
 * members, only for its lanes: each lane is taken once a round, by its own member or, if that has
 * not arrived after another one has spun for LATE_NS, by the other one. A member that took
 * lanes of late members takes them without spinning in the next phase. A late member joins at the
 * current round. Only a thread that is stopped inside a lane delays the others.
 *
 * A lane is taken by a compare-and-swap of its last round against the preceding one. Rounds are
 * taken in order, so a member that read the round long ago cannot take anything; and while a lane
 * is taken the run cannot end, so the caller's description of the run stays unchanged.
 *
 * Sleep and wake (store, fence, load on each side, so that one of the two sees the other):
 *   waiter: sleepers += 1 (seq_cst); futex_wait(round, old) unless it has changed
 *   waker:  round = new (seq_cst);   if sleepers > 0: sleepers = 0, futex_wake all
 * A thread that sleeps through several rounds is woken at the first and causes no further calls.
 *
 * After a run every member yields once: otherwise threads that wait for these cores (the frontend,
 * which publishes the results) would get them only at the end of a scheduler slice, 3 ms later.
 *
 * The pool splits no work and knows no op. It never spins without bound, so an idle worker uses no
 * CPU and does not starve other tenants.
 */
#include "worker/backend/host/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/must.h"

#define LATE_NS 1000.0
/* Longer than nearly every phase, shorter than a scheduler slice. */
#define SPIN_MOST_NS 50000.0

struct pool_member {
    _Alignas(64) _Atomic uint32_t taken; /* the round in which the lane was last taken */
    struct thread_pool *pool;
    uint32_t index;
    pthread_t thread;
    _Atomic uint64_t pauses; /* of its waits, in all; only its own thread writes it */
};

/* The words that all members watch and those that they write in a round have cache lines of their
 * own; the rest is read in every round and only written between runs. */
struct thread_pool {
    _Alignas(64) _Atomic uint32_t round;    /* wraps; what waiters sleep on */
    _Atomic uint32_t sleepers;              /* since the last wake-up */
    _Alignas(64) _Atomic uint32_t returned; /* lanes of the round */
    _Alignas(64) _Atomic bool own_lanes;    /* of this run: members do not take each other's lanes
                                             */
    _Atomic bool stopping;
    uint32_t threads;
    float pause_ns;
    uint32_t late_spins;
    uint32_t spins_most;
    /* The current run; valid for members that have taken one of its lanes. */
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

static void set_round(struct thread_pool *pool, uint32_t round)
{
    atomic_store(&pool->round, round);
    if (atomic_load(&pool->sleepers) > 0) {
        atomic_store(&pool->sleepers, 0);
        syscall(SYS_futex, &pool->round, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    }
}

/* Takes a lane of this round and runs it; false: it is already taken, or the round is over. */
static bool run_lane(struct thread_pool *pool, uint32_t lane, uint32_t round)
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
static bool run_late_lanes(struct thread_pool *pool, uint32_t index, uint32_t round)
{
    bool found = false;
    for (uint32_t i = 1; i < pool->threads; i++) {
        uint32_t lane = (index + i) % pool->threads;
        if (atomic_load_explicit(&pool->members[lane].taken, memory_order_relaxed) != round)
            found |= run_lane(pool, lane, round);
    }
    return found;
}

static bool round_is(const struct thread_pool *pool, uint32_t round)
{
    return atomic_load_explicit(&pool->round, memory_order_acquire) == round;
}

static void count_pauses(struct pool_member *member, uint32_t pauses)
{
    uint64_t before = atomic_load_explicit(&member->pauses, memory_order_relaxed);
    atomic_store_explicit(&member->pauses, before + pauses, memory_order_relaxed);
}

/* Waits until the round changes; in a phase, *late says whether members were missing in the last
 * phase that this member waited for. */
static void wait_for_change(struct thread_pool *pool, uint32_t index, uint32_t round, bool *late)
{
    bool helps = is_phase(round) && !atomic_load_explicit(&pool->own_lanes, memory_order_relaxed);
    uint32_t patience = *late ? 0 : pool->late_spins;
    for (uint32_t i = 0; i < pool->spins_most; i++) {
        if (!round_is(pool, round)) {
            count_pauses(&pool->members[index], i);
            return;
        }
        if (helps && i == patience)
            *late = run_late_lanes(pool, index, round);
        pause_briefly();
    }
    count_pauses(&pool->members[index], pool->spins_most);
    while (round_is(pool, round)) {
        atomic_fetch_add(&pool->sleepers, 1);
        if (atomic_load(&pool->round) == round)
            syscall(SYS_futex, &pool->round, FUTEX_WAIT_PRIVATE, round, NULL, NULL, 0);
    }
}

uint32_t thread_pool_usable_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    uint32_t count = (uint32_t)CPU_COUNT(&set);
    return count < 1 ? 1 : count < LIMIT_THREADS ? count : LIMIT_THREADS;
}

/* Returns when the round has changed. */
static void take_part(struct thread_pool *pool, uint32_t index, uint32_t round, bool *late)
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
    struct thread_pool *pool = member->pool;
    bool late = false;
    for (;;) {
        /* Before `stopping`, which is set before the last round: this member either sees it or waits for
         * an earlier round, which ends. */
        uint32_t round = atomic_load(&pool->round);
        if (atomic_load(&pool->stopping))
            return NULL;
        take_part(pool, member->index, round, &late);
    }
}

/* Nanoseconds of a pause in a loop as of wait_for_change(), the least of a few tries. */
static float measure_pause(const struct thread_pool *pool)
{
    static const uint32_t TRIES = 5, PAUSES = 100;
    double least_ns = 1e9;
    for (uint32_t i = 0; i < TRIES; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (uint32_t k = 0; k < PAUSES && round_is(pool, 1); k++)
            pause_briefly();
        clock_gettime(CLOCK_MONOTONIC, &end);
        double ns =
            (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
        least_ns = ns < least_ns ? ns : least_ns;
    }
    double pause_ns = least_ns / PAUSES;
    return (float)(pause_ns > 0.25 ? pause_ns : 0.25); /* also with a coarse clock */
}

enum result thread_pool_create(uint32_t threads, struct thread_pool **pool,
                               struct error_text *error)
{
    if (threads == 0)
        threads = thread_pool_usable_cpus();
    if (threads > LIMIT_THREADS)
        return error_set(error, RESULT_TOO_LARGE, "%u threads are more than %u", threads,
                         LIMIT_THREADS);
    size_t bytes = sizeof **pool + threads * sizeof(struct pool_member);
    struct thread_pool *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a thread pool");
    memset(p, 0, bytes);
    p->round = 1;
    p->pause_ns = measure_pause(p);
    p->late_spins = 1 + (uint32_t)(LATE_NS / (double)p->pause_ns);
    p->spins_most = p->late_spins + (uint32_t)(SPIN_MOST_NS / (double)p->pause_ns);
    for (p->threads = 1; p->threads < threads; p->threads++) {
        struct pool_member *member = &p->members[p->threads];
        *member = (struct pool_member){.pool = p, .index = p->threads};
        int code = pthread_create(&member->thread, NULL, member_main, member);
        if (code != 0) {
            uint32_t started = p->threads;
            thread_pool_destroy(p);
            return error_set(error, RESULT_OUT_OF_MEMORY, "thread %u of %u did not start: %s",
                             started, threads, strerror(code));
        }
    }
    *pool = p;
    return RESULT_OK;
}

void thread_pool_destroy(struct thread_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stopping, true);
    set_round(pool, atomic_load(&pool->round) + 2);
    for (uint32_t i = 1; i < pool->threads; i++)
        must(pthread_join(pool->members[i].thread, NULL) == 0);
    free(pool);
}

double thread_pool_spun_s(const struct thread_pool *pool)
{
    uint64_t pauses = 0;
    for (uint32_t i = 0; i < pool->threads; i++)
        pauses += atomic_load_explicit(&pool->members[i].pauses, memory_order_relaxed);
    return (double)pauses * (double)pool->pause_ns * 1e-9;
}

uint32_t thread_pool_threads(const struct thread_pool *pool)
{
    return pool->threads;
}

static void walk(struct thread_pool *pool, uint32_t phases)
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

void thread_pool_walk(struct thread_pool *pool, cpu_phase_fn *fn, void *context, uint32_t phases)
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

void thread_pool_run(struct thread_pool *pool, cpu_thread_fn *fn, void *context)
{
    struct thread_call call = {fn, context};
    pool->fn = call_thread;
    pool->context = &call;
    atomic_store_explicit(&pool->own_lanes, true, memory_order_relaxed);
    walk(pool, 1);
}
