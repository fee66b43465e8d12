/*
 * Writes and reads of a prefix cache's file that move a part of the bytes, or none because of a
 * signal, go on where they stopped. A pipe of one page and a thread that sends signals force both.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/test_random.h"
#include "worker/cache/prefix_file.h"

enum { BLOCKS = 4, BLOCK_BYTES = 30000, PIECE_BYTES = 3000, SIGNAL_EVERY_NS = 50000 };

struct worker {
    struct kv_ledger_record records[BLOCKS];
    uint8_t memory[BLOCKS * BLOCK_BYTES];
    struct prefix_file_pools pools;
    struct kv_ledger *ledger;
};

static const struct keyed_hash_key key = {{11, 12}};

static void worker_open(struct worker *worker)
{
    memset(worker, 0, sizeof *worker);
    const struct kv_ledger_memory memory = {
        .records = worker->records, .counts = {BLOCKS}, .key = key};
    assert_int_equal(kv_ledger_create(&memory, &worker->ledger), RESULT_OK);
    worker->pools = (struct prefix_file_pools){
        .identity = 7, .block_bytes = {BLOCK_BYTES}, .memory = worker->memory};
}

static void fill(struct worker *worker)
{
    struct test_random random = {.state = 3};
    for (size_t i = 0; i < sizeof worker->memory; i++)
        worker->memory[i] = (uint8_t)test_random_below(&random, 256);
    for (uint32_t number = 0; number < BLOCKS; number++) {
        const struct prefix_block block = {.tokens = {number + 1}};
        kv_ledger_note(worker->ledger, 0, number, &block);
        kv_ledger_records(worker->ledger, 0)[number].stamp = BLOCKS - number;
    }
}

/* Moves bytes from one end to the other in pieces, while it sends signals to a thread. */
struct mover {
    int from, to;
    pthread_t reader_or_writer;
};

static _Atomic uint32_t signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void *move(void *context)
{
    struct mover *mover = context;
    static char piece[PIECE_BYTES];
    const struct timespec pause = {.tv_nsec = SIGNAL_EVERY_NS};
    for (;;) {
        for (int i = 0; i < 3; i++) {
            must(pthread_kill(mover->reader_or_writer, SIGUSR1) == 0);
            (void)nanosleep(&pause, NULL);
        }
        ssize_t count = read(mover->from, piece, sizeof piece);
        must(count >= 0);
        if (count == 0)
            break;
        must(write(mover->to, piece, (size_t)count) == count);
    }
    must(close(mover->to) == 0);
    return NULL;
}

static void open_small_pipe(int ends[2])
{
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) > 0);
}

static void interrupted_transfers_go_on(void **state)
{
    (void)state;
    static struct worker first, second;
    const struct sigaction counting = {.sa_handler = count_signal}; /* calls are not restarted */
    const struct prefix_file_limits limits = {1 << 20, 600000};
    struct prefix_file_figures out, in;
    struct error_text error;
    int ends[2];
    int fd = memfd_create("file", MFD_CLOEXEC);
    assert_int_equal(sigaction(SIGUSR1, &counting, NULL), 0);
    worker_open(&first);
    fill(&first);
    open_small_pipe(ends);
    struct mover mover = {.from = ends[0], .to = dup(fd), .reader_or_writer = pthread_self()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, move, &mover), 0);
    enum result saved =
        prefix_file_save(ends[1], &first.pools, first.ledger, &limits, &out, &error);
    close(ends[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(ends[0]);
    assert_int_equal(saved, RESULT_OK);
    assert_int_equal(out.blocks, BLOCKS);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), out.bytes);
    assert_true(signals > 0);

    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    open_small_pipe(ends);
    mover = (struct mover){.from = fd, .to = ends[1], .reader_or_writer = pthread_self()};
    worker_open(&second);
    struct prefix_file_head head;
    assert_int_equal(pthread_create(&thread, NULL, move, &mover), 0);
    enum result opened = prefix_file_open(ends[0], &second.pools, &head, &error);
    enum result loaded =
        opened ? opened
               : prefix_file_load(ends[0], &second.pools, &head, second.ledger, &in, &error);
    if (loaded != RESULT_OK)
        print_message("%s\n", error.text);
    assert_int_equal(loaded, RESULT_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(in.blocks, BLOCKS);
    assert_memory_equal(second.memory, first.memory, sizeof first.memory);
    close(ends[0]);
    close(fd);
    kv_ledger_destroy(first.ledger);
    kv_ledger_destroy(second.ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted_transfers_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
