/*
 * How long a worker's death lasts: kills shoal-worker again and again over one vault and prints,
 * for each life, when its predecessor's end was seen, when it was ready, and when the first token
 * of a short prompt came, all counted from the SIGKILL; and how long the same prompt takes in a
 * worker that has already run it. No frontend is involved: this is the part of a restart that
 * depends on the checkpoint.
 *
 * Before that it reads the vault once with all CPUs. A step of a dense model reads every weight, so
 * no step, and no first token, takes less than that on this machine: the floor.
 *
 * usage: build/tests/process/restart_bench [MODEL [LIVES [PROMPT_TOKENS]]]
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/must.h"
#include "tests/support/spawned_worker.h"

#define PROMPT_TOKENS     8u
#define PROMPT_TOKENS_MAX 512u
#define LIVES             5
#define READERS_MAX       64
#define READINGS          3

struct bench {
    const char *model;
    uint32_t prompt_tokens;
    char vault_text[16];
    struct test_frontend *frontend;
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void begin(struct bench *bench)
{
    struct test_frontend_sizes sizes = {.submit_capacity = 64,
                                        .event_capacity = 256,
                                        .slab_bytes = 1u << 20,
                                        .vocab_tokens = LIMIT_VOCAB_TOKENS};
    const char *const flags[] = {"--weights-fd", bench->vault_text, NULL};
    bench->frontend = test_frontend_create(&sizes);
    spawned_worker_start(bench->frontend, bench->model, flags);
    struct worker_gauges *gauges = bench->frontend->pair.segment.gauges;
    while (atomic_load_explicit(&gauges->state, memory_order_acquire) != WORKER_READY) {
        if (atomic_load(&gauges->state) == WORKER_FAILED) {
            fprintf(stderr, "restart_bench: %s\n", gauges->failure);
            exit(1);
        }
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
}

/* One token after the prompt. */
static void ask(struct bench *bench)
{
    uint32_t prompt[PROMPT_TOKENS_MAX];
    for (uint32_t i = 0; i < bench->prompt_tokens; i++)
        prompt[i] = 1 + i;
    struct test_request request = {.prompt = prompt,
                                   .prompt_tokens = bench->prompt_tokens,
                                   .max_new_tokens = 1,
                                   .flags = SUBMIT_FLAG_IGNORE_END,
                                   .sampling = sampling_params_default()};
    must(test_frontend_submit(bench->frontend, 1, &request));
    test_frontend_finish(bench->frontend, 600000);
}

struct reader {
    pthread_t thread;
    const uint64_t *words;
    size_t count;
    uint64_t sum;
};

static void *read_words(void *context)
{
    struct reader *reader = context;
    uint64_t sums[4] = {0};
    for (size_t i = 0; i + 4 <= reader->count; i += 4)
        for (size_t lane = 0; lane < 4; lane++)
            sums[lane] += reader->words[i + lane];
    reader->sum = sums[0] + sums[1] + sums[2] + sums[3];
    return NULL;
}

/* Reads the vault with all CPUs at once, a few times; milliseconds of the fastest. */
static double read_vault_ms(const uint64_t *words, size_t count, int readers)
{
    struct reader all[READERS_MAX];
    double best_ms = 0;
    for (int reading = 0; reading < READINGS; reading++) {
        double start_ms = now_ms();
        for (int r = 0; r < readers; r++) {
            size_t begin = count * (size_t)r / (size_t)readers;
            size_t end = count * ((size_t)r + 1) / (size_t)readers;
            all[r] = (struct reader){.words = words + begin, .count = end - begin};
            must(pthread_create(&all[r].thread, NULL, read_words, &all[r]) == 0);
        }
        for (int r = 0; r < readers; r++)
            must(pthread_join(all[r].thread, NULL) == 0);
        double took_ms = now_ms() - start_ms;
        best_ms = reading == 0 || took_ms < best_ms ? took_ms : best_ms;
    }
    return best_ms;
}

static void print_floor(int vault)
{
    struct stat status;
    must(fstat(vault, &status) == 0);
    size_t bytes = (size_t)status.st_size;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int readers = cpus < READERS_MAX ? (int)cpus : READERS_MAX;
    const uint64_t *words = mmap(NULL, bytes, PROT_READ, MAP_SHARED, vault, 0);
    if (words == MAP_FAILED)
        return; /* the worker packed privately, and has said why */
    double floor_ms = read_vault_ms(words, bytes / sizeof *words, readers);
    printf("floor: %.1f MB of weights read once by %d threads in %.1f ms (%.1f GB/s)\n",
           (double)bytes / 1e6, readers, floor_ms, (double)bytes / 1e6 / floor_ms);
    munmap((void *)(uintptr_t)words, bytes);
}

static const char *weights_word(const struct bench *bench)
{
    static const char *const words[] = {"packed privately", "packed into the vault", "adopted",
                                        "vault refused"};
    return words[atomic_load(&bench->frontend->pair.segment.gauges->weights) % 4];
}

int main(int argc, char **argv)
{
    struct bench bench = {.model = argc > 1 ? argv[1] : SPAWNED_WORKER_MODEL,
                          .prompt_tokens = argc > 3 ? (uint32_t)atoi(argv[3]) : PROMPT_TOKENS};
    int lives = argc > 2 ? atoi(argv[2]) : LIVES;
    must(bench.prompt_tokens > 0 && bench.prompt_tokens <= PROMPT_TOKENS_MAX);
    int vault = memfd_create("vault", MFD_ALLOW_SEALING);
    must(vault >= 0);
    snprintf(bench.vault_text, sizeof bench.vault_text, "%d", vault);
    double start_ms = now_ms();
    begin(&bench);
    printf("first start: ready after %.1f ms, weights %s\n", now_ms() - start_ms,
           weights_word(&bench));
    print_floor(vault);
    printf("%8s %10s %12s %12s   (ms from SIGKILL; the last: from its submission)\n", "end seen",
           "ready", "first token", "second time");
    for (int i = 0; i < lives; i++) {
        ask(&bench);
        double killed_ms = now_ms();
        kill(bench.frontend->pair.child, SIGKILL);
        (void)process_pair_reap(&bench.frontend->pair);
        double seen_ms = now_ms() - killed_ms;
        test_frontend_destroy(bench.frontend);
        begin(&bench);
        double ready_ms = now_ms() - killed_ms;
        ask(&bench);
        double token_ms = now_ms() - killed_ms;
        double again_ms = now_ms();
        ask(&bench);
        again_ms = now_ms() - again_ms;
        printf("%8.1f %10.1f %12.1f %12.1f   weights %s\n", seen_ms, ready_ms, token_ms, again_ms,
               weights_word(&bench));
    }
    kill(bench.frontend->pair.child, SIGKILL);
    (void)process_pair_reap(&bench.frontend->pair);
    test_frontend_destroy(bench.frontend);
    close(vault);
    return 0;
}
