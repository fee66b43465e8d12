/*
 * How long a worker's death lasts: kills shoal-worker again and again over one vault and prints,
 * for each life, when its predecessor's end was seen, when it was ready, and when the first token
 * of a short prompt came, all counted from the SIGKILL; and how long the same prompt takes in a
 * worker that has already run it. No frontend is involved: this is the part of a restart that
 * depends on the checkpoint.
 *
 * usage: build/tests/process/restart_bench [MODEL [LIVES]]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "proto/must.h"
#include "tests/support/spawned_worker.h"

#define PROMPT_TOKENS 8u
#define LIVES         5

struct bench {
    const char *model;
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

/* One token after a short prompt. */
static void ask(struct bench *bench)
{
    uint32_t prompt[PROMPT_TOKENS] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct test_request request = {.prompt = prompt,
                                   .prompt_tokens = PROMPT_TOKENS,
                                   .max_new_tokens = 1,
                                   .flags = SUBMIT_FLAG_IGNORE_END,
                                   .sampling = sampling_params_default()};
    must(test_frontend_submit(bench->frontend, 1, &request));
    test_frontend_finish(bench->frontend, 600000);
}

static const char *weights_word(const struct bench *bench)
{
    static const char *const words[] = {"packed privately", "packed into the vault", "adopted",
                                        "vault refused"};
    return words[atomic_load(&bench->frontend->pair.segment.gauges->weights) % 4];
}

int main(int argc, char **argv)
{
    struct bench bench = {.model = argc > 1 ? argv[1] : SPAWNED_WORKER_MODEL};
    int lives = argc > 2 ? atoi(argv[2]) : LIVES;
    int vault = memfd_create("vault", MFD_ALLOW_SEALING);
    must(vault >= 0);
    snprintf(bench.vault_text, sizeof bench.vault_text, "%d", vault);
    double start_ms = now_ms();
    begin(&bench);
    printf("first start: ready after %.1f ms, weights %s\n", now_ms() - start_ms,
           weights_word(&bench));
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
