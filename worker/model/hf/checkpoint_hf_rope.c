/*
 * From rope_scaling or rope_parameters to a rotary embedding: one reader for each kind, with the
 * keys and defaults of transformers.
 *
 * Two traps. `original_max_position_embeddings` beside the object wins over the one inside, because
 * transformers overwrites it. And older Phi-3 configs call longrope "su" or even "yarn"; the lists
 * of divisors tell that it is longrope.
 *
 * Three positions a token (mrope) are read if the family's terms allow it: mrope_section states how
 * many pairs rotate by time, height and width. Either each axis has a section of the pairs, or the
 * pairs use the axes in turn (interleaved): pair i uses axis i % 3 while that axis has pairs left,
 * then time. The kind axial is not supported.
 *
 * Source: transformers, modeling_rope_utils.py (standardize_rope_params for what wins).
 */
#include "worker/model/hf/checkpoint_hf_rope.h"

#include <string.h>

#include "worker/model/checkpoint/rope_scaling.h"

static const struct f32_range factor_range = {1e-4f, 1e4f};
static const struct f32_range divisor_range = {1e-6f, 1e6f};
static const struct f32_range part_range = {1e-3f, 1.0f};
static const struct u32_range token_range = {2, LIMIT_CONTEXT_TOKENS};

static const struct {
    const char *name;
    enum rope_kind kind;
} kinds[] = {
    {"default", ROPE_KIND_PLAIN},     {"linear", ROPE_KIND_LINEAR},
    {"llama3", ROPE_KIND_LLAMA3},     {"yarn", ROPE_KIND_YARN},
    {"longrope", ROPE_KIND_LONGROPE}, {"su", ROPE_KIND_LONGROPE},
    {"dynamic", ROPE_KIND_DYNAMIC},   {"proportional", ROPE_KIND_PROPORTIONAL},
};

static enum rope_kind read_kind(struct checkpoint_keys *keys, const struct hf_rope_terms *terms)
{
    struct gguf_string type = checkpoint_keys_string_or_empty(keys, "rope_type");
    if (type.length == 0)
        type = checkpoint_keys_string_or_empty(keys, "type");
    if (type.length == 0 || (terms->mrope && checkpoint_keys_is(type, "mrope")))
        return ROPE_KIND_PLAIN;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!checkpoint_keys_is(type, kinds[i].name))
            continue;
        bool lists = json_value_type(json_value_member(keys->object, "long_factor")) == JSON_ARRAY;
        return kinds[i].kind == ROPE_KIND_YARN && lists ? ROPE_KIND_LONGROPE : kinds[i].kind;
    }
    checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "rope_type \"%.*s\" is not supported",
                           (int)(type.length < 32 ? type.length : 32), type.bytes);
    return ROPE_KIND_PLAIN;
}

static uint32_t read_original(struct checkpoint_keys *keys, const struct hf_rope_terms *terms,
                              uint32_t absent)
{
    if (terms->original_tokens > 0)
        return terms->original_tokens;
    return checkpoint_keys_u32_or(keys, "original_max_position_embeddings", token_range, absent);
}

static void read_llama3(struct checkpoint_keys *keys, struct rope_scaling *scaling)
{
    struct f32_range range = {1e-3f, 1e6f};
    scaling->factor = checkpoint_keys_f32(keys, "factor", factor_range);
    scaling->low_frequency_factor = checkpoint_keys_f32(keys, "low_freq_factor", range);
    scaling->high_frequency_factor = checkpoint_keys_f32(keys, "high_freq_factor", range);
    if (keys->result == RESULT_OK &&
        !(scaling->high_frequency_factor > scaling->low_frequency_factor))
        checkpoint_keys_refuse(
            keys, RESULT_INVALID, "high_freq_factor %g is not above low_freq_factor %g",
            (double)scaling->high_frequency_factor, (double)scaling->low_frequency_factor);
}

/* The default factor: the growth of the context. */
static float growth(const struct rope_scaling *scaling)
{
    return (float)scaling->context_tokens / (float)scaling->original_tokens;
}

static float read_magnitude(struct checkpoint_keys *keys)
{
    return checkpoint_keys_f32_or(keys, "attention_factor", (struct f32_range){1e-3f, 1e3f}, 0.0f);
}

/* A zero counts as absent. */
static float read_beta(struct checkpoint_keys *keys, const char *name, float absent)
{
    float beta = checkpoint_keys_f32_or(keys, name, (struct f32_range){0.0f, 1e6f}, absent);
    return beta > 0.0f ? beta : absent;
}

static void read_yarn(struct checkpoint_keys *keys, struct rope_scaling *scaling)
{
    struct f32_range range = {0.0f, 1e3f};
    scaling->factor = checkpoint_keys_f32_or(keys, "factor", factor_range, growth(scaling));
    scaling->magnitude = read_magnitude(keys);
    scaling->beta_fast = read_beta(keys, "beta_fast", 32.0f);
    scaling->beta_slow = read_beta(keys, "beta_slow", 1.0f);
    scaling->mscale = checkpoint_keys_f32_or(keys, "mscale", range, 0.0f);
    scaling->mscale_all = checkpoint_keys_f32_or(keys, "mscale_all_dim", range, 0.0f);
    scaling->fractional_bounds = !checkpoint_keys_bool_or(keys, "truncate", true);
    if (!(scaling->base > 1.0f))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "rope_theta %g: yarn needs more than 1",
                               (double)scaling->base);
}

/* Reads one of longrope's lists: a divisor for each pair. */
static void read_divisors(struct checkpoint_keys *keys, const char *name,
                          struct rope_scaling *scaling)
{
    struct json_value list = json_value_member(keys->object, name), element;
    uint32_t count = 0, wanted = scaling->dims / 2;
    if (keys->result != RESULT_OK)
        return;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);) {
        float divisor = 0.0f;
        if (json_value_f32(element, &divisor) != RESULT_OK || !(divisor >= divisor_range.least) ||
            !(divisor <= divisor_range.most)) {
            checkpoint_keys_refuse(keys, RESULT_INVALID, "%s: element %u is not within %g to %g",
                                   name, count, (double)divisor_range.least,
                                   (double)divisor_range.most);
            return;
        }
        if (count < wanted)
            scaling->divisors[count] = divisor;
        count++;
    }
    if (count != wanted)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%s has %u elements for %u pairs", name, count,
                               wanted);
}

static void read_longrope(struct checkpoint_keys *keys, struct rope_scaling *scaling)
{
    scaling->factor = checkpoint_keys_f32_or(keys, "factor", factor_range, growth(scaling));
    scaling->magnitude = read_magnitude(keys);
    bool is_long = rope_scaling_is_long(scaling);
    read_divisors(keys, is_long ? "short_factor" : "long_factor", scaling); /* only checked */
    read_divisors(keys, is_long ? "long_factor" : "short_factor", scaling);
}

/* The number of rotated dimensions, rounded down as in transformers. The part was rounded to f32,
 * so 0.7 * 80 is a little below 56. */
static uint32_t part_of(uint32_t head_dim, float part)
{
    return (uint32_t)((double)head_dim * (double)part + 1e-4);
}

static void read_dims(struct checkpoint_keys *keys, const struct hf_rope_terms *terms,
                      struct rope_scaling *scaling)
{
    float part = 1.0f;
    if (terms->partial)
        part = checkpoint_keys_f32_or(keys, "partial_rotary_factor", part_range, terms->part);
    else
        checkpoint_keys_expect_neutral(keys, "partial_rotary_factor", 1);
    uint32_t rotated = part_of(terms->head_dim, part);
    scaling->dims = terms->head_dim;
    scaling->rotated_pairs = rotated / 2;
    if (scaling->kind != ROPE_KIND_PROPORTIONAL)
        scaling->dims = rotated;
    uint32_t least = scaling->kind == ROPE_KIND_DYNAMIC ? 4 : 2;
    if (keys->result == RESULT_OK && (scaling->dims % 2 != 0 || scaling->dims < least))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "%u of a head's %u dimensions cannot rotate: not even or too few",
                               scaling->dims, terms->head_dim);
    if (keys->result == RESULT_OK && scaling->dims > ROPE_DIMS_MAX)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "%u dimensions rotate, more than %u",
                               scaling->dims, ROPE_DIMS_MAX);
}

static void read_kind_keys(struct checkpoint_keys *keys, struct rope_scaling *scaling)
{
    switch (scaling->kind) {
    case ROPE_KIND_PLAIN: break;
    case ROPE_KIND_LLAMA3: read_llama3(keys, scaling); break;
    case ROPE_KIND_YARN: read_yarn(keys, scaling); break;
    case ROPE_KIND_LONGROPE: read_longrope(keys, scaling); break;
    case ROPE_KIND_LINEAR:
    case ROPE_KIND_DYNAMIC:
        scaling->factor = checkpoint_keys_f32(keys, "factor", factor_range);
        break;
    case ROPE_KIND_PROPORTIONAL:
        scaling->factor = checkpoint_keys_f32_or(keys, "factor", factor_range, 1.0f);
        break;
    }
}

/* The sections add up to all pairs; interleaved pairs may add up to fewer. */
static void read_sections(struct checkpoint_keys *keys, const struct hf_rope_terms *terms,
                          bool turns, uint32_t pairs, uint32_t sections[3])
{
    struct json_value list = json_value_member(keys->object, "mrope_section"), element;
    uint32_t count = 0, sum = 0;
    memcpy(sections, terms->sections, 3 * sizeof *sections);
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);) {
        uint32_t number = UINT32_MAX;
        if (count < 3 && json_value_u32(element, &number) == RESULT_OK)
            sections[count] = number;
        count = number <= pairs ? count + 1 : UINT32_MAX / 2;
    }
    for (uint32_t i = 0; i < 3; i++)
        sum += sections[i] <= pairs ? sections[i] : pairs + 1;
    if ((json_value_type(list) != JSON_ABSENT && count != 3) || (!turns && sum != pairs))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "mrope_section is no three counts that share %u pairs", pairs);
}

static void read_axes(struct checkpoint_keys *keys, const struct hf_rope_terms *terms,
                      struct rope_config *rope)
{
    uint32_t sections[3], pairs = rope->dims / 2;
    bool turns = terms->interleaved;
    if (!turns)
        turns = checkpoint_keys_bool_or(keys, "mrope_interleaved", false);
    read_sections(keys, terms, turns, pairs, sections);
    if (keys->result == RESULT_OK)
        rope_scaling_assign_axes(sections, turns, rope);
}

void checkpoint_hf_read_rope_of(struct checkpoint_keys *scaling, const struct model_config *config,
                                const struct hf_rope_terms *terms, struct rope_config *rope)
{
    struct rope_scaling found = {.context_tokens = config->context_tokens};
    found.kind = read_kind(scaling, terms);
    found.base =
        checkpoint_keys_f32_or(scaling, "rope_theta", (struct f32_range){1.0f, 1e12f}, terms->base);
    found.original_tokens = read_original(scaling, terms, config->context_tokens);
    read_dims(scaling, terms, &found);
    if (scaling->result == RESULT_OK)
        read_kind_keys(scaling, &found);
    if (scaling->result != RESULT_OK)
        return;
    rope->pairing = ROPE_PAIRS_HALVES;
    rope_scaling_apply(&found, rope);
    if (terms->mrope)
        read_axes(scaling, terms, rope);
}

void checkpoint_hf_read_rope(struct checkpoint_keys *scaling, const struct model_config *config,
                             float base, struct rope_config *rope)
{
    const struct hf_rope_terms terms = {.base = base, .head_dim = config->head_dim};
    checkpoint_hf_read_rope_of(scaling, config, &terms, rope);
}

void checkpoint_hf_read_only_rope(struct checkpoint_keys *keys, struct model_config *config,
                                  const struct hf_rope_terms *terms)
{
    struct hf_rope_terms stated = *terms;
    struct checkpoint_keys scaling = checkpoint_keys_enter(keys, "rope_parameters");
    if (json_value_type(scaling.object) == JSON_ABSENT && scaling.result == RESULT_OK)
        scaling = checkpoint_keys_enter(keys, "rope_scaling");
    checkpoint_keys_leave(keys, &scaling);
    stated.base =
        checkpoint_keys_f32_or(keys, "rope_theta", (struct f32_range){1.0f, 1e12f}, terms->base);
    if (terms->partial)
        stated.part =
            checkpoint_keys_f32_or(keys, "partial_rotary_factor", part_range, terms->part);
    stated.original_tokens = checkpoint_keys_u32_or(keys, "original_max_position_embeddings",
                                                    token_range, terms->original_tokens);
    if (stated.head_dim == 0)
        stated.head_dim = config->head_dim;
    config->rope_count = 1;
    scaling.result = keys->result;
    checkpoint_hf_read_rope_of(&scaling, config, &stated, &config->ropes[0]);
    checkpoint_keys_leave(keys, &scaling);
}

void checkpoint_hf_read_layer_ropes(struct checkpoint_keys *keys, struct model_config *config,
                                    float global_base, float window_base)
{
    struct checkpoint_keys parameters = checkpoint_keys_enter(keys, "rope_parameters");
    checkpoint_keys_leave(keys, &parameters);
    bool stated = json_value_type(parameters.object) != JSON_ABSENT;
    struct checkpoint_keys global = stated ? checkpoint_keys_enter(&parameters, "full_attention")
                                           : checkpoint_keys_enter(keys, "rope_scaling");
    struct checkpoint_keys local = checkpoint_keys_enter(&parameters, "sliding_attention");
    if (stated && (json_value_type(global.object) == JSON_ABSENT ||
                   json_value_type(local.object) == JSON_ABSENT))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "rope_parameters lacks full_attention or sliding_attention");
    config->rope_count = 2;
    checkpoint_hf_read_rope(&global, config, global_base, &config->ropes[0]);
    checkpoint_keys_leave(keys, &global);
    checkpoint_hf_read_rope(&local, config, window_base, &config->ropes[1]);
    checkpoint_keys_leave(keys, &local);
}
