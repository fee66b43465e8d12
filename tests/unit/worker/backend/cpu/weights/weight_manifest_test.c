/*
 * A manifest is accepted only if it equals the one that this process would write: every byte of it
 * is changed, with and without a checksum that fits the change; others are made for other
 * checkpoints and plans; and random bytes are tried.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/test_random.h"
#include "tests/support/tiny_checkpoint.h"
#include "worker/backend/cpu/weights/cpu_weights.h"

/* A model and the manifest of its weights. */
struct subject {
    struct tiny_checkpoint tiny;
    struct model *model;
    struct cpu_weights weights;
    struct weight_manifest manifest;
};

static const struct model_fingerprint checkpoint = {.file_bytes = 1000,
                                                    .modified_ns = 2000,
                                                    .changed_ns = 3000,
                                                    .device = 4,
                                                    .inode = 5,
                                                    .header_hash = 6};

static void subject_init(struct subject *subject, uint32_t layers)
{
    *subject = (struct subject){.model = NULL};
    tiny_checkpoint_init_llama(&subject->tiny, layers);
    subject->model = tiny_checkpoint_must_open(&subject->tiny);
    cpu_weights_init(&subject->weights, model_plan(subject->model), NULL);
    subject->manifest =
        weight_manifest_create(model_plan(subject->model), subject->weights.packed, &checkpoint);
}

static void subject_fini(struct subject *subject)
{
    weight_manifest_destroy(&subject->manifest);
    cpu_weights_fini(&subject->weights);
    model_close(subject->model);
}

/* The manifest that a worker writes to a vault; the test owns it. */
static struct weight_manifest found_of(const struct subject *subject)
{
    struct weight_manifest found =
        weight_manifest_create(model_plan(subject->model), subject->weights.packed, &checkpoint);
    for (uint32_t i = 0; i < found.head->weight_count; i++)
        found.entries[i].checksum = 1000 + i;
    weight_manifest_finish(&found);
    return found;
}

static void refuse(struct subject *subject, const void *found, enum result result,
                   const char *words)
{
    struct error_text error = {""};
    struct weight_manifest *mine = &subject->manifest;
    uint8_t *before = must_alloc(mine->byte_count, 1);
    memcpy(before, mine->head, mine->byte_count);
    enum result got = weight_manifest_check(mine, found, &error);
    if (got != result || strncmp(error.text, words, strlen(words)) != 0)
        fail_msg("%s \"%s\", not %s \"%s\"", result_name(got), error.text, result_name(result),
                 words);
    assert_memory_equal(mine->head, before, mine->byte_count);
    free(before);
}

static struct subject subject;

static int open_subject(void **state)
{
    (void)state;
    subject_init(&subject, 2);
    return 0;
}

static int close_subject(void **state)
{
    (void)state;
    subject_fini(&subject);
    return 0;
}

static void test_layout(void **state)
{
    (void)state;
    const struct weight_manifest_head *head = subject.manifest.head;
    const struct weight_manifest_entry *entries = subject.manifest.entries;
    assert_int_equal(head->weight_count, 2 * 7 + 1); /* 7 matrices a layer, and the logits' */
    assert_int_equal(head->data_offset % 4096, 0);
    assert_true(head->data_offset >= subject.manifest.byte_count);
    assert_int_equal(head->total_bytes % (2u << 20), 0);
    uint64_t end = head->data_offset;
    for (uint32_t i = 0; i < head->weight_count; i++) {
        assert_int_equal(entries[i].offset % WEIGHT_MANIFEST_ALIGNMENT, 0);
        assert_true(entries[i].offset >= end && entries[i].bytes > 0);
        end = entries[i].offset + entries[i].bytes;
    }
    assert_true(end <= head->total_bytes);
}

static void test_own_is_accepted(void **state)
{
    (void)state;
    struct error_text error = {""};
    struct weight_manifest found = found_of(&subject);
    assert_int_equal(weight_manifest_check(&subject.manifest, found.head, &error), RESULT_OK);
    for (uint32_t i = 0; i < found.head->weight_count; i++)
        assert_int_equal(subject.manifest.entries[i].checksum, 1000 + i);
    weight_manifest_destroy(&found);
}

static void test_every_byte_counts(void **state)
{
    (void)state;
    struct test_random random = {.state = 11};
    for (uint64_t at = 0; at < subject.manifest.byte_count; at++) {
        struct weight_manifest found = found_of(&subject);
        uint8_t *bytes = (uint8_t *)found.head;
        struct error_text error = {""};
        bytes[at] ^= (uint8_t)(1 + test_random_below(&random, 255));
        assert_int_not_equal(weight_manifest_check(&subject.manifest, bytes, &error), RESULT_OK);
        assert_int_equal(error.text[0], 'M');

        /* With a checksum that fits the change, the changed field itself must be rejected. Only the
         * checksums of the data may have any value, and that of the head is correct again. */
        uint64_t in_entry = (at - sizeof *found.head) % sizeof *found.entries;
        bool in_head = at < sizeof *found.head;
        bool free_to_change = in_head
                                  ? at >= offsetof(struct weight_manifest_head, checksum)
                                  : in_entry >= offsetof(struct weight_manifest_entry, checksum);
        bool counted = found.head->weight_count == subject.manifest.head->weight_count;
        if (counted)
            weight_manifest_finish(&found);
        enum result result = weight_manifest_check(&subject.manifest, bytes, &error);
        if (free_to_change != (result == RESULT_OK))
            fail_msg("byte %u: %s", (unsigned)at, result_name(result));
        weight_manifest_destroy(&found);
    }
}

static void test_rules(void **state)
{
    (void)state;
    struct weight_manifest found = found_of(&subject);
    found.head->magic[0] = 's';
    refuse(&subject, found.head, RESULT_CORRUPT, "M1: ");
    weight_manifest_destroy(&found);

    found = found_of(&subject);
    found.head->packed_layout++;
    weight_manifest_finish(&found);
    refuse(&subject, found.head, RESULT_STALE, "M1: ");
    weight_manifest_destroy(&found);

    found = found_of(&subject);
    found.entries[3].checksum++;
    refuse(&subject, found.head, RESULT_CORRUPT, "M4: ");
    weight_manifest_destroy(&found);

    static const uint32_t counts[] = {0, 1, 14, 16, 1u << 20, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        found = found_of(&subject);
        found.head->weight_count = counts[i];
        refuse(&subject, found.head, RESULT_STALE, "M5: ");
        weight_manifest_destroy(&found);
    }

    found = found_of(&subject);
    found.entries[5].offset = UINT64_MAX - 63;
    weight_manifest_finish(&found);
    refuse(&subject, found.head, RESULT_STALE, "M7: ");
    weight_manifest_destroy(&found);
}

static void test_other_checkpoints(void **state)
{
    (void)state;
    for (int field = 0; field < 6; field++) {
        struct model_fingerprint other = checkpoint;
        uint64_t *fields[] = {&other.file_bytes, &other.device, &other.inode, &other.header_hash};
        if (field < 4)
            *fields[field] += 1;
        other.modified_ns += field == 4;
        other.changed_ns += field == 5;
        struct weight_manifest found =
            weight_manifest_create(model_plan(subject.model), subject.weights.packed, &other);
        weight_manifest_finish(&found);
        refuse(&subject, found.head, RESULT_STALE, field == 3 ? "M3: " : "M2: ");
        weight_manifest_destroy(&found);
    }
}

static void test_other_plans(void **state)
{
    (void)state;
    static struct subject other;
    struct error_text error = {""};
    subject_init(&other, 3);
    struct weight_manifest found = found_of(&other);
    refuse(&subject, found.head, RESULT_STALE, "M5: ");
    weight_manifest_destroy(&found);
    /* A vault begins with at least a page, so that a longer manifest may be looked for in it. */
    found = found_of(&subject);
    uint8_t *page = must_alloc(4096, 1);
    assert_true(other.manifest.byte_count <= 4096);
    memcpy(page, found.head, found.byte_count);
    refuse(&other, page, RESULT_STALE, "M5: ");
    free(page);
    weight_manifest_destroy(&found);

    /* Two weights of one shape change places. */
    found = found_of(&subject);
    uint64_t name_hash = found.entries[0].name_hash;
    uint32_t twin = 1;
    while (found.entries[twin].rows != found.entries[0].rows ||
           found.entries[twin].columns != found.entries[0].columns)
        twin++;
    found.entries[0].name_hash = found.entries[twin].name_hash;
    found.entries[twin].name_hash = name_hash;
    weight_manifest_finish(&found);
    refuse(&subject, found.head, RESULT_STALE, "M6: ");
    weight_manifest_destroy(&found);
    assert_int_equal(error.text[0], '\0');
    subject_fini(&other);
}

static void test_noise(void **state)
{
    (void)state;
    struct test_random random = {.state = 12};
    uint8_t *bytes = must_alloc(subject.manifest.byte_count, 1);
    struct error_text error;
    refuse(&subject, bytes, RESULT_CORRUPT, "M1: ");
    for (int round = 0; round < 2000; round++) {
        test_random_fill(&random, bytes, subject.manifest.byte_count);
        uint64_t kept = test_random_below(&random, sizeof *subject.manifest.head);
        memcpy(bytes, subject.manifest.head, kept);
        assert_int_not_equal(weight_manifest_check(&subject.manifest, bytes, &error), RESULT_OK);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_layout, open_subject, close_subject),
        cmocka_unit_test_setup_teardown(test_own_is_accepted, open_subject, close_subject),
        cmocka_unit_test_setup_teardown(test_every_byte_counts, open_subject, close_subject),
        cmocka_unit_test_setup_teardown(test_rules, open_subject, close_subject),
        cmocka_unit_test_setup_teardown(test_other_checkpoints, open_subject, close_subject),
        cmocka_unit_test_setup_teardown(test_other_plans, open_subject, close_subject),
        cmocka_unit_test_setup_teardown(test_noise, open_subject, close_subject),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
