/*
 * Under the CPU worker's filter threads allocate and free as they do in steps, a file cannot be read, and
 * an attempt to write one ends the process.
 */
// tags: threads no-sanitizers
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/seccomp_filter.h"
#include "worker/schedule/worker_sandbox.h"

#define THREADS 12
#define PIECES  64
#define BYTES   16384 /* in the thread's heap, not mapped on its own */

static pthread_barrier_t confined;

/* Fills a heap of its own and frees it, so that the heap shrinks. */
static void *allocate(void *context)
{
    void *pieces[PIECES];
    (void)context;
    pthread_barrier_wait(&confined);
    for (unsigned i = 0; i < PIECES; i++) {
        pieces[i] = malloc(BYTES);
        if (pieces[i])
            memset(pieces[i], 1, BYTES);
    }
    for (unsigned i = PIECES; i-- > 0;)
        free(pieces[i]);
    return NULL;
}

static int in_child(void (*body)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void threads_allocate(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&confined, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, allocate, NULL) != 0)
            _exit(2);
    }
    worker_sandbox_enter(WORKER_SANDBOX_AUTO, DEVICE_CPU);
    pthread_barrier_wait(&confined);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void test_threads_may_allocate(void **state)
{
    (void)state;
    assert_int_equal(in_child(threads_allocate), 0);
}

static void read_file(void)
{
    worker_sandbox_enter(WORKER_SANDBOX_AUTO, DEVICE_CPU);
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) != -1 || errno != EPERM)
        _exit(3);
}

static void write_file(void)
{
    worker_sandbox_enter(WORKER_SANDBOX_AUTO, DEVICE_CPU);
    (void)open("/dev/null", O_WRONLY | O_CLOEXEC);
}

static void test_no_file_is_opened(void **state)
{
    (void)state;
    assert_int_equal(in_child(read_file), 0);
    int status = in_child(write_file);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_may_allocate),
        cmocka_unit_test(test_no_file_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
