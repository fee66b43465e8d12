/*
 * Ranges of sampling parameters: each end of each range, just outside of it, NaN and infinities.
 */
// tags: threads
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "proto/sampling_params.h"

struct edge {
    const char *field;
    size_t offset;
    float inside[2];
    float outside[2];
};

#define EDGE(field, low, high, below, above)                                                       \
    {                                                                                              \
#field, offsetof(struct sampling_params, field), {low, high },                             \
        {                                                                                          \
            below, above                                                                           \
        }                                                                                          \
    }

static const struct edge edges[] = {
    EDGE(temperature, 0.0f, 2.0f, -0.001f, 2.001f),
    EDGE(top_p, 0.0001f, 1.0f, 0.0f, 1.001f),
    EDGE(min_p, 0.0f, 1.0f, -0.001f, 1.001f),
    EDGE(typical_p, 0.0001f, 1.0f, 0.0f, 1.001f),
    EDGE(top_n_sigma, 0.0f, 100.0f, -0.001f, 100.01f),
    EDGE(repetition_penalty, 0.0001f, 10.0f, 0.0f, 10.01f),
    EDGE(presence_penalty, -2.0f, 2.0f, -2.001f, 2.001f),
    EDGE(frequency_penalty, -2.0f, 2.0f, -2.001f, 2.001f),
    EDGE(dynatemp_range, 0.0f, 10.0f, -0.001f, 10.01f),
    EDGE(dynatemp_exponent, 0.0f, 10.0f, -0.001f, 10.01f),
    EDGE(xtc_probability, 0.0f, 1.0f, -0.001f, 1.001f),
    EDGE(xtc_threshold, 0.0f, 1.0f, -0.001f, 1.001f),
    EDGE(mirostat_tau, 0.0f, 100.0f, -0.001f, 100.01f),
    EDGE(mirostat_eta, 0.0f, 1.0f, -0.001f, 1.001f),
    EDGE(mirostat_mu, -1e9f, 1e9f, -1.1e9f, 1.1e9f),
    EDGE(dry_multiplier, 0.0f, 100.0f, -0.001f, 100.01f),
    EDGE(dry_base, 0.0f, 100.0f, -0.001f, 100.01f),
};

static enum result check_with(const struct edge *edge, float value, struct error_text *error)
{
    struct sampling_params params = sampling_params_default();
    memcpy((char *)&params + edge->offset, &value, sizeof value);
    error->text[0] = '\0';
    return sampling_params_check(&params, error);
}

static void default_is_greedy_and_valid(void **state)
{
    (void)state;
    struct sampling_params params = sampling_params_default();
    assert_int_equal(sampling_params_check(&params, NULL), RESULT_OK);
    assert_true(params.temperature == 0.0f && params.top_p == 1.0f && params.min_p == 0.0f);
    assert_true(params.repetition_penalty == 1.0f && params.presence_penalty == 0.0f);
    assert_true(params.frequency_penalty == 0.0f);
    assert_true(params.typical_p == 1.0f && params.top_n_sigma == 0.0f);
    assert_int_equal(params.repetition_context, 0);
    assert_int_equal(params.presence_context, 0);
    assert_int_equal(params.frequency_context, 0);
    assert_int_equal(params.top_k, 0);
    assert_int_equal(params.seed, 0);
}

static void ends_of_ranges_are_inside(void **state)
{
    (void)state;
    struct error_text error;
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        assert_int_equal(check_with(&edges[i], edges[i].inside[0], &error), RESULT_OK);
        assert_int_equal(check_with(&edges[i], edges[i].inside[1], &error), RESULT_OK);
    }
}

static void outside_is_refused_by_name(void **state)
{
    (void)state;
    const float never[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        struct error_text error;
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(check_with(&edges[i], edges[i].outside[k], &error), RESULT_INVALID);
            assert_non_null(strstr(error.text, edges[i].field));
        }
        for (size_t k = 0; k < sizeof never / sizeof never[0]; k++) {
            assert_int_equal(check_with(&edges[i], never[k], &error), RESULT_INVALID);
            assert_non_null(strstr(error.text, edges[i].field));
        }
    }
}

static void contexts_are_at_most_a_context(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct sampling_params params = sampling_params_default();
        uint32_t *fields[] = {&params.repetition_context, &params.presence_context,
                              &params.frequency_context, &params.dry_allowed_length,
                              &params.dry_context};
        const char *const names[] = {"repetition_context", "presence_context", "frequency_context",
                                     "dry_allowed_length", "dry_context"};
        struct error_text error = {""};
        *fields[i] = LIMIT_CONTEXT_TOKENS;
        assert_int_equal(sampling_params_check(&params, &error), RESULT_OK);
        *fields[i] = LIMIT_CONTEXT_TOKENS + 1;
        assert_int_equal(sampling_params_check(&params, &error), RESULT_INVALID);
        assert_non_null(strstr(error.text, names[i]));
    }
}

static void mirostat_is_off_or_version_2(void **state)
{
    (void)state;
    struct sampling_params params = sampling_params_default();
    struct error_text error = {""};
    params.mirostat = 2;
    assert_int_equal(sampling_params_check(&params, &error), RESULT_OK);
    params.mirostat = 1;
    assert_int_equal(sampling_params_check(&params, &error), RESULT_INVALID);
    assert_non_null(strstr(error.text, "mirostat"));
}

/* What makes a row wait for its last token, or the host draw it. */
static void samplers_are_on_where_they_have_an_effect(void **state)
{
    (void)state;
    struct sampling_params params = sampling_params_default();
    params.temperature = 1.0f;
    assert_false(sampling_params_has_dynatemp(&params) || sampling_params_has_xtc(&params) ||
                 sampling_params_has_mirostat(&params) || sampling_params_has_dry(&params));
    params.dynatemp_range = 0.5f;
    params.xtc_probability = 0.5f;
    params.xtc_threshold = 0.5f;
    params.dry_multiplier = 1.0f;
    params.dry_base = 1.0f;
    assert_true(sampling_params_has_dynatemp(&params) && sampling_params_has_xtc(&params) &&
                sampling_params_has_dry(&params));
    params.xtc_threshold = 0.51f;
    assert_false(sampling_params_has_xtc(&params));
    params.xtc_threshold = 0.1f;
    params.mirostat = 2;
    assert_true(sampling_params_has_mirostat(&params) && !sampling_params_has_xtc(&params));
    params.temperature = 0.0f;
    assert_false(sampling_params_has_mirostat(&params) || sampling_params_has_dynatemp(&params));
    params.mirostat = 0;
    assert_false(sampling_params_has_xtc(&params)); /* the likeliest token is taken */
    assert_true(sampling_params_has_dry(&params));
}

static void error_text_is_optional(void **state)
{
    (void)state;
    struct sampling_params params = sampling_params_default();
    params.temperature = 3.0f;
    assert_int_equal(sampling_params_check(&params, NULL), RESULT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_is_greedy_and_valid),
        cmocka_unit_test(ends_of_ranges_are_inside),
        cmocka_unit_test(outside_is_refused_by_name),
        cmocka_unit_test(contexts_are_at_most_a_context),
        cmocka_unit_test(mirostat_is_off_or_version_2),
        cmocka_unit_test(samplers_are_on_where_they_have_an_effect),
        cmocka_unit_test(error_text_is_optional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
