/*
 * The payload of a submit record: places of its sections, pieces in, sections out, and the check of
 * their elements. The bounds of the counts are in submit_record_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/submit_payload.h"

#define VOCAB 100u

static const uint32_t prompt[3] = {10, 11, 12};
static const uint32_t generated[2] = {13, 14};
static const uint32_t stops[1] = {20};
static const struct logit_bias_entry biases[2] = {{30, -100.0f}, {99, 100.0f}};
static const uint32_t forced[6] = {40, 50, 51, 60, 61, 62};
static const uint8_t images[128] = {7, 8, 9};

/* 5 prompt ids, 1 stop id, 2 biases, 1 + 2 + 3 forced ids: 64 bytes; then 128 bytes of images. */
static struct run_params full_run(void)
{
    return (struct run_params){.prompt_tokens = 5,
                               .generated_tokens = 2,
                               .stop_token_count = 1,
                               .logit_bias_count = 2,
                               .prefix_count = 1,
                               .think_start_count = 2,
                               .think_end_count = 3,
                               .image_bytes = sizeof images,
                               .image_count = 1};
}

/* Returns the size of the payload that it writes. */
static uint64_t write_full(const struct run_params *run, uint8_t *payload)
{
    const struct submit_piece pieces[] = {
        {SUBMIT_PROMPT_IDS, prompt, 0, 3},    {SUBMIT_PROMPT_IDS, generated, 0, 2},
        {SUBMIT_STOP_IDS, stops, 0, 1},       {SUBMIT_LOGIT_BIAS, biases, 0, 2},
        {SUBMIT_PREFIX_IDS, forced, 0, 1},    {SUBMIT_THINK_START_IDS, forced, 1, 2},
        {SUBMIT_THINK_END_IDS, forced, 3, 3}, {SUBMIT_IMAGES, images, 0, sizeof images}};
    submit_payload_write(run, pieces, sizeof pieces / sizeof pieces[0], payload);
    return submit_payload_bytes(run);
}

static void assert_span(const struct run_params *run, enum submit_section first,
                        enum submit_section last, uint64_t offset, uint64_t bytes)
{
    struct submit_span span = submit_payload_span(run, first, last);
    assert_int_equal(span.offset, offset);
    assert_int_equal(span.bytes, bytes);
}

static void sections_follow_each_other(void **state)
{
    (void)state;
    struct run_params run = full_run();
    assert_span(&run, SUBMIT_PROMPT_IDS, SUBMIT_PROMPT_IDS, 0, 20);
    assert_span(&run, SUBMIT_STOP_IDS, SUBMIT_STOP_IDS, 20, 4);
    assert_span(&run, SUBMIT_LOGIT_BIAS, SUBMIT_LOGIT_BIAS, 24, 16);
    assert_span(&run, SUBMIT_PREFIX_IDS, SUBMIT_PREFIX_IDS, 40, 4);
    assert_span(&run, SUBMIT_THINK_START_IDS, SUBMIT_THINK_START_IDS, 44, 8);
    assert_span(&run, SUBMIT_THINK_END_IDS, SUBMIT_THINK_END_IDS, 52, 12);
    assert_span(&run, SUBMIT_IMAGES, SUBMIT_IMAGES, 64, 128);
    assert_span(&run, SUBMIT_PREFIX_IDS, SUBMIT_THINK_END_IDS, 40, 24);
    assert_int_equal(submit_payload_bytes(&run), 192);
}

static void images_are_aligned(void **state)
{
    (void)state;
    struct run_params run = full_run();
    run.prompt_tokens = 6;
    assert_span(&run, SUBMIT_IMAGES, SUBMIT_IMAGES, 128, 128);
    assert_int_equal(submit_payload_bytes(&run), 256);
}

static void empty_sections_have_no_padding(void **state)
{
    (void)state;
    struct run_params run = {.prompt_tokens = 5};
    assert_span(&run, SUBMIT_IMAGES, SUBMIT_IMAGES, 20, 0);
    assert_span(&run, SUBMIT_STOP_IDS, SUBMIT_THINK_END_IDS, 20, 0);
    assert_int_equal(submit_payload_bytes(&run), 20);
}

static void pieces_come_back_as_sections(void **state)
{
    (void)state;
    struct run_params run = full_run();
    uint8_t payload[192] = {0};
    assert_int_equal(write_full(&run, payload), sizeof payload);
    uint32_t ids[5];
    submit_payload_read(&run, payload, SUBMIT_PROMPT_IDS, SUBMIT_PROMPT_IDS, ids);
    assert_memory_equal(ids, prompt, sizeof prompt);
    assert_memory_equal(ids + 3, generated, sizeof generated);
    uint32_t stop;
    submit_payload_read(&run, payload, SUBMIT_STOP_IDS, SUBMIT_STOP_IDS, &stop);
    assert_int_equal(stop, stops[0]);
    struct logit_bias_entry entries[2];
    submit_payload_read(&run, payload, SUBMIT_LOGIT_BIAS, SUBMIT_LOGIT_BIAS, entries);
    assert_memory_equal(entries, biases, sizeof biases);
    uint32_t marks[6];
    submit_payload_read(&run, payload, SUBMIT_PREFIX_IDS, SUBMIT_THINK_END_IDS, marks);
    assert_memory_equal(marks, forced, sizeof forced);
    assert_memory_equal(payload + 64, images, sizeof images);
}

static void padding_is_left_alone(void **state)
{
    (void)state;
    struct run_params run = {.prompt_tokens = 3, .image_bytes = sizeof images, .image_count = 1};
    uint8_t payload[192];
    memset(payload, 0x5a, sizeof payload);
    const struct submit_piece pieces[] = {{SUBMIT_PROMPT_IDS, prompt, 0, 3},
                                          {SUBMIT_STOP_IDS, NULL, 0, 0},
                                          {SUBMIT_IMAGES, images, 0, sizeof images}};
    submit_payload_write(&run, pieces, 3, payload);
    for (uint32_t i = sizeof prompt; i < 64; i++)
        assert_int_equal(payload[i], 0x5a);
    assert_memory_equal(payload + 64, images, sizeof images);
}

static void one_byte_of_images_is_aligned_and_read(void **state)
{
    (void)state;
    struct run_params run = {.prompt_tokens = 5, .image_bytes = 1, .image_count = 1};
    assert_span(&run, SUBMIT_IMAGES, SUBMIT_IMAGES, 64, 1);
    uint8_t payload[65] = {[64] = 7};
    uint8_t copy = 0;
    submit_payload_read(&run, payload, SUBMIT_IMAGES, SUBMIT_IMAGES, &copy);
    assert_int_equal(copy, 7);
}

/* An empty section needs no memory, and its elements are not read. */
static void empty_sections_are_read_to_nowhere(void **state)
{
    (void)state;
    struct run_params run = {.prompt_tokens = 5};
    uint8_t payload[20] = {0};
    submit_payload_read(&run, payload, SUBMIT_STOP_IDS, SUBMIT_STOP_IDS, NULL);
    struct error_text error;
    assert_int_equal(submit_payload_check(&run, SUBMIT_STOP_IDS, SUBMIT_STOP_IDS, NULL, 1, &error),
                     RESULT_OK);
}

static void bytes_of_images_are_no_ids(void **state)
{
    (void)state;
    struct run_params run = full_run();
    struct error_text error;
    assert_int_equal(
        submit_payload_check(&run, SUBMIT_IMAGES, SUBMIT_IMAGES, images, VOCAB, &error), RESULT_OK);
}

static void ids_are_checked_against_the_vocabulary(void **state)
{
    (void)state;
    struct run_params run = full_run();
    uint32_t ids[5] = {0, 1, 2, 3, VOCAB - 1};
    struct error_text error = {""};
    assert_int_equal(
        submit_payload_check(&run, SUBMIT_PROMPT_IDS, SUBMIT_PROMPT_IDS, ids, VOCAB, &error),
        RESULT_OK);
    ids[4] = VOCAB;
    assert_int_equal(
        submit_payload_check(&run, SUBMIT_PROMPT_IDS, SUBMIT_PROMPT_IDS, ids, VOCAB, &error),
        RESULT_INVALID);
    assert_string_equal(error.text, "PROMPT_IDS[4]: token 100 is outside the vocabulary");
}

static void every_forced_id_is_checked(void **state)
{
    (void)state;
    struct run_params run = full_run();
    const char *const names[6] = {"PREFIX_IDS[0]",    "THINK_START_IDS[0]", "THINK_START_IDS[1]",
                                  "THINK_END_IDS[0]", "THINK_END_IDS[1]",   "THINK_END_IDS[2]"};
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t marks[6];
        memcpy(marks, forced, sizeof marks);
        struct error_text error = {""};
        assert_int_equal(submit_payload_check(&run, SUBMIT_PREFIX_IDS, SUBMIT_THINK_END_IDS, marks,
                                              VOCAB, &error),
                         RESULT_OK);
        marks[i] = VOCAB;
        assert_int_equal(submit_payload_check(&run, SUBMIT_PREFIX_IDS, SUBMIT_THINK_END_IDS, marks,
                                              VOCAB, &error),
                         RESULT_INVALID);
        assert_memory_equal(error.text, names[i], strlen(names[i]));
    }
}

static void biases_are_checked(void **state)
{
    (void)state;
    struct run_params run = full_run();
    const struct {
        struct logit_bias_entry entry;
        enum result result;
    } cases[] = {{{VOCAB - 1, 100.0f}, RESULT_OK},    {{0, -100.0f}, RESULT_OK},
                 {{VOCAB, 0.0f}, RESULT_INVALID},     {{0, 100.5f}, RESULT_INVALID},
                 {{0, -100.5f}, RESULT_INVALID},      {{0, __builtin_nanf("")}, RESULT_INVALID},
                 {{0, -__builtin_inff()}, RESULT_OK}, {{0, __builtin_inff()}, RESULT_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct logit_bias_entry entries[2] = {biases[0], cases[i].entry};
        assert_int_equal(
            submit_payload_check(&run, SUBMIT_LOGIT_BIAS, SUBMIT_LOGIT_BIAS, entries, VOCAB, NULL),
            cases[i].result);
    }
}

static void each_count_has_its_maximum(void **state)
{
    (void)state;
    struct run_params run = {.prompt_tokens = LIMIT_CONTEXT_TOKENS,
                             .stop_token_count = LIMIT_STOP_TOKENS,
                             .logit_bias_count = LIMIT_LOGIT_BIAS,
                             .prefix_count = LIMIT_PREFIX_TOKENS,
                             .think_start_count = LIMIT_THINK_TOKENS,
                             .think_end_count = LIMIT_THINK_TOKENS,
                             .image_bytes = LIMIT_REQUEST_IMAGE_BYTES};
    assert_int_equal(submit_payload_check_counts(&run, NULL), RESULT_OK);
    struct {
        const char *rule;
        uint32_t *count;
    } const cases[] = {{"S7: prompt_tokens 1048577", &run.prompt_tokens},
                       {"S11: stop_token_count 65", &run.stop_token_count},
                       {"S10: logit_bias_count 1025", &run.logit_bias_count},
                       {"S16: prefix_count 257", &run.prefix_count},
                       {"S17: think_start_count 65", &run.think_start_count},
                       {"S17: think_end_count 65", &run.think_end_count}};
    struct error_text error = {""};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ++*cases[i].count;
        assert_int_equal(submit_payload_check_counts(&run, &error), RESULT_CORRUPT);
        assert_string_equal(error.text, cases[i].rule);
        --*cases[i].count;
    }
    run.image_bytes++;
    assert_int_equal(submit_payload_check_counts(&run, &error), RESULT_CORRUPT);
    assert_string_equal(error.text, "S18: image_bytes 1073741825");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_follow_each_other),
        cmocka_unit_test(images_are_aligned),
        cmocka_unit_test(empty_sections_have_no_padding),
        cmocka_unit_test(pieces_come_back_as_sections),
        cmocka_unit_test(padding_is_left_alone),
        cmocka_unit_test(one_byte_of_images_is_aligned_and_read),
        cmocka_unit_test(empty_sections_are_read_to_nowhere),
        cmocka_unit_test(bytes_of_images_are_no_ids),
        cmocka_unit_test(ids_are_checked_against_the_vocabulary),
        cmocka_unit_test(every_forced_id_is_checked),
        cmocka_unit_test(biases_are_checked),
        cmocka_unit_test(each_count_has_its_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
