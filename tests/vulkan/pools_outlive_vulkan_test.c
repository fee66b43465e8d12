/*
 * KV pools in a vault of descriptors: a later device handle finds the bytes that an earlier one wrote,
 * if pool number, device and number of descriptors are as stated. Everything else in the vault is
 * discarded, and new pools take its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/weights/vulkan_kept_pools.h"
#include "worker/plan/content_hash.h"

#define KV_BYTES    65536u
#define STATE_BYTES 4096u
#define POOL        77u
#define NEXT_POOL   78u

static struct kept_pools given = {.is_given = true, .pool = POOL, .next_pool = NEXT_POOL};

static int vault_open(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    given.vault_fd = ends[0];
    given.send_fd = ends[1];
    given.adopt = given.in_use = false;
    given.pool = POOL;
    return 0;
}

static int vault_close(void **state)
{
    (void)state;
    close(given.vault_fd);
    close(given.send_fd);
    return 0;
}

struct life {
    struct vulkan_device *device;
    struct vulkan_arena *kv;
    struct vulkan_arena *state;
    struct vulkan_piece pieces[2]; /* one of each arena */
    enum kept_pools_origin origin;
    struct error_text reason;
};

static enum result place(struct life *life, struct vulkan_kept_pools *pools,
                         struct error_text *error)
{
    life->kv = vulkan_kept_pools_kv(pools, KV_BYTES);
    life->state = vulkan_kept_pools_state(pools, STATE_BYTES);
    enum result result = vulkan_arena_take(life->kv, KV_BYTES, "test", &life->pieces[0], error);
    if (result == RESULT_OK)
        result = vulkan_arena_take(life->state, STATE_BYTES, "test", &life->pieces[1], error);
    if (result == RESULT_OK)
        result = vulkan_kept_pools_finish(pools, life->kv, life->state, error);
    return result;
}

static void life_begin(struct life *life, bool shares)
{
    struct vulkan_kept_pools pools;
    struct error_text error;
    *life = (struct life){.device = vulkan_fixture_open(VULKAN_SCALAR)};
    if (!shares)
        life->device->facts.external_memory = false;
    vulkan_kept_pools_begin(&pools, life->device, &given);
    while (place(life, &pools, &error) != RESULT_OK) {
        assert_true(vulkan_kept_pools_retry(&pools, error.text));
        vulkan_arena_destroy(life->kv);
        vulkan_arena_destroy(life->state);
    }
    vulkan_kept_pools_end(&pools, &life->origin);
    life->reason = pools.reason;
}

static void life_end(struct life *life)
{
    vulkan_arena_destroy(life->kv);
    vulkan_arena_destroy(life->state);
    vulkan_fixture_close(life->device);
}

static void run(struct life *life, const struct vulkan_buffer *host, uint32_t piece, uint32_t word)
{
    struct vulkan_commands *commands;
    struct error_text error;
    const struct vulkan_piece *at = &life->pieces[piece];
    assert_int_equal(
        vulkan_commands_create(life->device, VULKAN_QUEUE_COMPUTE, 0, &commands, &error),
        RESULT_OK);
    assert_int_equal(vulkan_commands_begin(commands, &error), RESULT_OK);
    if (host)
        vulkan_commands_copy(commands, at->buffer, at->offset, host, 0, at->bytes);
    else
        vulkan_commands_fill(commands, at->buffer, at->offset, at->bytes, word);
    assert_int_equal(vulkan_commands_end(commands, &error), RESULT_OK);
    assert_int_equal(vulkan_commands_run(commands, &error), RESULT_OK);
    vulkan_commands_destroy(commands);
}

static void expect_words(struct life *life, uint32_t piece, uint32_t word)
{
    struct vulkan_buffer host;
    struct error_text error;
    assert_int_equal(vulkan_buffer_create(life->device, VULKAN_READBACK, life->pieces[piece].bytes,
                                          "test", &host, &error),
                     RESULT_OK);
    run(life, &host, piece, 0);
    for (uint64_t i = 0; i < life->pieces[piece].bytes / sizeof word; i++)
        assert_int_equal(((const uint32_t *)host.mapped)[i], word);
    vulkan_buffer_destroy(life->device, &host);
}

/* The first worker of a pool: fills both arenas. */
static void first_life(void)
{
    struct life life;
    life_begin(&life, true);
    assert_int_equal(life.origin, KEPT_POOLS_NEW);
    assert_string_equal(life.reason.text, "");
    run(&life, NULL, 0, 11);
    run(&life, NULL, 1, 22);
    life_end(&life);
    given.adopt = true;
}

static void test_contents_stay(void **state)
{
    (void)state;
    first_life();
    for (uint32_t worker = 0; worker < 3; worker++) {
        struct life life;
        life_begin(&life, true);
        assert_int_equal(life.origin, KEPT_POOLS_ADOPTED);
        expect_words(&life, 0, 11 + worker);
        expect_words(&life, 1, 22);
        run(&life, NULL, 0, 12 + worker);
        life_end(&life);
    }
}

/* A worker that cannot use what it finds makes pools with the next number; its successor adopts
 * these. */
static void expect_new_pools(const char *reason)
{
    struct life life;
    life_begin(&life, true);
    assert_int_equal(life.origin, KEPT_POOLS_NEW);
    assert_memory_equal(life.reason.text, reason, strlen(reason));
    run(&life, NULL, 0, 33);
    life_end(&life);
    given.pool = NEXT_POOL;
    life_begin(&life, true);
    assert_int_equal(life.origin, KEPT_POOLS_ADOPTED);
    expect_words(&life, 0, 33);
    life_end(&life);
}

static void test_another_pool_is_discarded(void **state)
{
    (void)state;
    first_life();
    given.pool = POOL + 5;
    expect_new_pools("P2");
}

static void test_an_empty_vault(void **state)
{
    (void)state;
    given.adopt = true;
    expect_new_pools("its memory is gone");
}

/* A standby has the pools while another process uses them, and changes nothing that it cannot use. */
static void test_pools_in_use_are_imported_or_left_alone(void **state)
{
    (void)state;
    struct life serving, standby;
    life_begin(&serving, true);
    given.adopt = given.in_use = true;
    life_begin(&standby, true);
    assert_int_equal(standby.origin, KEPT_POOLS_ADOPTED);
    run(&serving, NULL, 0, 44); /* after the import */
    life_end(&serving);
    expect_words(&standby, 0, 44);
    life_end(&standby);
    given.pool = POOL + 5;
    struct vulkan_kept_pools pools;
    struct life other;
    other.device = vulkan_fixture_open(VULKAN_SCALAR);
    vulkan_kept_pools_begin(&pools, other.device, &given);
    assert_int_equal(pools.attempt, VULKAN_POOLS_IMPORT);
    assert_memory_equal(pools.reason.text, "P2", 2);
    assert_false(vulkan_kept_pools_retry(&pools, "its memory cannot be imported"));
    vulkan_kept_pools_end(&pools, &other.origin);
    vulkan_fixture_close(other.device);
    given.pool = POOL;
    life_begin(&other, true);
    assert_int_equal(other.origin, KEPT_POOLS_ADOPTED);
    expect_words(&other, 0, 44);
    life_end(&other);
}

/* Changes the vault's message: `field` is set to `value`, or inverted if it is the device's id, which
 * may have any value; the checksum is made to fit or not. */
static void rewrite(size_t field, uint8_t value, bool fits, uint32_t fd_count)
{
    const struct vulkan_vault vault = {.fd = given.vault_fd, .send_fd = given.send_fd};
    struct vulkan_vault_message message;
    struct vulkan_pools_manifest manifest;
    struct error_text error;
    assert_int_equal(vulkan_vault_peek(&vault, &message, &error), RESULT_OK);
    assert_int_equal(message.byte_count, sizeof manifest);
    memcpy(&manifest, message.bytes, sizeof manifest);
    uint8_t *byte = (uint8_t *)&manifest + field;
    *byte = field == offsetof(struct vulkan_pools_manifest, device_id) ? (uint8_t) ~*byte : value;
    if (fits)
        manifest.checksum =
            content_hash(&manifest, offsetof(struct vulkan_pools_manifest, checksum), 0);
    memcpy(message.bytes, &manifest, sizeof manifest);
    assert_int_equal(vulkan_vault_empty(&vault, &error), RESULT_OK);
    uint32_t all = message.fd_count;
    message.fd_count = fd_count;
    assert_int_equal(vulkan_vault_leave(&vault, &message, &error), RESULT_OK);
    message.fd_count = all;
    vulkan_vault_message_close(&message);
}

static void test_a_damaged_message_is_discarded(void **state)
{
    static const struct {
        size_t field;
        uint8_t value;
        bool fits;
        uint32_t fd_count;
        const char *rule;
    } cases[] = {
        {0, 'x', true, 2, "P1"},
        {offsetof(struct vulkan_pools_manifest, version), 9, true, 2, "P1"},
        {offsetof(struct vulkan_pools_manifest, kv_chunks), 2, false, 2, "P1"},
        {offsetof(struct vulkan_pools_manifest, device_id), 0, true, 2, "P3"},
        {offsetof(struct vulkan_pools_manifest, allocation_bytes), 3, true, 2, "P3"},
        {offsetof(struct vulkan_pools_manifest, kv_chunks), 3, true, 2, "P4"},
        {offsetof(struct vulkan_pools_manifest, state_chunks), 7, true, 2, "P4"},
        {offsetof(struct vulkan_pools_manifest, kv_chunks), 1, true, 1, "P4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        first_life();
        rewrite(cases[i].field, cases[i].value, cases[i].fits, cases[i].fd_count);
        expect_new_pools(cases[i].rule);
        assert_int_equal(vault_close(state), 0);
        assert_int_equal(vault_open(state), 0);
    }
    first_life();
    const struct vulkan_vault vault = {.fd = given.vault_fd, .send_fd = given.send_fd};
    struct error_text error;
    assert_int_equal(vulkan_vault_empty(&vault, &error), RESULT_OK);
    assert_int_equal(send(given.send_fd, "noise", 5, MSG_DONTWAIT), 5);
    expect_new_pools("P1");
}

static void test_a_device_that_cannot_share(void **state)
{
    (void)state;
    struct life life;
    life_begin(&life, false);
    assert_int_equal(life.origin, KEPT_POOLS_PRIVATE);
    assert_non_null(strstr(life.reason.text, "cannot share memory"));
    life_end(&life);
}

/* Open during all tests, so that the loader does not unload the driver between devices. Without it,
 * NVIDIA's was not found any more after some fifteen devices of one process (one H200). */
static int driver_hold(void **state)
{
    *state = vulkan_fixture_open(VULKAN_SCALAR);
    return 0;
}

static int driver_release(void **state)
{
    vulkan_fixture_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_contents_stay, vault_open, vault_close),
        cmocka_unit_test_setup_teardown(test_pools_in_use_are_imported_or_left_alone, vault_open,
                                        vault_close),
        cmocka_unit_test_setup_teardown(test_another_pool_is_discarded, vault_open, vault_close),
        cmocka_unit_test_setup_teardown(test_an_empty_vault, vault_open, vault_close),
        cmocka_unit_test_setup_teardown(test_a_damaged_message_is_discarded, vault_open,
                                        vault_close),
        cmocka_unit_test_setup_teardown(test_a_device_that_cannot_share, vault_open, vault_close),
    };
    return cmocka_run_group_tests(tests, driver_hold, driver_release);
}
