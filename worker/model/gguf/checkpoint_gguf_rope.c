/*
 * From <arch>.rope.* to a rotary embedding.
 *
 * Converters write the kind as rope.scaling.type with its numbers, or precompute the result: llama3
 * and proportional are stored as one divisor per pair (rope_freqs.weight), longrope as two lists of
 * divisors and the magnitude (rope.scaling.attn_factor), often without a type.
 *
 * YaRN's magnitude equals that of transformers for the same config: yarn_log_multiplier is its
 * mscale_all_dim beside an mscale of 1, yarn_attn_factor its attention_factor. Partial
 * extrapolation of YaRN (yarn_ext_factor) and sections for several positions a token are not
 * supported.
 *
 * Sources: the GGUF specification's key list; llama.cpp's converter for what is written when.
 */
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#include <math.h>
#include <string.h>

#define STILL 1e20f /* divisors from here on turn the pair's rotation off */

static const struct f32_range factor_range = {0.0f, 1e4f};
static const struct f32_range magnitude_range = {0.0f, 1e3f};

static enum rope_kind read_kind(struct checkpoint_keys *keys, bool *none)
{
    struct gguf_string type = checkpoint_keys_string_or_empty(keys, "rope.scaling.type");
    *none = checkpoint_keys_is(type, "none");
    if (checkpoint_keys_is(type, "yarn"))
        return ROPE_KIND_YARN;
    if (checkpoint_keys_is(type, "longrope"))
        return ROPE_KIND_LONGROPE;
    if (type.length == 0 || *none || checkpoint_keys_is(type, "linear"))
        return ROPE_KIND_LINEAR;
    checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "rope.scaling.type \"%.*s\"",
                           (int)(type.length < 32 ? type.length : 32), type.bytes);
    return ROPE_KIND_PLAIN;
}

/* Converters write 0 for "no scaling"; rope.scale_linear is the key's older name. */
static float read_factor(struct checkpoint_keys *keys)
{
    float older = checkpoint_keys_f32_or(keys, "rope.scale_linear", factor_range, 0.0f);
    float factor = checkpoint_keys_f32_or(keys, "rope.scaling.factor", factor_range, older);
    if (!(factor > 0.0f))
        return 1.0f;
    if (factor < 1e-4f)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "rope.scaling.factor %g is absurd",
                               (double)factor);
    return factor;
}

static float read_beta(struct checkpoint_keys *keys, const char *name, float absent)
{
    float beta = checkpoint_keys_f32_or(keys, name, (struct f32_range){-1.0f, 1e6f}, absent);
    return beta > 0.0f ? beta : absent; /* -1: the default */
}

static void read_yarn(struct checkpoint_keys *keys, struct rope_scaling *scaling)
{
    float extrapolated = checkpoint_keys_f32_or(keys, "rope.scaling.yarn_ext_factor",
                                                (struct f32_range){-1.0f, 1.0f}, 1.0f);
    if (keys->result == RESULT_OK && !(fabsf(extrapolated) >= 1.0f))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "rope.scaling.yarn_ext_factor %g, not 1",
                               (double)extrapolated);
    scaling->magnitude =
        checkpoint_keys_f32_or(keys, "rope.scaling.yarn_attn_factor", magnitude_range, 0.0f);
    scaling->mscale = 1.0f;
    scaling->mscale_all =
        checkpoint_keys_f32_or(keys, "rope.scaling.yarn_log_multiplier", magnitude_range, 0.0f);
    scaling->beta_fast = read_beta(keys, "rope.scaling.yarn_beta_fast", 32.0f);
    scaling->beta_slow = read_beta(keys, "rope.scaling.yarn_beta_slow", 1.0f);
    if (keys->result == RESULT_OK && !(scaling->base > 1.0f))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "rope.freq_base %g: yarn needs more than 1",
                               (double)scaling->base);
}

/* --- divisors in tensors ---------------------------------------------------------------------- */

/* Reads divisors [pairs] from an F32 tensor of that size, each within the range. */
static bool read_divisors(struct checkpoint_keys *keys, const char *name, uint32_t pairs,
                          float *divisors)
{
    const struct gguf_tensor *tensor = gguf_file_find_tensor(keys->file, name);
    if (!tensor || tensor->type != GGML_F32 || tensor->dimensions[0] != pairs ||
        tensor->data_bytes != (uint64_t)pairs * sizeof(float)) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "tensor %s is %s F32 [%u]", name,
                               tensor ? "not" : "missing, which should be", pairs);
        return false;
    }
    for (uint32_t i = 0; i < pairs; i++) {
        memcpy(&divisors[i], tensor->data + i * sizeof(float), sizeof(float));
        bool usual = divisors[i] >= 1e-6f && divisors[i] <= 1e6f;
        if (!usual && !(isfinite(divisors[i]) && divisors[i] >= STILL)) {
            checkpoint_keys_refuse(keys, RESULT_INVALID, "tensor %s: element %u is %g", name, i,
                                   (double)divisors[i]);
            return false;
        }
    }
    return true;
}

void checkpoint_gguf_divide_rope(struct checkpoint_keys *keys, struct rope_config *rope)
{
    static const char name[] = "rope_freqs.weight";
    float divisors[ROPE_DIMS_MAX / 2];
    if (keys->result != RESULT_OK || !gguf_file_find_tensor(keys->file, name) ||
        !read_divisors(keys, name, rope->dims / 2, divisors))
        return;
    for (uint32_t i = 0; i < rope->dims / 2; i++)
        rope->inverse_frequency[i] =
            divisors[i] < STILL ? rope->inverse_frequency[i] / divisors[i] : 0.0f;
}

/* Takes the list that the context calls for, and checks the other one too. */
static void read_longrope(struct checkpoint_keys *keys, struct rope_scaling *scaling)
{
    static const char *const names[] = {"rope_factors_short.weight", "rope_factors_long.weight"};
    bool is_long = rope_scaling_is_long(scaling);
    scaling->kind = ROPE_KIND_LONGROPE;
    scaling->magnitude = 1.0f; /* the converter's attn_factor is the complete magnitude */
    if (read_divisors(keys, names[!is_long], scaling->dims / 2, scaling->divisors))
        (void)read_divisors(keys, names[is_long], scaling->dims / 2, scaling->divisors);
}

/* --- entry points ----------------------------------------------------------------------------- */

static void read_dims(struct checkpoint_keys *keys, uint32_t head_dim, struct rope_scaling *scaling)
{
    struct u32_range range = {2, head_dim};
    scaling->dims = checkpoint_keys_u32_or(keys, "rope.dimension_count", range, head_dim);
    if (scaling->dims % 2 != 0 || scaling->dims < 2 || scaling->dims > ROPE_DIMS_MAX)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "rope.dimension_count %u is not even or not within 2 to %u",
                               scaling->dims, ROPE_DIMS_MAX);
}

void checkpoint_gguf_read_scaling(struct checkpoint_keys *keys, const struct model_config *config,
                                  uint32_t head_dim, float base, struct rope_scaling *scaling)
{
    bool none = false;
    *scaling = (struct rope_scaling){.context_tokens = config->context_tokens};
    scaling->base =
        checkpoint_keys_f32_or(keys, "rope.freq_base", (struct f32_range){1.0f, 1e12f}, base);
    read_dims(keys, head_dim, scaling);
    scaling->kind = read_kind(keys, &none);
    float factor = read_factor(keys);
    scaling->factor = none ? 1.0f : factor;
    scaling->original_tokens =
        checkpoint_keys_u32_or(keys, "rope.scaling.original_context_length",
                               (struct u32_range){2, LIMIT_CONTEXT_TOKENS}, config->context_tokens);
    if (scaling->kind == ROPE_KIND_YARN)
        read_yarn(keys, scaling);
    if (keys->result == RESULT_OK &&
        (scaling->kind == ROPE_KIND_LONGROPE ||
         gguf_file_find_tensor(keys->file, "rope_factors_long.weight")))
        read_longrope(keys, scaling);
}

void checkpoint_gguf_read_rope(struct checkpoint_keys *keys, const struct model_config *config,
                               float base, struct rope_config *rope)
{
    struct rope_scaling scaling;
    checkpoint_gguf_read_scaling(keys, config, config->head_dim, base, &scaling);
    float more = checkpoint_keys_f32_or(keys, "rope.scaling.attn_factor",
                                        (struct f32_range){1e-3f, 1e3f}, 1.0f);
    if (keys->result != RESULT_OK)
        return;
    rope_scaling_apply(&scaling, rope);
    rope->magnitude *= more;
    checkpoint_gguf_divide_rope(keys, rope);
}

void checkpoint_gguf_read_sections(struct checkpoint_keys *keys, bool in_turn,
                                   struct rope_config *rope)
{
    uint32_t sections[3], pairs = rope->dims / 2, sum = 0;
    for (uint32_t i = 0; i < 3; i++) {
        sections[i] = checkpoint_keys_u32_at(keys, "rope.dimension_sections", i,
                                             (struct u32_range){0, ROPE_DIMS_MAX / 2});
        sum += sections[i];
    }
    if (keys->result != RESULT_OK)
        return;
    if (in_turn ? sum > pairs : sum != pairs)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key %s.rope.dimension_sections has %u pairs, a head %u",
                               keys->section, sum, pairs);
    else
        rope_scaling_assign_axes(sections, in_turn, rope);
}
