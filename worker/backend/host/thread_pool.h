/*
 * A team of threads that runs one function together, or phases in sequence. The caller is member 0.
 * Between runs, and in long waits, members sleep in the kernel and use no CPU.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_THREAD_POOL_H
#define SHOAL_WORKER_BACKEND_HOST_THREAD_POOL_H

#include <stdint.h>

#include "proto/result.h"

struct thread_pool;

typedef void cpu_thread_fn(void *context, uint32_t thread);
typedef void cpu_phase_fn(void *context, uint32_t phase, uint32_t lane);

/* CPUs this process may run on (its affinity mask), at least 1, at most LIMIT_THREADS. */
uint32_t thread_pool_usable_cpus(void);

/* `threads` members, the caller included; 0 = thread_pool_usable_cpus(). */
enum result thread_pool_create(uint32_t threads, struct thread_pool **pool,
                               struct error_text *error) RESULT_CHECKED;
void thread_pool_destroy(struct thread_pool *pool);

uint32_t thread_pool_threads(const struct thread_pool *pool);
/* CPU seconds that members have spun in waits so far: pauses times what one takes. */
double thread_pool_spun_s(const struct thread_pool *pool);

/* Calls fn(context, t) on every member t and returns when all have returned. */
void thread_pool_run(struct thread_pool *pool, cpu_thread_fn *fn, void *context);

/* Calls fn(context, p, l) for each of `phases` phases and as many lanes as there are members, and
 * returns when all have returned. A phase begins when all lanes of the previous one have returned;
 * their writes are visible then. Lane l belongs to member l; if that one is late, an idle member
 * runs it, so no phase waits for a thread that the machine has not woken yet. */
void thread_pool_walk(struct thread_pool *pool, cpu_phase_fn *fn, void *context, uint32_t phases);

#endif
