/*
 * Random bytes in every field of submit records and token events: a record that passes its check
 * obeys every rule, restated here independently of the code, so that it can be used without further
 * checks.
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
#include "proto/token_event.h"
#include "tests/support/test_random.h"

#define ROUNDS       300000
#define SLAB_BYTES   (1ull << 20)
#define VOCAB_TOKENS 5000u

/* Overwrites one aligned word of the record, or a few, with numbers that like to break checks. */
static void scribble(struct test_random *random, void *record, size_t bytes)
{
    uint32_t words = test_random_below(random, 8) == 0 ? 4 : 1;
    while (words-- > 0) {
        uint64_t value = test_random_edgy(random);
        size_t width = test_random_below(random, 2) ? 8 : 4;
        size_t at = test_random_below(random, (uint32_t)(bytes / width)) * width;
        memcpy((char *)record + at, &value, width);
    }
}

static void assert_run_is_usable(const struct submit_record *record)
{
    assert_true(record->request.slot < LIMIT_LIVE_REQUESTS);
    assert_true(record->run.flags <= SUBMIT_FLAG_ALL);
    assert_in_range(record->run.prompt_tokens, 1, LIMIT_CONTEXT_TOKENS);
    assert_in_range(record->run.max_new_tokens, 1, LIMIT_CONTEXT_TOKENS);
    assert_true(record->run.generated_tokens < record->run.prompt_tokens);
    assert_true(record->run.logit_bias_count <= LIMIT_LOGIT_BIAS);
    assert_true(record->run.stop_token_count <= LIMIT_STOP_TOKENS);
    uint64_t needed = 4ull * record->run.prompt_tokens + 4ull * record->run.stop_token_count +
                      8ull * record->run.logit_bias_count + 4ull * record->run.prefix_count +
                      4ull * record->run.think_start_count + 4ull * record->run.think_end_count;
    if (record->run.grammar_bytes > 0)
        needed = (needed + 7) / 8 * 8 + record->run.grammar_bytes;
    assert_in_range(record->run.image_count, 0, LIMIT_REQUEST_RECORDS);
    if (record->run.image_count > 0)
        needed = (needed + 63) / 64 * 64 + record->run.image_bytes;
    assert_true(record->run.image_bytes >= 128ull * record->run.image_count);
    assert_in_range(record->run.prefix_count, 0, LIMIT_PREFIX_TOKENS);
    assert_in_range(record->run.think_start_count, 0, LIMIT_THINK_TOKENS);
    assert_in_range(record->run.think_end_count, record->run.flags & 12 ? 1 : 0,
                    LIMIT_THINK_TOKENS);
    assert_in_range(record->run.top_logprobs, 0, record->run.flags & 2 ? LIMIT_TOP_LOGPROBS : 0);
    assert_in_range(record->run.min_tokens, 0, LIMIT_CONTEXT_TOKENS);
    assert_true(record->run.thinking_budget == 0 || (record->run.flags & 8) != 0);
    assert_int_equal(record->payload_bytes, needed);
    assert_in_range(record->payload_offset, 64, SLAB_BYTES);
    assert_in_range(record->payload_offset + needed, 64, SLAB_BYTES);
    assert_int_equal(record->payload_offset & 63, 0);
    assert_true(record->run.sampling.temperature >= 0 && record->run.sampling.temperature <= 2);
    assert_true(record->run.sampling.top_p > 0 && record->run.sampling.top_p <= 1);
    assert_true(record->run.sampling.typical_p > 0 && record->run.sampling.typical_p <= 1);
    assert_true(record->run.sampling.top_n_sigma >= 0 && record->run.sampling.top_n_sigma <= 100);
    assert_true(record->run.sampling.presence_context <= LIMIT_CONTEXT_TOKENS);
    assert_in_range(record->run.speech.timestamps, 0, LIMIT_VOCAB_TOKENS);
    assert_in_range(record->run.speech.end, 0, record->run.speech.timestamps);
    assert_in_range(record->run.speech.first_from, 0, record->run.speech.first_to);
    assert_in_range(record->run.speech.first_to, 0, LIMIT_VOCAB_TOKENS);
    assert_in_range(record->run.speech.blank, 0, LIMIT_VOCAB_TOKENS);
}

static void submit_records(void **state)
{
    (void)state;
    struct test_random random = {20260101};
    uint32_t passed = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct submit_record record = {
            .kind = SUBMIT_RUN,
            .request = {.slot = test_random_below(&random, LIMIT_LIVE_REQUESTS)},
            .payload_offset = 64 * (1 + (uint64_t)test_random_below(&random, 16000)),
            .run.prompt_tokens = 1 + test_random_below(&random, 100),
            .run.max_new_tokens = 1,
            .run.sampling = sampling_params_default()};
        record.payload_bytes = submit_payload_bytes(&record.run);
        if (round % 16 == 0)
            test_random_fill(&random, &record, sizeof record);
        else
            scribble(&random, &record, sizeof record);
        struct submit_record before = record;
        enum result result = submit_record_check(&record, SLAB_BYTES, NULL);
        assert_memory_equal(&before, &record, sizeof record);
        if (result != RESULT_OK) {
            assert_int_equal(result, RESULT_CORRUPT);
            continue;
        }
        passed++;
        assert_in_range(record.kind, SUBMIT_RUN, SUBMIT_ADAPTER);
        if (record.kind == SUBMIT_ADAPTER)
            assert_true(record.adapter.slot < LIMIT_ADAPTERS);
        if (record.kind == SUBMIT_RUN)
            assert_run_is_usable(&record);
    }
    assert_in_range(passed, ROUNDS / 50, ROUNDS * 3 / 4);
}

/* Four images as a frontend places them, then random bytes: those accepted are inside, in order. */
static void image_records(void **state)
{
    (void)state;
    struct test_random random = {20260103};
    uint32_t passed = 0;
    for (uint32_t round = 0; round < ROUNDS / 3; round++) {
        struct image_record records[4] = {0};
        for (uint32_t i = 0; i < 4; i++) {
            records[i] = (struct image_record){.content_hash = {1},
                                               .width = 1 + test_random_below(&random, 20),
                                               .height = 1 + test_random_below(&random, 20),
                                               .tiles = 1 + test_random_below(&random, 3),
                                               .first_token = 20 * i,
                                               .span_tokens = 20,
                                               .scale = {1, 1, 1}};
            records[i].token_count = records[i].tiles * (1 + test_random_below(&random, 6));
        }
        uint64_t bytes = image_record_place(records, 4);
        if (round % 16 == 0)
            test_random_fill(&random, records, sizeof records);
        else
            scribble(&random, records, sizeof records);
        if (image_record_check(records, 4, 80, bytes, NULL) != RESULT_OK)
            continue;
        passed++;
        uint64_t end = sizeof records;
        uint32_t token = 0;
        for (uint32_t i = 0; i < 4; i++) {
            assert_in_range(records[i].pixels_offset, end, bytes);
            end = records[i].pixels_offset + records[i].pixels_bytes;
            assert_in_range(end, records[i].pixels_offset, bytes);
            assert_int_equal(records[i].pixels_offset % 64, 0);
            assert_in_range(records[i].first_token, token, 80);
            token = records[i].first_token + records[i].span_tokens;
            assert_in_range(token, records[i].first_token + records[i].token_count, 80);
            for (uint32_t c = 0; c < 3; c++)
                assert_true(records[i].scale[c] * 255 + records[i].bias[c] < 1e6f);
        }
    }
    assert_in_range(passed, ROUNDS / 150, ROUNDS / 4);
}

static void assert_event_is_usable(const struct token_event *event)
{
    assert_in_range(event->kind, TOKEN_EVENT_TOKEN, TOKEN_EVENT_ADAPTER);
    if (event->kind == TOKEN_EVENT_VECTOR)
        return; /* its numbers are checked by token_event_test */
    if (event->kind == TOKEN_EVENT_ADAPTER) {
        assert_true(event->adapter.slot < LIMIT_ADAPTERS && event->failure < RESULT_COUNT);
        return;
    }
    assert_true(event->request.slot < LIMIT_LIVE_REQUESTS);
    if (event->kind == TOKEN_EVENT_ALTERNATIVES) {
        assert_in_range(event->alternative_count, 1, TOKEN_EVENT_ALTERNATIVES_MAX);
        for (uint32_t i = 0; i < event->alternative_count; i++) {
            assert_true(event->alternatives[i].token < VOCAB_TOKENS);
            assert_true(event->alternatives[i].logprob <= 0);
        }
        return;
    }
    assert_true(event->finish <= FINISH_GRAMMAR && event->failure < RESULT_COUNT);
    assert_int_equal(event->finish != 0, event->kind == TOKEN_EVENT_FINISHED);
    assert_int_equal(event->failure != 0, event->kind == TOKEN_EVENT_FAILED);
    if (event->kind == TOKEN_EVENT_TOKEN) {
        assert_true(event->token < VOCAB_TOKENS && event->index < LIMIT_CONTEXT_TOKENS);
        assert_true(event->logprob <= 0); /* false for NaN */
    }
    if (event->kind == TOKEN_EVENT_PROMPT_TOKEN)
        assert_in_range(event->rank, 1, VOCAB_TOKENS);
    if (event->kind == TOKEN_EVENT_PROGRESS)
        assert_true(event->prompt_done <= event->prompt_total);
    if (event->kind == TOKEN_EVENT_PAYLOAD_DONE)
        assert_in_range(event->payload_offset, 64, SLAB_BYTES - 64);
}

static void token_events(void **state)
{
    (void)state;
    struct test_random random = {20260102};
    uint32_t passed = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct token_event event = {.kind = 1 + test_random_below(&random, 6), .logprob = -1.0f};
        event.finish = event.kind == TOKEN_EVENT_FINISHED ? FINISH_LENGTH : FINISH_NONE;
        event.failure = event.kind == TOKEN_EVENT_FAILED ? RESULT_INVALID : RESULT_OK;
        event.payload_generation = 5;
        event.payload_offset = 640;
        if (event.kind == TOKEN_EVENT_ALTERNATIVES) {
            event = (struct token_event){.kind = event.kind, .alternative_count = 2};
            event.alternatives[1].logprob = -2.0f;
        }
        if (round % 16 == 0)
            test_random_fill(&random, &event, sizeof event);
        else
            scribble(&random, &event, sizeof event);
        enum result result = token_event_check(&event, VOCAB_TOKENS, SLAB_BYTES, NULL);
        if (result == RESULT_OK) {
            passed++;
            assert_event_is_usable(&event);
        } else {
            assert_int_equal(result, RESULT_CORRUPT);
        }
    }
    assert_in_range(passed, ROUNDS / 50, ROUNDS * 3 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(submit_records),
        cmocka_unit_test(image_records),
        cmocka_unit_test(token_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
