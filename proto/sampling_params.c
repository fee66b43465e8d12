/*
 * The ranges of sampling parameters, in one table.
 *
 * The same check runs twice: in the frontend, where a bad number becomes a 400 for the client, and
 * in the worker, which does not trust the frontend. Nothing is clamped: a request that silently
 * runs with other parameters than it asked for cannot be reproduced. Comparisons are written so
 * that a NaN is outside every range.
 */
#include "proto/sampling_params.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/limits.h"

struct field_range {
    const char *name;
    size_t offset;
    float low;
    float high;
    bool low_excluded;
};

#define FIELD(field, low, high, low_excluded)                                                      \
    {                                                                                              \
#field, offsetof(struct sampling_params, field), low, high, low_excluded                   \
    }

static const struct field_range field_ranges[] = {
    FIELD(temperature, 0.0f, 2.0f, false),
    FIELD(top_p, 0.0f, 1.0f, true),
    FIELD(min_p, 0.0f, 1.0f, false),
    FIELD(typical_p, 0.0f, 1.0f, true),
    FIELD(top_n_sigma, 0.0f, 100.0f, false),
    FIELD(repetition_penalty, 0.0f, 10.0f, true),
    FIELD(presence_penalty, -2.0f, 2.0f, false),
    FIELD(frequency_penalty, -2.0f, 2.0f, false),
    FIELD(dynatemp_range, 0.0f, 10.0f, false),
    FIELD(dynatemp_exponent, 0.0f, 10.0f, false),
    FIELD(xtc_probability, 0.0f, 1.0f, false),
    FIELD(xtc_threshold, 0.0f, 1.0f, false),
    FIELD(mirostat_tau, 0.0f, 100.0f, false),
    FIELD(mirostat_eta, 0.0f, 1.0f, false),
    FIELD(mirostat_mu, -1e9f, 1e9f, false),
    FIELD(dry_multiplier, 0.0f, 100.0f, false),
    FIELD(dry_base, 0.0f, 100.0f, false),
};

#define COUNT(field)                                                                               \
    {                                                                                              \
#field, offsetof(struct sampling_params, field)                                            \
    }

/* Numbers of tokens, each at most a whole context. */
static const struct {
    const char *name;
    size_t offset;
} count_fields[] = {COUNT(repetition_context), COUNT(presence_context), COUNT(frequency_context),
                    COUNT(dry_allowed_length), COUNT(dry_context)};

struct sampling_params sampling_params_default(void)
{
    return (struct sampling_params){.top_p = 1.0f, .typical_p = 1.0f, .repetition_penalty = 1.0f};
}

enum result sampling_params_check(const struct sampling_params *params, struct error_text *error)
{
    for (size_t i = 0; i < sizeof field_ranges / sizeof field_ranges[0]; i++) {
        const struct field_range *range = &field_ranges[i];
        float value = *(const float *)((const char *)params + range->offset);
        bool above = range->low_excluded ? value > range->low : value >= range->low;
        if (!(above && value <= range->high))
            return error_set(error, RESULT_INVALID, "%s must be in %c%g, %g], not %g", range->name,
                             range->low_excluded ? '(' : '[', (double)range->low,
                             (double)range->high, (double)value);
    }
    for (size_t i = 0; i < sizeof count_fields / sizeof count_fields[0]; i++) {
        uint32_t value = *(const uint32_t *)((const char *)params + count_fields[i].offset);
        if (value > LIMIT_CONTEXT_TOKENS)
            return error_set(error, RESULT_INVALID, "%s must be in [0, %u], not %u",
                             count_fields[i].name, LIMIT_CONTEXT_TOKENS, value);
    }
    if (params->mirostat != 0 && params->mirostat != 2)
        return error_set(error, RESULT_INVALID, "mirostat must be 0 or 2, not %u",
                         params->mirostat);
    return RESULT_OK;
}

bool sampling_params_has_dynatemp(const struct sampling_params *params)
{
    return params->dynatemp_range > 0.0f && params->temperature > 0.0f;
}

bool sampling_params_has_xtc(const struct sampling_params *params)
{
    return params->xtc_probability > 0.0f && params->xtc_threshold <= 0.5f &&
           params->temperature > 0.0f && params->mirostat == 0;
}

bool sampling_params_has_mirostat(const struct sampling_params *params)
{
    return params->mirostat == 2 && params->temperature > 0.0f;
}

bool sampling_params_has_dry(const struct sampling_params *params)
{
    return params->dry_multiplier > 0.0f && params->dry_base >= 1.0f;
}
