/*
 * Rules T1-T12 and T14-T19 of token events, each broken alone; the limits themselves pass.
 */
// tags: threads
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/token_event.h"

#define VOCAB_TOKENS 1000u
#define SLAB_BYTES   (1ull << 20)

static struct token_event valid(enum token_event_kind kind)
{
    struct token_event event = {.kind = kind,
                                .request = {.slot = LIMIT_LIVE_REQUESTS - 1, .generation = 9}};
    if (kind == TOKEN_EVENT_TOKEN || kind == TOKEN_EVENT_PROMPT_TOKEN) {
        event.token = VOCAB_TOKENS - 1;
        event.index = LIMIT_CONTEXT_TOKENS - 1;
        event.logprob = -0.5f;
        event.cached_tokens = kind == TOKEN_EVENT_TOKEN ? LIMIT_CONTEXT_TOKENS : 0;
        event.rank = kind == TOKEN_EVENT_PROMPT_TOKEN ? VOCAB_TOKENS : 0;
    } else if (kind == TOKEN_EVENT_FINISHED) {
        event.finish = FINISH_LENGTH;
        event.cached_tokens = LIMIT_CONTEXT_TOKENS;
    } else if (kind == TOKEN_EVENT_FAILED) {
        event.failure = RESULT_CONTEXT_EXCEEDED;
    } else if (kind == TOKEN_EVENT_PAYLOAD_DONE) {
        event.payload_generation = 1;
        event.payload_offset = SLAB_BYTES - 64;
    } else if (kind == TOKEN_EVENT_ALTERNATIVES) {
        event.alternative_count = TOKEN_EVENT_ALTERNATIVES_MAX;
        for (uint32_t i = 0; i < TOKEN_EVENT_ALTERNATIVES_MAX; i++)
            event.alternatives[i] = (struct token_logprob){VOCAB_TOKENS - 1, i < 2 ? 0 : -INFINITY};
    } else if (kind == TOKEN_EVENT_VECTOR) {
        event.value_count = TOKEN_EVENT_VALUES_MAX;
        for (uint32_t i = 0; i < TOKEN_EVENT_VALUES_MAX; i++)
            event.values[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    } else if (kind == TOKEN_EVENT_ADAPTER) {
        event.adapter = (struct adapter_id){.slot = LIMIT_ADAPTERS - 1, .version = UINT32_MAX};
        event.failure = RESULT_COUNT - 1;
    } else {
        event.prompt_done = event.prompt_total = LIMIT_CONTEXT_TOKENS;
        event.step_time_us = UINT64_MAX;
    }
    return event;
}

static enum result check(const struct token_event *event, struct error_text *error)
{
    return token_event_check(event, VOCAB_TOKENS, SLAB_BYTES, error);
}

static void assert_breaks(const struct token_event *event, const char *rule)
{
    struct error_text error = {""};
    assert_int_equal(check(event, &error), RESULT_CORRUPT);
    assert_memory_equal(error.text, rule, strlen(rule));
    assert_int_equal(check(event, NULL), RESULT_CORRUPT);
}

static void every_kind_passes_at_its_limits(void **state)
{
    (void)state;
    for (int kind = TOKEN_EVENT_TOKEN; kind <= TOKEN_EVENT_ADAPTER; kind++) {
        struct token_event event = valid((enum token_event_kind)kind);
        assert_int_equal(check(&event, NULL), RESULT_OK);
    }
}

static void t1_kind(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_TOKEN);
    const uint32_t wrong[] = {0, 10, UINT32_MAX, 0x10001u};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        event.kind = wrong[i];
        assert_breaks(&event, "T1:");
    }
}

static void t2_finish(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_FINISHED);
    const uint32_t wrong[] = {FINISH_NONE, FINISH_GRAMMAR + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        event.finish = wrong[i];
        assert_breaks(&event, "T2:");
    }
    for (uint32_t finish = FINISH_STOP_TOKEN; finish <= FINISH_GRAMMAR; finish++) {
        event.finish = finish;
        assert_int_equal(check(&event, NULL), RESULT_OK);
    }
    for (int kind = TOKEN_EVENT_TOKEN; kind <= TOKEN_EVENT_PROGRESS; kind++) {
        if (kind == TOKEN_EVENT_FINISHED)
            continue;
        event = valid((enum token_event_kind)kind);
        event.finish = FINISH_LENGTH;
        assert_breaks(&event, "T2:");
    }
}

static void t3_slot(void **state)
{
    (void)state;
    for (int kind = TOKEN_EVENT_TOKEN; kind <= TOKEN_EVENT_VECTOR; kind++) {
        struct token_event event = valid((enum token_event_kind)kind);
        event.request.slot = LIMIT_LIVE_REQUESTS;
        assert_breaks(&event, "T3:");
    }
}

static void t19_adapter(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_ADAPTER);
    event.adapter.slot = LIMIT_ADAPTERS;
    assert_breaks(&event, "T19:");
    event = valid(TOKEN_EVENT_ADAPTER);
    event.finish = FINISH_LENGTH;
    assert_breaks(&event, "T2:");
    event = valid(TOKEN_EVENT_ADAPTER);
    event.failure = RESULT_COUNT;
    assert_breaks(&event, "T7:");
    event.failure = RESULT_OK;
    assert_int_equal(check(&event, NULL), RESULT_OK);
}

static const enum token_event_kind scored[] = {TOKEN_EVENT_TOKEN, TOKEN_EVENT_PROMPT_TOKEN};

static void t4_token(void **state)
{
    (void)state;
    for (size_t at = 0; at < sizeof scored / sizeof scored[0]; at++) {
        struct token_event event = valid(scored[at]);
        event.token = VOCAB_TOKENS;
        assert_breaks(&event, "T4:");
        event.token = UINT32_MAX;
        assert_breaks(&event, "T4:");
        event.token = 0;
        assert_int_equal(token_event_check(&event, 0, SLAB_BYTES, NULL), RESULT_CORRUPT);
    }
}

static void t5_index(void **state)
{
    (void)state;
    for (size_t at = 0; at < sizeof scored / sizeof scored[0]; at++) {
        struct token_event event = valid(scored[at]);
        event.index = LIMIT_CONTEXT_TOKENS;
        assert_breaks(&event, "T5:");
        event.index = 1;
        assert_int_equal(check(&event, NULL), RESULT_OK);
    }
    struct token_event event = valid(TOKEN_EVENT_TOKEN);
    event.index = 0;
    assert_int_equal(check(&event, NULL), RESULT_OK);
    event.kind = TOKEN_EVENT_PROMPT_TOKEN; /* a prompt's first token has none */
    assert_breaks(&event, "T5:");
}

static void t6_logprob(void **state)
{
    (void)state;
    const float wrong[] = {1e-6f, 1.0f, INFINITY, NAN, -NAN};
    const float right[] = {0.0f, -0.0f, -1e30f, -INFINITY};
    for (size_t at = 0; at < sizeof scored / sizeof scored[0]; at++) {
        struct token_event event = valid(scored[at]);
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            event.logprob = wrong[i];
            assert_breaks(&event, "T6:");
        }
        for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
            event.logprob = right[i];
            assert_int_equal(check(&event, NULL), RESULT_OK);
        }
    }
}

static void t7_failure(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_FAILED);
    const uint32_t wrong[] = {RESULT_OK, RESULT_COUNT, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        event.failure = wrong[i];
        assert_breaks(&event, "T7:");
    }
    for (int kind = TOKEN_EVENT_TOKEN; kind <= TOKEN_EVENT_PROGRESS; kind++) {
        if (kind == TOKEN_EVENT_FAILED)
            continue;
        event = valid((enum token_event_kind)kind);
        event.failure = RESULT_IO;
        assert_breaks(&event, "T7:");
    }
}

static void t8_progress(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_PROGRESS);
    event.prompt_total = 4;
    event.prompt_done = 5;
    assert_breaks(&event, "T8:");
    event.prompt_done = event.prompt_total = LIMIT_CONTEXT_TOKENS + 1;
    assert_breaks(&event, "T8:");
}

static void t12_alternatives(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_ALTERNATIVES);
    const uint32_t counts[] = {0, TOKEN_EVENT_ALTERNATIVES_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        event.alternative_count = counts[i];
        assert_breaks(&event, "T12:");
    }
    for (uint32_t at = 0; at < TOKEN_EVENT_ALTERNATIVES_MAX; at++) {
        event = valid(TOKEN_EVENT_ALTERNATIVES);
        event.alternatives[at].token = VOCAB_TOKENS;
        assert_breaks(&event, "T12:");
        event = valid(TOKEN_EVENT_ALTERNATIVES);
        event.alternatives[at].logprob = at < 3 ? 1e-6f : -1e30f; /* above 0, or the one before */
        assert_breaks(&event, "T12:");
        event.alternatives[at].logprob = NAN;
        assert_breaks(&event, "T12:");
        event = valid(TOKEN_EVENT_ALTERNATIVES);
        event.alternative_count = at;
        assert_breaks(&event, "T12:"); /* something behind the last one */
    }
    event = (struct token_event){.kind = TOKEN_EVENT_ALTERNATIVES, .alternative_count = 1};
    assert_int_equal(check(&event, NULL), RESULT_OK);
    event.alternatives[1].token = 1;
    assert_breaks(&event, "T12:");
}

static void t9_cached_tokens(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_FINISHED);
    event.cached_tokens = LIMIT_CONTEXT_TOKENS + 1;
    assert_breaks(&event, "T9:");
    event = valid(TOKEN_EVENT_TOKEN);
    event.cached_tokens = UINT32_MAX;
    assert_breaks(&event, "T9:");
}

static void t14_cached_images(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_TOKEN);
    event.cached_images = LIMIT_REQUEST_RECORDS;
    assert_int_equal(check(&event, NULL), RESULT_OK);
    event.cached_images++;
    assert_breaks(&event, "T14:");
}

static void t15_t16_drafts(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_TOKEN);
    event.draft_tokens = event.draft_position = LIMIT_DRAFT_TOKENS;
    assert_int_equal(check(&event, NULL), RESULT_OK);
    event.draft_tokens++;
    assert_breaks(&event, "T15:");
    event.draft_tokens = 0;
    event.draft_position++;
    assert_breaks(&event, "T16:");
}

static void t17_mirostat(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_TOKEN);
    for (float mu = -1e9f; mu <= 1e9f; mu += 1e9f) {
        event.mirostat_mu = mu;
        assert_int_equal(check(&event, NULL), RESULT_OK);
    }
    const float wrong[] = {1.1e9f, -1.1e9f, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        event.mirostat_mu = wrong[i];
        assert_breaks(&event, "T17:");
    }
}

static void t18_rank(void **state)
{
    (void)state;
    struct token_event event = valid(TOKEN_EVENT_PROMPT_TOKEN);
    event.rank = 1;
    assert_int_equal(check(&event, NULL), RESULT_OK);
    const uint32_t wrong[] = {0, VOCAB_TOKENS + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        event.rank = wrong[i];
        assert_breaks(&event, "T18:");
    }
}

static void t10_payload(void **state)
{
    (void)state;
    const uint64_t wrong[] = {0, 1, 63, 65, SLAB_BYTES, SLAB_BYTES + 64, UINT64_MAX - 63};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct token_event event = valid(TOKEN_EVENT_PAYLOAD_DONE);
        event.payload_offset = wrong[i];
        assert_breaks(&event, "T10:");
    }
    struct token_event event = valid(TOKEN_EVENT_PAYLOAD_DONE);
    event.payload_generation = 0;
    assert_breaks(&event, "T10:");
}

static void t11_step_time(void **state)
{
    (void)state;
    for (int kind = TOKEN_EVENT_TOKEN; kind < TOKEN_EVENT_PROGRESS; kind++) {
        struct token_event event = valid((enum token_event_kind)kind);
        event.step_time_us = 1ull << 40;
        assert_breaks(&event, "T11:");
    }
}

static void t17_values(void **state)
{
    (void)state;
    const uint32_t wrong[] = {0, TOKEN_EVENT_VALUES_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct token_event event = valid(TOKEN_EVENT_VECTOR);
        event.value_count = wrong[i];
        assert_breaks(&event, "T17:");
    }
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t i = 0; i < TOKEN_EVENT_VALUES_MAX; i++) {
        struct token_event event = valid(TOKEN_EVENT_VECTOR);
        event.values[i] = bad[i % 3];
        assert_breaks(&event, "T17:");
        event = valid(TOKEN_EVENT_VECTOR);
        event.value_count = TOKEN_EVENT_VALUES_MAX - 1;
        assert_breaks(&event, "T17:"); /* an unused value is not zero */
    }
    struct token_event single = valid(TOKEN_EVENT_VECTOR);
    memset(single.values + 1, 0, sizeof single.values - sizeof single.values[0]);
    single.value_count = 1;
    assert_int_equal(check(&single, NULL), RESULT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_passes_at_its_limits),
        cmocka_unit_test(t1_kind),
        cmocka_unit_test(t19_adapter),
        cmocka_unit_test(t2_finish),
        cmocka_unit_test(t3_slot),
        cmocka_unit_test(t4_token),
        cmocka_unit_test(t5_index),
        cmocka_unit_test(t6_logprob),
        cmocka_unit_test(t7_failure),
        cmocka_unit_test(t8_progress),
        cmocka_unit_test(t9_cached_tokens),
        cmocka_unit_test(t14_cached_images),
        cmocka_unit_test(t15_t16_drafts),
        cmocka_unit_test(t17_mirostat),
        cmocka_unit_test(t18_rank),
        cmocka_unit_test(t12_alternatives),
        cmocka_unit_test(t10_payload),
        cmocka_unit_test(t11_step_time),
        cmocka_unit_test(t17_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
