/*
 * Rules S1-S24 of submit records, each broken alone; the limits themselves pass. S6 belongs to
 * payload_view_test.c.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/submit_payload.h"
#include "proto/submit_record.h"

#define SLAB_BYTES (64ull << 20)

static struct submit_record valid_run(void)
{
    struct submit_record record = {
        .kind = SUBMIT_RUN,
        .run.flags = SUBMIT_FLAG_IGNORE_END,
        .request = {.slot = LIMIT_LIVE_REQUESTS - 1, .generation = 7},
        .payload_offset = 64,
        .payload_generation = 3,
        .run.prompt_tokens = 10,
        .run.generated_tokens = 2,
        .run.max_new_tokens = 5,
        .run.logit_bias_count = 4,
        .run.stop_token_count = 3,
        .run.sampling = sampling_params_default(),
        .run.min_tokens = 2,
        .run.prefix_count = 5,
        .run.think_start_count = 1,
        .run.think_end_count = 2,
    };
    record.payload_bytes = submit_payload_bytes(&record.run);
    return record;
}

static void assert_breaks(const struct submit_record *record, const char *rule)
{
    struct error_text error = {""};
    assert_int_equal(submit_record_check(record, SLAB_BYTES, &error), RESULT_CORRUPT);
    assert_memory_equal(error.text, rule, strlen(rule));
    assert_int_equal(error.text[strlen(rule)], ':');
    assert_int_equal(submit_record_check(record, SLAB_BYTES, NULL), RESULT_CORRUPT);
}

static void valid_passes(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    assert_int_equal(record.payload_bytes, 10 * 4 + 3 * 4 + 4 * 8 + (5 + 1 + 2) * 4);
}

static void limits_pass(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.prompt_tokens = LIMIT_CONTEXT_TOKENS;
    record.run.generated_tokens = LIMIT_CONTEXT_TOKENS - 1;
    record.run.max_new_tokens = LIMIT_CONTEXT_TOKENS;
    record.run.logit_bias_count = LIMIT_LOGIT_BIAS;
    record.run.stop_token_count = LIMIT_STOP_TOKENS;
    record.run.flags = SUBMIT_FLAG_ALL;
    record.run.min_tokens = LIMIT_CONTEXT_TOKENS;
    record.run.top_logprobs = LIMIT_TOP_LOGPROBS;
    record.run.prefix_count = LIMIT_PREFIX_TOKENS;
    record.run.think_start_count = record.run.think_end_count = LIMIT_THINK_TOKENS;
    record.run.thinking_budget = UINT32_MAX;
    record.run.grammar_bytes = LIMIT_GRAMMAR_BLOB_BYTES;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);

    record = valid_run();
    record.payload_offset = SLAB_BYTES - 128; /* 116 bytes fit */
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.run.prompt_tokens = 13;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_int_equal(record.payload_bytes, 128); /* up to the end of the slab */
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);

    record = valid_run();
    record.run.prompt_tokens = 1;
    record.run.generated_tokens = 0;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.run.image_count = LIMIT_REQUEST_RECORDS;
    record.run.image_bytes = LIMIT_REQUEST_RECORDS * sizeof(struct image_record);
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
}

static void s1_kind(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    const uint32_t kinds[] = {0, 7, 0x80000001u, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        record.kind = kinds[i];
        assert_breaks(&record, "S1");
    }
}

static void s2_flags(void **state)
{
    (void)state;
    for (uint32_t bit = 0; bit < 32; bit++) {
        struct submit_record record = valid_run();
        record.run.flags = 1u << bit;
        if (record.run.flags & SUBMIT_FLAG_ALL)
            assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
        else
            assert_breaks(&record, "S2");
    }
}

static void s3_slot(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.request.slot = LIMIT_LIVE_REQUESTS;
    assert_breaks(&record, "S3");
    record.kind = SUBMIT_CANCEL;
    assert_breaks(&record, "S3");
    record.request.slot = UINT32_MAX;
    assert_breaks(&record, "S3");
}

static void s4_payload_place(void **state)
{
    (void)state;
    const uint64_t offsets[] = {0,
                                1,
                                63,
                                65,
                                96,
                                SLAB_BYTES,
                                UINT64_MAX,
                                UINT64_MAX - 63,
                                SLAB_BYTES - 64, /* 116 bytes do not fit */
                                SLAB_BYTES + 64};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct submit_record record = valid_run();
        record.payload_offset = offsets[i];
        assert_breaks(&record, "S4");
    }
}

static void s5_payload_bytes(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    const uint64_t right = record.payload_bytes;
    const uint64_t wrong[] = {0, right - 1, right + 1, UINT64_MAX, right + (1ull << 32)};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        record.payload_bytes = wrong[i];
        assert_breaks(&record, "S5");
    }
}

static void s7_prompt_tokens(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.generated_tokens = 0;
    const uint32_t wrong[] = {0, LIMIT_CONTEXT_TOKENS + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        record.run.prompt_tokens = wrong[i];
        record.payload_bytes = submit_payload_bytes(&record.run);
        assert_breaks(&record, "S7");
    }
}

static void s8_generated_tokens(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.generated_tokens = record.run.prompt_tokens;
    assert_breaks(&record, "S8");
    record.run.generated_tokens = UINT32_MAX;
    assert_breaks(&record, "S8");
}

static void s9_max_new_tokens(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    const uint32_t wrong[] = {0, LIMIT_CONTEXT_TOKENS + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        record.run.max_new_tokens = wrong[i];
        assert_breaks(&record, "S9");
    }
}

static void s10_logit_bias_count(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.logit_bias_count = LIMIT_LOGIT_BIAS + 1;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_breaks(&record, "S10");
}

static void s11_stop_token_count(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.stop_token_count = LIMIT_STOP_TOKENS + 1;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_breaks(&record, "S11");
}

static void s12_sampling(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.sampling.top_p = 0.0f;
    assert_breaks(&record, "S12");
}

static void s26_speech(void **state)
{
    (void)state;
    static const struct speech_rules wrong[] = {{.timestamps = LIMIT_VOCAB_TOKENS + 1},
                                                {.timestamps = 5, .end = 6},
                                                {.first_from = 5, .first_to = 4},
                                                {.first_to = LIMIT_VOCAB_TOKENS + 1},
                                                {.blank = LIMIT_VOCAB_TOKENS + 1}};
    static const struct speech_rules right[] = {{.timestamps = LIMIT_VOCAB_TOKENS, .end = 1},
                                                {.first_from = 3, .first_to = 4, .blank = 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct submit_record record = valid_run();
        record.run.speech = wrong[i];
        assert_breaks(&record, "S26");
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        struct error_text error = {""};
        assert_int_equal(speech_rules_check(&right[i], &error), RESULT_OK);
        assert_true(speech_rules_exist(&right[i]));
    }
}

static void s14_min_tokens(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.min_tokens = LIMIT_CONTEXT_TOKENS + 1;
    assert_breaks(&record, "S14");
}

static void s15_top_logprobs(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.top_logprobs = 1;
    assert_breaks(&record, "S15"); /* without the flag */
    record.run.flags |= SUBMIT_FLAG_LOGPROBS;
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.run.top_logprobs = LIMIT_TOP_LOGPROBS + 1;
    assert_breaks(&record, "S15");
}

static void s16_prefix(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.prefix_count = LIMIT_PREFIX_TOKENS + 1;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_breaks(&record, "S16");
}

static void s17_thinking(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.thinking_budget = 1;
    assert_breaks(&record, "S17"); /* without the flag */
    record = valid_run();
    record.run.think_start_count = LIMIT_THINK_TOKENS + 1;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_breaks(&record, "S17");
    record = valid_run();
    record.run.think_end_count = UINT32_MAX;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_breaks(&record, "S17");
    const uint32_t flags[] = {SUBMIT_FLAG_THINKING_OPEN, SUBMIT_FLAG_THINKING_BUDGET};
    for (size_t i = 0; i < 2; i++) {
        record = valid_run();
        record.run.flags = flags[i];
        assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
        record.run.think_end_count = 0;
        record.payload_bytes = submit_payload_bytes(&record.run);
        assert_breaks(&record, "S17");
    }
}

static void s18_images(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.image_count = 2;
    record.run.image_bytes = 2 * sizeof(struct image_record);
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_int_equal(record.payload_bytes, 128 + 256); /* behind the 116 bytes of ids */
    assert_int_equal(submit_payload_span(&record.run, SUBMIT_IMAGES, SUBMIT_IMAGES).offset, 128);
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);

    const struct {
        uint32_t count;
        uint64_t bytes;
    } wrong[] = {{2, 255},
                 {0, 1},
                 {1, 0},
                 {LIMIT_REQUEST_RECORDS + 1, 1u << 20},
                 {UINT32_MAX, UINT64_MAX},
                 {1, LIMIT_REQUEST_IMAGE_BYTES + 1ull}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        record.run.image_count = wrong[i].count;
        record.run.image_bytes = wrong[i].bytes;
        record.payload_bytes = submit_payload_bytes(&record.run);
        assert_breaks(&record, "S18");
    }
}

static void s19_grammar(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.grammar_bytes = 12;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_int_equal(record.payload_bytes, 120 + 12); /* aligned to 8 after the 116 bytes of ids */
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.run.grammar_bytes = LIMIT_GRAMMAR_BLOB_BYTES + 1;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_breaks(&record, "S19");
    record.run.grammar_bytes = UINT32_MAX;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_breaks(&record, "S19");
}

static void s20_vocabulary(void **state)
{
    (void)state;
    const struct submit_record valid = {.kind = SUBMIT_VOCABULARY,
                                        .payload_offset = 64,
                                        .payload_bytes = (10 + 1 + 2) * 4 + 33,
                                        .vocabulary = {10, 2, 33}};
    struct submit_record record = valid;
    record.request.slot = UINT32_MAX; /* it names no request */
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.payload_bytes--;
    assert_breaks(&record, "S5");
    record.payload_bytes++;
    record.payload_offset = SLAB_BYTES - 64;
    assert_breaks(&record, "S4");
    const struct token_table_sizes wrong[] = {
        {0, 2, 33},
        {LIMIT_VOCAB_TOKENS + 1, 2, 33},
        {UINT32_MAX, 2, 33},
        {10, LIMIT_STOP_TOKENS + 1, 33},
        {10, 2, LIMIT_TOKEN_TABLE_BYTES + 1ull},
        {10, 2, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        record = valid;
        record.vocabulary = wrong[i];
        record.payload_bytes = token_table_bytes(&wrong[i]);
        assert_breaks(&record, "S20");
    }
}

static void s21_scores(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    const uint32_t most = record.run.prompt_tokens - record.run.generated_tokens;
    record.run.score_from = most;
    record.run.score_top = LIMIT_TOP_LOGPROBS;
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.run.score_top = LIMIT_TOP_LOGPROBS + 1;
    assert_breaks(&record, "S21");
    record.run.score_top = 0;
    record.run.score_from = most + 1;
    assert_breaks(&record, "S21");
    record.run.score_from = UINT32_MAX;
    assert_breaks(&record, "S21");
    record.run.score_from = 0;
    record.run.score_top = 1; /* of nothing */
    assert_breaks(&record, "S21");
    record.run.score_top = 0;
    record.run.image_count = 1;
    record.run.image_bytes = sizeof(struct image_record);
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.run.score_from = 1; /* with images */
    assert_breaks(&record, "S21");
}

static void s22_breakers(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.dry_breaker_words = LIMIT_DRY_BREAKER_WORDS;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_int_equal(submit_record_check(&record, 1u << 20, NULL), RESULT_OK);
    record.run.dry_breaker_words++;
    record.payload_bytes = submit_payload_bytes(&record.run);
    assert_breaks(&record, "S22");
}

static void cancel_and_drain_ignore_the_rest(void **state)
{
    (void)state;
    struct submit_record record;
    memset(&record, 0xff, sizeof record);
    record.kind = SUBMIT_DRAIN;
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.kind = SUBMIT_RESET;
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.kind = SUBMIT_CANCEL;
    record.request.slot = 0;
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
}

static void s24_separator(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.separator = LIMIT_VOCAB_TOKENS + 1;
    assert_breaks(&record, "S24");
}

static void s23_adapter(void **state)
{
    (void)state;
    struct submit_record record = valid_run();
    record.run.adapter = LIMIT_ADAPTERS;
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.run.adapter++;
    assert_breaks(&record, "S23");
}

static void s25_adapter_slot(void **state)
{
    (void)state;
    struct submit_record record;
    memset(&record, 0xff, sizeof record); /* the rest is left over from an earlier lap */
    record.kind = SUBMIT_ADAPTER;
    record.adapter = (struct adapter_id){.slot = LIMIT_ADAPTERS - 1, .version = UINT32_MAX};
    assert_int_equal(submit_record_check(&record, SLAB_BYTES, NULL), RESULT_OK);
    record.adapter.slot++;
    assert_breaks(&record, "S25");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_passes),
        cmocka_unit_test(limits_pass),
        cmocka_unit_test(s1_kind),
        cmocka_unit_test(s2_flags),
        cmocka_unit_test(s3_slot),
        cmocka_unit_test(s4_payload_place),
        cmocka_unit_test(s5_payload_bytes),
        cmocka_unit_test(s7_prompt_tokens),
        cmocka_unit_test(s8_generated_tokens),
        cmocka_unit_test(s9_max_new_tokens),
        cmocka_unit_test(s10_logit_bias_count),
        cmocka_unit_test(s11_stop_token_count),
        cmocka_unit_test(s12_sampling),
        cmocka_unit_test(s26_speech),
        cmocka_unit_test(s14_min_tokens),
        cmocka_unit_test(s15_top_logprobs),
        cmocka_unit_test(s16_prefix),
        cmocka_unit_test(s17_thinking),
        cmocka_unit_test(s18_images),
        cmocka_unit_test(s19_grammar),
        cmocka_unit_test(s20_vocabulary),
        cmocka_unit_test(s21_scores),
        cmocka_unit_test(s22_breakers),
        cmocka_unit_test(s23_adapter),
        cmocka_unit_test(s24_separator),
        cmocka_unit_test(s25_adapter_slot),
        cmocka_unit_test(cancel_and_drain_ignore_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
