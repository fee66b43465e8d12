/*
 * Processes that share one vault: the first uploads, the next ones adopt its weights on the device,
 * a process that dies while uploading leaves an empty vault, and any other contents are discarded.
 * Each life is a process with its own device.
 *
 * Values of a checkpoint show which process uploaded them: an adopter has other values than the
 * filler under the same fingerprint, and must find the filler's.
 */
// tags: threads
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/tiny_checkpoint.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/weights/vulkan_manifest.h"
#include "worker/backend/vulkan/weights/vulkan_weight_loader.h"

#define MATRIX_FLOATS  1024u
#define FORECAST_BYTES 1024u  /* of the weights: too low, so that they take several allocations */
#define PATIENCE_MS    300000 /* only a failing test waits for it */

struct scene {
    struct vulkan_vault vault;
    const char *reason_words; /* that the origin's reason contains; NULL: it is "" */
    int pipe[2];              /* a child tells that it is as far as the test wants it */
    float first_value;        /* of its checkpoint */
    float value_expected;     /* on the device; 0: its own */
    uint64_t checkpoint;      /* stands for the fingerprint */
    enum worker_weights origin;
    bool dies_filling;
    bool stays; /* until it is killed, telling through the pipe first */
    bool cannot_share;
    bool driver_complains; /* expected; its messages are not checked */
};

static struct scene scene;

static int scene_open(void **state)
{
    (void)state;
    int ends[2];
    scene = (struct scene){.first_value = 1.0f, .checkpoint = 1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    scene.vault = (struct vulkan_vault){.fd = ends[0], .send_fd = ends[1]};
    assert_int_equal(pipe(scene.pipe), 0);
    return 0;
}

static int scene_close(void **state)
{
    (void)state;
    close(scene.vault.fd);
    close(scene.vault.send_fd);
    close(scene.pipe[0]);
    close(scene.pipe[1]);
    return 0;
}

/* --- one life: in a child, so must() and not cmocka's asserts ----------------------------------
 */

struct life {
    struct tiny_checkpoint tiny;
    struct model *model;
    struct vulkan_device *device;
    struct vulkan_weights weights;
    struct backend_options options;
};

static void life_begin(struct life *life, float first_value)
{
    struct error_text error;
    memset(life, 0, sizeof *life);
    tiny_checkpoint_init_llama(&life->tiny, 2);
    for (uint32_t t = 0; t < life->tiny.tensor_count; t++)
        life->tiny.tensors[t].fill = first_value + (float)t;
    must(tiny_checkpoint_open(&life->tiny, &life->model, &error) == RESULT_OK);
    const struct vulkan_device_options unwatched = {.tier_limit = VULKAN_SCALAR};
    if (scene.driver_complains)
        must(vulkan_device_open(&unwatched, &life->device, &error) == RESULT_OK);
    else
        life->device = vulkan_fixture_open(VULKAN_SCALAR);
    if (scene.cannot_share)
        life->device->facts.external_memory = false;
    vulkan_weights_init(&life->weights, life->device, model_plan(life->model));
    life->weights.matrix_bytes = FORECAST_BYTES;
    life->options = (struct backend_options){.threads = 1,
                                             .has_vault = true,
                                             .vault_fd = scene.vault.fd,
                                             .vault_send_fd = scene.vault.send_fd,
                                             .checkpoint = {.inode = scene.checkpoint}};
}

static void life_end(struct life *life)
{
    vulkan_weights_fini(&life->weights);
    vulkan_fixture_close(life->device);
    model_close(life->model);
}

static void read_back(struct life *life, const struct vulkan_piece *piece, void *to)
{
    struct vulkan_buffer host;
    struct vulkan_commands *commands;
    struct error_text error;
    must(vulkan_buffer_create(life->device, VULKAN_READBACK, piece->bytes, "a test", &host,
                              &error) == RESULT_OK);
    must(vulkan_commands_create(life->device, VULKAN_QUEUE_COMPUTE, 0, &commands, &error) ==
         RESULT_OK);
    must(vulkan_commands_begin(commands, &error) == RESULT_OK);
    vulkan_commands_copy(commands, piece->buffer, piece->offset, &host, 0, piece->bytes);
    must(vulkan_commands_end(commands, &error) == RESULT_OK);
    must(vulkan_commands_run(commands, &error) == RESULT_OK);
    memcpy(to, host.mapped, piece->bytes);
    vulkan_commands_destroy(commands);
    vulkan_buffer_destroy(life->device, &host);
}

/* All matrices have the values of a checkpoint with `first_value`. */
static void expect_values(struct life *life, float first_value)
{
    static float values[MATRIX_FLOATS];
    for (uint32_t m = 0; m < life->weights.matrix_count; m++) {
        const struct vulkan_matrix *matrix = &life->weights.matrices[m];
        uint64_t row_floats =
            vulkan_weight_format_row_bytes(matrix->kind, matrix->columns).codes / 4;
        uint32_t row = 0;
        must(matrix->kind == VULKAN_WEIGHT_F32 && matrix->codes.bytes <= sizeof values);
        read_back(life, &matrix->codes, values);
        for (uint32_t w = 0; w < matrix->weight_count; w++) {
            const struct plan_weight *weight = &life->weights.plan->weights[matrix->weights[w]];
            float own;
            memcpy(&own, weight->data, sizeof own);
            for (uint32_t end = row + weight->rows; row < end; row++)
                for (uint32_t column = 0; column < matrix->columns; column++)
                    must(values[row * row_floats + column] ==
                         own - scene.first_value + first_value);
        }
    }
}

static void tell(void)
{
    must(write(scene.pipe[1], "", 1) == 1);
}

static void die_on_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)context;
    (void)total_bytes;
    if (scene.dies_filling && done_bytes > 0)
        raise(SIGKILL);
}

/* After an import of foreign memory a GPU's driver may refuse everything (NVIDIA's does): then the
 * load ends with an error, and the frontend gives the vault up. */
static bool driver_gave_up(const struct life *life, enum result result,
                           const struct error_text *error)
{
    if (result == RESULT_OK || !scene.driver_complains ||
        life->device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU)
        return false;
    must(error->text[0] != '\0');
    fprintf(stderr, "  the driver gave up: %s\n", error->text);
    return true;
}

static void live(void)
{
    struct life life;
    struct vulkan_weight_origin origin;
    struct error_text error = {""};
    life_begin(&life, scene.first_value);
    enum result result = vulkan_weight_loader_run(&life.weights, &life.options, die_on_progress,
                                                  NULL, &origin, &error);
    if (driver_gave_up(&life, result, &error)) {
        life_end(&life);
        return;
    }
    if (result != RESULT_OK || origin.kind != scene.origin)
        fprintf(stderr, "origin %d, not %d: %s %s\n", (int)origin.kind, (int)scene.origin,
                error.text, origin.reason.text);
    must(result == RESULT_OK && origin.kind == scene.origin);
    must(scene.reason_words ? strstr(origin.reason.text, scene.reason_words) != NULL
                            : origin.reason.text[0] == '\0');
    must(vulkan_arena_chunk_count(life.weights.arena) > 1);
    expect_values(&life, scene.value_expected > 0 ? scene.value_expected : scene.first_value);
    if (scene.stays) {
        tell();
        pause();
    }
    life_end(&life);
}

/* --- the test's own process, which knows no device ---------------------------------------------
 */

static pid_t start(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        live();
        _exit(0);
    }
    return child;
}

static void await(pid_t child, int signal_expected)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (signal_expected ? !WIFSIGNALED(status) || WTERMSIG(status) != signal_expected : status != 0)
        fail_msg("the process ended with status %#x", (unsigned)status);
}

static void one_life(enum worker_weights origin)
{
    scene.origin = origin;
    await(start(), 0);
}

static void await_tell(void)
{
    char byte;
    struct pollfd told = {.fd = scene.pipe[0], .events = POLLIN};
    assert_int_equal(poll(&told, 1, PATIENCE_MS), 1);
    assert_int_equal(read(scene.pipe[0], &byte, 1), 1);
}

/* Fills the vault, and is killed while it uses those weights. */
static void fill_and_kill(float first_value)
{
    scene.first_value = first_value;
    scene.origin = WORKER_WEIGHTS_FILLED;
    scene.stays = true;
    pid_t child = start();
    await_tell();
    kill(child, SIGKILL);
    await(child, SIGKILL);
    scene.stays = false;
}

static void weights_outlive_a_killed_process(void **state)
{
    (void)state;
    fill_and_kill(1.0f);
    scene.first_value = 1000.0f; /* under the same fingerprint: seen only if it were uploaded */
    scene.value_expected = 1.0f;
    one_life(WORKER_WEIGHTS_ADOPTED);
    one_life(WORKER_WEIGHTS_ADOPTED);
}

static void a_death_while_filling_leaves_nothing(void **state)
{
    (void)state;
    scene.origin = WORKER_WEIGHTS_FILLED;
    scene.dies_filling = true;
    await(start(), SIGKILL);
    assert_false(vulkan_vault_is_filled(&scene.vault));
    scene.dies_filling = false;
    one_life(WORKER_WEIGHTS_FILLED);
    one_life(WORKER_WEIGHTS_ADOPTED);
}

static void another_checkpoint_takes_the_vault_over(void **state)
{
    (void)state;
    fill_and_kill(1.0f);
    scene.checkpoint = 2;
    scene.first_value = 50.0f;
    one_life(WORKER_WEIGHTS_FILLED);
    scene.first_value = 1000.0f;
    scene.value_expected = 50.0f;
    one_life(WORKER_WEIGHTS_ADOPTED);
}

/* One fills while the other waits; then both use the same memory at the same time. */
static void processes_of_one_device_share(void **state)
{
    (void)state;
    fill_and_kill(1.0f);
    scene.origin = WORKER_WEIGHTS_ADOPTED;
    scene.stays = true;
    pid_t first = start();
    pid_t second = start();
    await_tell();
    await_tell();
    scene.stays = false;
    one_life(WORKER_WEIGHTS_ADOPTED);
    kill(first, SIGKILL);
    kill(second, SIGKILL);
    await(first, SIGKILL);
    await(second, SIGKILL);
    one_life(WORKER_WEIGHTS_ADOPTED);
}

static void a_filler_is_waited_for(void **state)
{
    (void)state;
    struct error_text error;
    assert_int_equal(vulkan_vault_lock(&scene.vault, &error), RESULT_OK);
    scene.origin = WORKER_WEIGHTS_FILLED;
    pid_t child = start();
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    assert_false(vulkan_vault_is_filled(&scene.vault));
    vulkan_vault_unlock(&scene.vault);
    await(child, 0);
}

/* Some that are no device memory. */
static int foreign_fd(int kind)
{
    static const char noise[8192] = "noise";
    if (kind == 0)
        return dup(scene.pipe[0]);
    if (kind == 1)
        return dup(scene.vault.fd);
    if (kind == 2)
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    int fd = memfd_create("foreign", MFD_CLOEXEC);
    assert_true(fd >= 0 && (kind == 3 || write(fd, noise, sizeof noise) == sizeof noise));
    return fd;
}

/* Replaces the vault's message by one with the same manifest and other descriptors. */
static void spoil(int kind)
{
    static struct vulkan_vault_message message;
    struct error_text error = {""};
    assert_int_equal(vulkan_vault_peek(&scene.vault, &message, &error), RESULT_OK);
    for (uint32_t i = 0; i < message.fd_count; i++) {
        close(message.fds[i]);
        message.fds[i] = foreign_fd(kind);
        assert_true(message.fds[i] >= 0);
    }
    assert_int_equal(vulkan_vault_empty(&scene.vault, &error), RESULT_OK);
    if (vulkan_vault_leave(&scene.vault, &message, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    vulkan_vault_message_close(&message);
}

static void foreign_descriptors_are_refused(void **state)
{
    (void)state;
    fill_and_kill(1.0f);
    for (int kind = 0; kind < 5; kind++) {
        scene.driver_complains = kind >= 2;
        spoil(kind);
        one_life(WORKER_WEIGHTS_FILLED);
        scene.driver_complains = false;
        if (!vulkan_vault_is_filled(&scene.vault))
            one_life(WORKER_WEIGHTS_FILLED);
    }
    one_life(WORKER_WEIGHTS_ADOPTED);
}

static void too_few_descriptors_are_refused(void **state)
{
    (void)state;
    static struct vulkan_vault_message message;
    struct vulkan_manifest manifest;
    struct error_text error = {""};
    fill_and_kill(1.0f);
    assert_int_equal(vulkan_vault_peek(&scene.vault, &message, &error), RESULT_OK);
    close(message.fds[--message.fd_count]);
    memcpy(&manifest, message.bytes, sizeof manifest);
    vulkan_manifest_finish(&manifest, message.fd_count);
    memcpy(message.bytes, &manifest, sizeof manifest);
    assert_int_equal(vulkan_vault_empty(&scene.vault, &error), RESULT_OK);
    assert_int_equal(vulkan_vault_leave(&scene.vault, &message, &error), RESULT_OK);
    vulkan_vault_message_close(&message);
    one_life(WORKER_WEIGHTS_FILLED);
}

static void noise_is_thrown_away(void **state)
{
    (void)state;
    assert_int_equal(send(scene.vault.send_fd, "noise", 5, MSG_DONTWAIT), 5);
    one_life(WORKER_WEIGHTS_FILLED);
    one_life(WORKER_WEIGHTS_ADOPTED);
}

static void a_device_that_cannot_share_keeps_to_itself(void **state)
{
    (void)state;
    fill_and_kill(1.0f);
    scene.cannot_share = true;
    scene.first_value = 70.0f;
    scene.reason_words = "cannot share memory between processes";
    one_life(WORKER_WEIGHTS_PRIVATE);
    scene.cannot_share = false;
    scene.reason_words = NULL;
    scene.value_expected = 1.0f;
    one_life(WORKER_WEIGHTS_ADOPTED); /* the vault is unchanged */
}

/* What the frontend holds for a CPU. */
static void a_vault_of_memory_is_refused(void **state)
{
    (void)state;
    close(scene.vault.fd);
    scene.vault.fd = memfd_create("vault", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    scene.reason_words = "it cannot be read";
    one_life(WORKER_WEIGHTS_REFUSED);
    close(scene.vault.send_fd);
    scene.vault.send_fd = -1;
    scene.reason_words = "not one for descriptors";
    one_life(WORKER_WEIGHTS_PRIVATE);
}

int main(void)
{
#define SCENE_TEST(test) cmocka_unit_test_setup_teardown(test, scene_open, scene_close)
    const struct CMUnitTest tests[] = {
        SCENE_TEST(weights_outlive_a_killed_process),
        SCENE_TEST(a_death_while_filling_leaves_nothing),
        SCENE_TEST(another_checkpoint_takes_the_vault_over),
        SCENE_TEST(processes_of_one_device_share),
        SCENE_TEST(a_filler_is_waited_for),
        SCENE_TEST(foreign_descriptors_are_refused),
        SCENE_TEST(too_few_descriptors_are_refused),
        SCENE_TEST(noise_is_thrown_away),
        SCENE_TEST(a_device_that_cannot_share_keeps_to_itself),
        SCENE_TEST(a_vault_of_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
