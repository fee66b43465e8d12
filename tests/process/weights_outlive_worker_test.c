/*
 * Workers in succession on one vault: the first packs its weights into it, the next adopt them. A
 * worker that dies while packing leaves the vault empty; any other content is refused. Packed or
 * adopted, every worker draws the same tokens with bit-identical log-probabilities.
 */
// tags: threads
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/sanitized.h"
#include "tests/support/spawned_worker.h"
#include "tests/support/test_random.h"

#define VOCAB     49152u
#define TOKENS    6u
#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* A worker over the vault `fd`, or without one when it is -1. */
struct life {
    struct test_frontend *frontend;
    char fd_text[16];
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* CPU time of the worker; it does not grow while other processes have the CPUs. */
static double worker_cpu_ms(const struct life *life)
{
    clockid_t clock;
    struct timespec used;
    assert_int_equal(clock_getcpuclockid(life->frontend->pair.child, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

static void begin(struct life *life, const char *model, int fd, const char *verify)
{
    struct test_frontend_sizes sizes = {.submit_capacity = 64,
                                        .event_capacity = 256,
                                        .slab_bytes = 1u << 20,
                                        .vocab_tokens = VOCAB};
    life->frontend = test_frontend_create(&sizes);
    snprintf(life->fd_text, sizeof life->fd_text, "%d", fd);
    const char *const flags[] = {
        "--kv-cache-bytes", "50000000", "--verify-weights", verify, "--weights-fd",
        life->fd_text,      NULL};
    const char *const none[] = {"--kv-cache-bytes", "50000000", NULL};
    spawned_worker_start(life->frontend, model, fd >= 0 ? flags : none);
}

static enum worker_weights ready(struct life *life)
{
    spawned_worker_await(life->frontend, WORKER_READY);
    struct worker_gauges *gauges = life->frontend->pair.segment.gauges;
    assert_int_equal(atomic_load(&gauges->load_done_bytes), atomic_load(&gauges->load_total_bytes));
    return (enum worker_weights)atomic_load(&gauges->weights);
}

static void end(struct life *life)
{
    kill(life->frontend->pair.child, SIGKILL);
    (void)process_pair_reap(&life->frontend->pair);
    test_frontend_destroy(life->frontend);
    life->frontend = NULL;
}

static int vault_open(void)
{
    int fd = memfd_create("vault", MFD_ALLOW_SEALING); /* inherited */
    assert_true(fd >= 0);
    return fd;
}

static bool sealed(int fd)
{
    return (fcntl(fd, F_GET_SEALS) & ALL_SEALS) == ALL_SEALS;
}

static uint64_t vault_bytes(int fd)
{
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return (uint64_t)status.st_size;
}

static uint64_t resident_vault_bytes(int fd)
{
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

/* --- the same answer -------------------------------------------------------------------------- */

struct answer {
    uint32_t tokens[TOKENS];
    float logprobs[TOKENS];
};

static struct answer ask(struct life *life)
{
    static const uint32_t prompt[] = {1, 4093, 198, 28120, 905, 253, 1116, 2702, 17, 40000};
    struct test_request request = {.prompt = prompt,
                                   .prompt_tokens = sizeof prompt / sizeof prompt[0],
                                   .max_new_tokens = TOKENS,
                                   .flags = SUBMIT_FLAG_IGNORE_END,
                                   .sampling = sampling_params_default()};
    struct answer answer;
    request.flags |= SUBMIT_FLAG_LOGPROBS;
    request.sampling.temperature = 0.9f;
    request.sampling.seed = 77;
    assert_true(test_frontend_submit(life->frontend, 3, &request));
    test_frontend_finish(life->frontend, PROCESS_PAIR_PATIENCE_MS);
    const struct test_reply *reply = &life->frontend->replies[3];
    assert_int_equal(reply->finish, FINISH_LENGTH);
    assert_int_equal(reply->token_count, TOKENS);
    memcpy(answer.tokens, reply->tokens, sizeof answer.tokens);
    memcpy(answer.logprobs, reply->logprobs, sizeof answer.logprobs);
    return answer;
}

/* The answer of a worker without a vault; computed once. */
static const struct answer *right_answer(void)
{
    static struct answer answer;
    static bool known;
    struct life life;
    if (known)
        return &answer;
    begin(&life, SPAWNED_WORKER_MODEL, -1, "0");
    assert_int_equal(ready(&life), WORKER_WEIGHTS_PRIVATE);
    answer = ask(&life);
    end(&life);
    known = true;
    return &answer;
}

static void check_answer(struct life *life)
{
    struct answer answer = ask(life);
    assert_memory_equal(&answer, right_answer(), sizeof answer);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_next_worker_adopts(void **state)
{
    (void)state;
    int fd = vault_open();
    struct life life;
    begin(&life, SPAWNED_WORKER_MODEL, fd, "0");
    assert_int_equal(ready(&life), WORKER_WEIGHTS_FILLED);
    double packing_ms = worker_cpu_ms(&life);
    assert_true(sealed(fd));
    uint64_t weights_bytes = atomic_load(&life.frontend->pair.segment.gauges->weights_bytes);
    assert_true(vault_bytes(fd) >= weights_bytes && vault_bytes(fd) < weights_bytes + (3u << 20));
    check_answer(&life);
    double best_ms = 1e9;
    for (int i = 0; i < 5; i++) {
        double killed_ms = now_ms();
        end(&life);
        begin(&life, SPAWNED_WORKER_MODEL, fd, i == 4 ? "1" : "0");
        assert_int_equal(ready(&life), WORKER_WEIGHTS_ADOPTED);
        double cpu_ms = worker_cpu_ms(&life);
        print_message(
            "SIGKILL to ready: %.1f ms, with %.1f ms of CPU time; packing took %.1f ms of it\n",
            now_ms() - killed_ms, cpu_ms, packing_ms);
        best_ms = cpu_ms < best_ms ? cpu_ms : best_ms;
    }
    assert_true(SANITIZED || best_ms < packing_ms / 8);
    check_answer(&life);
    end(&life);
    close(fd);
}

/* Percent of the weights packed. */
static uint64_t packed_share(const struct life *life)
{
    const struct worker_gauges *gauges = life->frontend->pair.segment.gauges;
    uint64_t total_bytes = atomic_load(&gauges->load_total_bytes);
    return total_bytes ? atomic_load(&gauges->load_done_bytes) * 100 / total_bytes : 0;
}

/* Kills the first worker at `share` percent packed; the second must treat the vault as empty. */
static void kill_while_packing(uint64_t share)
{
    int fd = vault_open();
    struct life life;
    begin(&life, SPAWNED_WORKER_MODEL, fd, "0");
    double give_up_ms = now_ms() + PROCESS_PAIR_PATIENCE_MS;
    while (!sealed(fd) && (resident_vault_bytes(fd) == 0 || packed_share(&life) < share))
        assert_true(now_ms() < give_up_ms);
    end(&life);
    bool complete = sealed(fd);
    begin(&life, SPAWNED_WORKER_MODEL, fd, "1");
    assert_int_equal(ready(&life), complete ? WORKER_WEIGHTS_ADOPTED : WORKER_WEIGHTS_FILLED);
    assert_true(sealed(fd));
    check_answer(&life);
    end(&life);
    close(fd);
}

static void test_killed_while_packing(void **state)
{
    (void)state;
#if SANITIZED
    static const uint64_t shares[] = {0, 60};
#else
    static const uint64_t shares[] = {0, 1, 30, 70, 95, 100};
#endif
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        kill_while_packing(shares[i]);
}

static void test_two_start_at_once(void **state)
{
    (void)state;
    int fd = vault_open();
    struct life lives[2];
    begin(&lives[0], SPAWNED_WORKER_MODEL, fd, "0");
    begin(&lives[1], SPAWNED_WORKER_MODEL, fd, "0");
    enum worker_weights first = ready(&lives[0]);
    enum worker_weights second = ready(&lives[1]);
    assert_int_equal(first + second, WORKER_WEIGHTS_FILLED + WORKER_WEIGHTS_ADOPTED);
    assert_int_not_equal(first, second);
    check_answer(&lives[0]);
    check_answer(&lives[1]);
    end(&lives[0]);
    end(&lives[1]);
    close(fd);
}

/* Stops a worker while it packs; returns its vault. On a busy machine it may already have finished.
 */
static int stop_while_packing(struct life *filler)
{
    double give_up_ms = now_ms() + PROCESS_PAIR_PATIENCE_MS;
    for (;;) {
        int fd = vault_open();
        begin(filler, SPAWNED_WORKER_MODEL, fd, "0");
        while (resident_vault_bytes(fd) == 0)
            assert_true(now_ms() < give_up_ms);
        kill(filler->frontend->pair.child, SIGSTOP);
        if (!sealed(fd))
            return fd;
        end(filler);
        close(fd);
    }
}

static void test_filler_dies_while_another_waits(void **state)
{
    (void)state;
    struct life filler;
    struct life waiter;
    int fd = stop_while_packing(&filler);
    double give_up_ms = now_ms() + PROCESS_PAIR_PATIENCE_MS;
    begin(&waiter, SPAWNED_WORKER_MODEL, fd, "0");
    struct worker_gauges *gauges = waiter.frontend->pair.segment.gauges;
    /* It waits, and its heartbeat advances. */
    uint64_t beats = atomic_load(&gauges->heartbeat);
    while (atomic_load(&gauges->heartbeat) < beats + 5 || atomic_load(&gauges->state) < 1)
        assert_true(now_ms() < give_up_ms);
    assert_int_equal(atomic_load(&gauges->state), WORKER_LOADING);
    end(&filler);
    assert_int_equal(ready(&waiter), WORKER_WEIGHTS_FILLED);
    check_answer(&waiter);
    end(&waiter);
    close(fd);
}

static void copy_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct stat status;
    assert_true(in >= 0 && out >= 0 && fstat(in, &status) == 0);
    off_t at = 0;
    while (at < status.st_size && sendfile(out, in, &at, (size_t)(status.st_size - at)) > 0)
        ;
    assert_int_equal(at, status.st_size);
    close(in);
    close(out);
}

static char model_folder[] = "/tmp/shoal-weights-XXXXXX";
static char model_path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(model_folder))
        return -1;
    snprintf(model_path, sizeof model_path, "%s/model.gguf", model_folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    unlink(model_path);
    return rmdir(model_folder);
}

/* Field `name` of /proc/PID/status, in kilobytes. */
static uint64_t status_kb(pid_t pid, const char *name)
{
    char path[64];
    char line[256];
    unsigned long long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            (void)sscanf(line + strlen(name), " %llu", &kb);
    fclose(file);
    return kb;
}

/*
 * The checkpoint is a copy that was written in small pieces. A file written in large pieces, like a
 * download, is in the page cache in large folios, and newer kernels (6.18) map a whole folio when
 * one byte of it is read, so half of the checkpoint would count as resident.
 */
static void test_weights_are_resident_once(void **state)
{
    (void)state;
    int fd = vault_open();
    struct life lives[2];
    copy_file(SPAWNED_WORKER_MODEL, model_path);
    for (int i = 0; i < 2; i++) {
        begin(&lives[i], model_path, fd, "0");
        assert_int_equal(ready(&lives[i]), i ? WORKER_WEIGHTS_ADOPTED : WORKER_WEIGHTS_FILLED);
        check_answer(&lives[i]);
    }
    uint64_t vault_kb = resident_vault_bytes(fd) / 1024;
    assert_true(vault_kb * 1024 < vault_bytes(fd) + (4u << 20));
    for (int i = 0; i < 2; i++) {
        pid_t pid = lives[i].frontend->pair.child;
        uint64_t own_kb = status_kb(pid, "RssAnon:");
        uint64_t file_kb = status_kb(pid, "RssFile:");
        uint64_t shared_kb = status_kb(pid, "RssShmem:");
        print_message("worker %d: own %llu kB, checkpoint and programs %llu kB, shared %llu kB of "
                      "a vault of %llu kB\n",
                      i, (unsigned long long)own_kb, (unsigned long long)file_kb,
                      (unsigned long long)shared_kb, (unsigned long long)vault_kb);
        assert_true(shared_kb * 10 > vault_kb * 9);
        assert_true(SANITIZED || own_kb < vault_kb / 2); /* a sanitizer's tables would count */
        assert_true(file_kb < vault_kb / 2);
    }
    end(&lives[0]);
    end(&lives[1]);
    close(fd);
}

/* --- damaged vaults --------------------------------------------------------------------------- */

/* A vault of the default model, filled. */
static int filled_vault(void)
{
    int fd = vault_open();
    struct life life;
    begin(&life, SPAWNED_WORKER_MODEL, fd, "0");
    assert_int_equal(ready(&life), WORKER_WEIGHTS_FILLED);
    end(&life);
    return fd;
}

/* Refuses the vault, and the worker still answers; with `verify` "1" damaged data is found too. */
static void check_refused(int fd, const char *verify)
{
    struct life life;
    begin(&life, SPAWNED_WORKER_MODEL, fd, verify);
    assert_int_equal(ready(&life), WORKER_WEIGHTS_REFUSED);
    check_answer(&life);
    end(&life);
}

/* An unsealed copy of `bytes` bytes of the vault. */
static int copy_of(int vault, uint64_t bytes)
{
    int fd = vault_open();
    off_t from = 0;
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    while ((uint64_t)from < bytes && sendfile(fd, vault, &from, bytes - (uint64_t)from) > 0)
        ;
    assert_int_equal(from, bytes);
    return fd;
}

static void flip(int fd, uint64_t at)
{
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
}

static void test_foreign_vaults(void **state)
{
    (void)state;
    int vault = filled_vault();
    uint64_t bytes = vault_bytes(vault);
    uint8_t noise[8192];
    struct test_random random = {.state = 3};

    int fd = copy_of(vault, bytes); /* a manifest of noise */
    test_random_fill(&random, noise, sizeof noise);
    assert_int_equal(pwrite(fd, noise, sizeof noise, 0), sizeof noise);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, ALL_SEALS), 0);
    check_refused(fd, "0");
    close(fd);

    fd = copy_of(vault, bytes - 4096); /* cut short */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, ALL_SEALS), 0);
    check_refused(fd, "0");
    close(fd);

    fd = vault_open(); /* empty for ever */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, ALL_SEALS), 0);
    check_refused(fd, "0");
    close(fd);

    fd = copy_of(vault, bytes); /* writable, so its content may still change */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    check_refused(fd, "0");
    close(fd);

    fd = open(SPAWNED_WORKER_MODEL, O_RDONLY); /* not a memfd */
    assert_true(fd >= 0);
    check_refused(fd, "0");
    close(fd);
    close(vault);
}

static void test_damage(void **state)
{
    (void)state;
    int vault = filled_vault();
    uint64_t bytes = vault_bytes(vault);
    int fd = copy_of(vault, bytes);
    flip(fd, bytes / 2);
    struct life life; /* unsealed, so it counts as empty: its packing may be incomplete */
    begin(&life, SPAWNED_WORKER_MODEL, fd, "1");
    assert_int_equal(ready(&life), WORKER_WEIGHTS_FILLED);
    check_answer(&life);
    end(&life);
    close(fd);

    fd = copy_of(vault, bytes);
    flip(fd, bytes / 2);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, ALL_SEALS), 0);
    check_refused(fd, "1");
    begin(&life, SPAWNED_WORKER_MODEL, fd, "0"); /* only verification finds the damage */
    assert_int_equal(ready(&life), WORKER_WEIGHTS_ADOPTED);
    end(&life);
    close(fd);
    close(vault);
}

/* The same model in another file: weights packed from the old file are not used. */
static void test_replaced_checkpoint(void **state)
{
    (void)state;
    struct life life;
    int fd = vault_open();
    copy_file(SPAWNED_WORKER_MODEL, model_path);
    begin(&life, model_path, fd, "0");
    assert_int_equal(ready(&life), WORKER_WEIGHTS_FILLED);
    end(&life);
    begin(&life, model_path, fd, "0");
    assert_int_equal(ready(&life), WORKER_WEIGHTS_ADOPTED);
    end(&life);
    copy_file(SPAWNED_WORKER_MODEL, model_path);
    begin(&life, model_path, fd, "0");
    assert_int_equal(ready(&life), WORKER_WEIGHTS_REFUSED);
    check_answer(&life);
    end(&life);
    close(fd);
    fd = vault_open(); /* a new vault, as the frontend makes after a refusal */
    begin(&life, model_path, fd, "0");
    assert_int_equal(ready(&life), WORKER_WEIGHTS_FILLED);
    end(&life);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_worker_adopts),
        cmocka_unit_test(test_killed_while_packing),
        cmocka_unit_test(test_two_start_at_once),
        cmocka_unit_test(test_filler_dies_while_another_waits),
        cmocka_unit_test(test_weights_are_resident_once),
        cmocka_unit_test(test_foreign_vaults),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_replaced_checkpoint),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
