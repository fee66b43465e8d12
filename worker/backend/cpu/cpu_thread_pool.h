/*
 * A team of threads that runs one function together. The caller is member 0. Members may meet at
 * barriers inside the function; between runs, and in long waits, they sleep in the kernel and use
 * no CPU.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_CPU_THREAD_POOL_H
#define SHOAL_WORKER_BACKEND_CPU_CPU_THREAD_POOL_H

#include <stdint.h>

#include "proto/result.h"

struct cpu_thread_pool;

typedef void cpu_thread_fn(void *context, uint32_t thread);

/* CPUs this process may run on (its affinity mask), at least 1, at most LIMIT_THREADS. */
uint32_t cpu_thread_pool_usable_cpus(void);

/* `threads` members, the caller included; 0 = cpu_thread_pool_usable_cpus(). */
enum result cpu_thread_pool_create(uint32_t threads, struct cpu_thread_pool **pool,
                                   struct error_text *error) RESULT_CHECKED;
void cpu_thread_pool_destroy(struct cpu_thread_pool *pool);

uint32_t cpu_thread_pool_threads(const struct cpu_thread_pool *pool);

/* Calls fn(context, t) on every member t and returns when all have returned. */
void cpu_thread_pool_run(struct cpu_thread_pool *pool, cpu_thread_fn *fn, void *context);

/* Inside a run: waits until every member has come here; what they wrote before is visible after. */
void cpu_thread_pool_barrier(struct cpu_thread_pool *pool);

#endif
