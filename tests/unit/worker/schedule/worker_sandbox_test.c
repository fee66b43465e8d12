/*
 * Under the CPU worker's filter threads allocate and free as they do in steps and multiply with the best
 * instructions that the CPU has, also while signals interrupt them; a file cannot be read, and an
 * attempt to write one ends the process.
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
#include "tests/support/plan_sketch.h"
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/schedule/worker_sandbox.h"

#define THREADS 12
#define PIECES  64
#define BYTES   16384 /* in the thread's heap, not mapped on its own */

#define ROWS    64 /* of a product */
#define COLUMNS 512
#define ROUNDS  400

static pthread_barrier_t confined;
static struct {
    const struct cpu_kernels *kernels;
    struct packed_weight weight;
    struct quantized_block x[ROWS * COLUMNS / 32];
    float expected[ROWS * PACKED_ROWS];
} product;

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

/* Sixteen outputs; without scratch memory by other instructions, of which the bits are the same. */
static void multiply(struct linear_scratch *scratch, float *out)
{
    struct linear_tile tile = {.group = product.weight.data,
                               .columns = COLUMNS,
                               .rows = ROWS,
                               .x = product.x,
                               .x_stride_bytes = sizeof product.x / ROWS,
                               .out = out,
                               .out_stride = PACKED_ROWS,
                               .scratch = scratch};
    product.kernels->linear[product.weight.kind](&tile);
}

static void *multiply_often(void *context)
{
    float out[ROWS * PACKED_ROWS];
    struct linear_scratch scratch = {.bytes = linear_scratch_bytes(product.kernels, ROWS, COLUMNS)};
    scratch.memory = scratch.bytes > 0 ? aligned_alloc(64, scratch.bytes) : NULL;
    (void)context;
    pthread_barrier_wait(&confined);
    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(out, 0, sizeof out);
        multiply(&scratch, out);
        if (memcmp(out, product.expected, sizeof out) != 0)
            _exit(4);
    }
    free(scratch.memory);
    return NULL;
}

static void clear_registers(int signal)
{
    float out[ROWS * PACKED_ROWS];
    (void)signal;
    multiply(NULL, out);
}

static void threads_multiply(void)
{
    pthread_t threads[THREADS];
    const struct sigaction action = {.sa_handler = clear_registers};
    sigaction(SIGUSR1, &action, NULL);
    pthread_barrier_init(&confined, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, multiply_often, NULL) != 0)
            _exit(2);
    }
    worker_sandbox_enter(WORKER_SANDBOX_AUTO, DEVICE_CPU);
    pthread_barrier_wait(&confined);
    for (unsigned i = 0; i < 20 * THREADS; i++)
        pthread_kill(threads[i % THREADS], SIGUSR1);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void test_threads_may_multiply(void **state)
{
    (void)state;
    struct plan_sketch *sketch = plan_sketch_create(3);
    plan_weight_id id = plan_sketch_weight(sketch, GGML_Q4_0, PACKED_ROWS, COLUMNS);
    float row[COLUMNS];
    product.kernels = cpu_kernels_choose(CPU_TIER_BEST);
    print_message("tier %s\n", product.kernels->name);
    product.weight = packed_weight_describe(GGML_Q4_0, 1, PACKED_ROWS, COLUMNS);
    product.weight.data = aligned_alloc(64, (packed_weight_bytes(&product.weight) + 63) / 64 * 64);
    packed_weight_fill_group(&product.weight, GGML_Q4_0, plan_sketch_plan(sketch)->weights[id].data,
                             0);
    for (unsigned r = 0; r < ROWS; r++) {
        for (unsigned c = 0; c < COLUMNS; c++)
            row[c] = plan_sketch_uniform(sketch);
        product.kernels->quantize(row, COLUMNS, QUANTIZE_OUTLIER, product.x + r * COLUMNS / 32);
    }
    multiply(NULL, product.expected);
    assert_int_equal(in_child(threads_multiply), 0);
    free(product.weight.data);
    plan_sketch_destroy(sketch);
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
        cmocka_unit_test(test_threads_may_multiply),
        cmocka_unit_test(test_no_file_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
