/*
 * A manifest is accepted only if it equals the one that this process would write: every byte of it
 * is changed, with and without a checksum that fits the change, and others are made for other
 * checkpoints, devices and plans.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "tests/support/tiny_checkpoint.h"
#include "worker/backend/vulkan/weights/vulkan_manifest.h"

#define CHUNKS 3u

static struct {
    struct tiny_checkpoint tiny;
    struct model *model;
    struct vulkan_device device; /* only its facts are used */
    struct vulkan_weights weights;
    struct vulkan_manifest mine;
} subject;

static const struct model_fingerprint checkpoint = {.file_bytes = 1000,
                                                    .modified_ns = 2000,
                                                    .changed_ns = 3000,
                                                    .device = 4,
                                                    .inode = 5,
                                                    .header_hash = 6};

static int subject_open(void **state)
{
    (void)state;
    memset(&subject, 0, sizeof subject);
    tiny_checkpoint_init_llama(&subject.tiny, 2);
    subject.model = tiny_checkpoint_must_open(&subject.tiny);
    subject.device.facts.max_allocation_bytes = 1u << 30;
    memset(subject.device.facts.device_id, 7, VK_UUID_SIZE);
    memset(subject.device.facts.driver_id, 8, VK_UUID_SIZE);
    vulkan_weights_init(&subject.weights, &subject.device, model_plan(subject.model));
    subject.mine = vulkan_manifest_describe(&subject.weights, &checkpoint);
    return 0;
}

static int subject_close(void **state)
{
    (void)state;
    vulkan_weights_fini(&subject.weights);
    model_close(subject.model);
    return 0;
}

static struct vulkan_manifest found_of(const struct vulkan_weights *weights,
                                       const struct model_fingerprint *of)
{
    struct vulkan_manifest found = vulkan_manifest_describe(weights, of);
    vulkan_manifest_finish(&found, CHUNKS);
    return found;
}

static void expect(const struct vulkan_manifest *found, uint32_t fd_count, enum result result,
                   const char *words)
{
    struct error_text error = {""};
    enum result got = vulkan_manifest_check(&subject.mine, found, sizeof *found, fd_count, &error);
    if (got != result || strncmp(error.text, words, strlen(words)) != 0)
        fail_msg("%s \"%s\", not %s \"%s\"", result_name(got), error.text, result_name(result),
                 words);
}

static void its_own_is_accepted(void **state)
{
    (void)state;
    struct vulkan_manifest found = found_of(&subject.weights, &checkpoint);
    expect(&found, CHUNKS, RESULT_OK, "");
}

static void every_changed_byte_is_noticed(void **state)
{
    (void)state;
    for (size_t at = 0; at < sizeof(struct vulkan_manifest); at++) {
        struct vulkan_manifest found = found_of(&subject.weights, &checkpoint);
        struct error_text error;
        ((uint8_t *)&found)[at] ^= 0x10;
        enum result plain =
            vulkan_manifest_check(&subject.mine, &found, sizeof found, CHUNKS, &error);
        assert_true(plain == RESULT_CORRUPT || plain == RESULT_STALE);
        if (at >= offsetof(struct vulkan_manifest, checksum))
            continue;
        vulkan_manifest_finish(&found, CHUNKS); /* sets the count right again */
        bool is_count = at / 4 == offsetof(struct vulkan_manifest, chunk_count) / 4;
        enum result fitting =
            vulkan_manifest_check(&subject.mine, &found, sizeof found, CHUNKS, &error);
        assert_int_equal(fitting == RESULT_OK, is_count);
    }
}

static void lengths_and_counts_must_fit(void **state)
{
    (void)state;
    struct vulkan_manifest found = found_of(&subject.weights, &checkpoint);
    struct error_text error;
    for (size_t bytes = 0; bytes < sizeof found; bytes++)
        assert_int_equal(vulkan_manifest_check(&subject.mine, &found, bytes, CHUNKS, &error),
                         RESULT_CORRUPT);
    expect(&found, CHUNKS - 1, RESULT_CORRUPT, "V7");
    expect(&found, CHUNKS + 1, RESULT_CORRUPT, "V7");
    expect(&found, 0, RESULT_CORRUPT, "V7");
}

static void another_checkpoint_is_refused(void **state)
{
    (void)state;
    struct model_fingerprint other = checkpoint;
    other.changed_ns++;
    struct vulkan_manifest found = found_of(&subject.weights, &other);
    expect(&found, CHUNKS, RESULT_STALE, "V2");
    other = checkpoint;
    other.header_hash++;
    found = found_of(&subject.weights, &other);
    expect(&found, CHUNKS, RESULT_STALE, "V3");
}

static void another_device_or_driver_is_refused(void **state)
{
    (void)state;
    struct vulkan_device other = subject.device;
    struct vulkan_weights weights;
    memset(&weights, 0, sizeof weights);
    other.facts.device_id[3]++;
    vulkan_weights_init(&weights, &other, model_plan(subject.model));
    struct vulkan_manifest found = found_of(&weights, &checkpoint);
    expect(&found, CHUNKS, RESULT_STALE, "V5");
    other.facts = subject.device.facts;
    other.facts.driver_id[15]++;
    found = found_of(&weights, &checkpoint);
    expect(&found, CHUNKS, RESULT_STALE, "V5");
    other.facts = subject.device.facts;
    other.facts.max_allocation_bytes *= 2;
    found = found_of(&weights, &checkpoint);
    expect(&found, CHUNKS, RESULT_STALE, "V5");
    vulkan_weights_fini(&weights);
}

static void another_plan_is_refused(void **state)
{
    (void)state;
    struct vulkan_weights *weights = &subject.weights;
    struct vulkan_matrix right = weights->matrices[1];
    struct vulkan_matrix changed[] = {right, right, right, right};
    changed[0].rows++;
    changed[1].columns += 32;
    changed[2].kind =
        changed[2].kind == VULKAN_WEIGHT_Q8_0 ? VULKAN_WEIGHT_F16 : VULKAN_WEIGHT_Q8_0;
    changed[3].weights[0] = weights->matrices[0].weights[0];
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        weights->matrices[1] = changed[i];
        struct vulkan_manifest found = found_of(weights, &checkpoint);
        expect(&found, CHUNKS, RESULT_STALE, "V6");
    }
    weights->matrices[1] = right;
    weights->matrix_count--;
    struct vulkan_manifest found = found_of(weights, &checkpoint);
    weights->matrix_count++;
    expect(&found, CHUNKS, RESULT_STALE, "V6");
}

static void noise_is_refused(void **state)
{
    (void)state;
    struct test_random random = {.state = 2026};
    for (uint32_t i = 0; i < 2000; i++) {
        struct vulkan_manifest found = found_of(&subject.weights, &checkpoint);
        uint8_t *bytes = (uint8_t *)&found;
        struct error_text error;
        for (size_t at = i % 16; at < sizeof found; at++)
            bytes[at] = (uint8_t)test_random_below(&random, 256);
        assert_int_not_equal(vulkan_manifest_check(&subject.mine, &found, sizeof found,
                                                   test_random_below(&random, 300), &error),
                             RESULT_OK);
    }
}

int main(void)
{
#define SUBJECT_TEST(test) cmocka_unit_test_setup_teardown(test, subject_open, subject_close)
    const struct CMUnitTest tests[] = {
        SUBJECT_TEST(its_own_is_accepted),
        SUBJECT_TEST(every_changed_byte_is_noticed),
        SUBJECT_TEST(lengths_and_counts_must_fit),
        SUBJECT_TEST(another_checkpoint_is_refused),
        SUBJECT_TEST(another_device_or_driver_is_refused),
        SUBJECT_TEST(another_plan_is_refused),
        SUBJECT_TEST(noise_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
