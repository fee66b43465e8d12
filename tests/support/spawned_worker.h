/*
 * Runs build/shoal-worker as the frontend starts it, connected to a test frontend.
 */
#ifndef SHOAL_TESTS_SUPPORT_SPAWNED_WORKER_H
#define SHOAL_TESTS_SUPPORT_SPAWNED_WORKER_H

#include "tests/support/test_frontend.h"

#define SPAWNED_WORKER_MODEL "build/cache/models/smollm2-135m-instruct-q4_1.gguf"

/* Starts the program that belongs to this build with the model at `path` and the given further
 * flags (NULL-terminated). */
void spawned_worker_start(struct test_frontend *frontend, const char *path,
                          const char *const *more_flags);
/* Waits up to PROCESS_PAIR_PATIENCE_MS until the gauges show `state`; aborts if the worker fails or
 * exits before. */
void spawned_worker_await(struct test_frontend *frontend, enum worker_state state);

#endif
