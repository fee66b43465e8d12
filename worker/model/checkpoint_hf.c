/*
 * A config.json as somebody saved it becomes the config that the rest of the worker trusts.
 *
 * The dangers are those of GGUF metadata (checkpoint_gguf.c): numbers out of range, numbers that
 * contradict each other, and keys that quietly change the computation, which are listed in
 * `altering_keys` and refused unless neutral. One is added: a key that is absent does not mean
 * "none" but the default of the model's configuration class, so each family brings its defaults.
 *
 * Rotary embeddings are stated in two generations: rope_theta beside rope_scaling, and later both
 * in rope_parameters; a family enters the object that it finds and reads it here.
 *
 * Sources: Hugging Face transformers, configuration_*.py for keys and defaults,
 * modeling_rope_utils.py for the formulas of scaling.
 *
 * Refuses to do: quantized weights (quantization_config), YaRN, LongRoPE and dynamic scaling,
 * rotation of a part of a head.
 */
#include "worker/model/checkpoint_hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/hf_config.h"
#include "worker/model/checkpoint_shared.h"
#include "worker/model/model_family.h"

#define TWO_PI 6.283185307179586476925286766559

static const struct altering_key altering_keys[] = {
    {"attention_bias", 0},
    {"mlp_bias", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"use_bidirectional_attention", 0},
    {"partial_rotary_factor", 1},
    {"num_local_experts", 0},
    {"num_experts", 0},
};

static void find_family(struct checkpoint_keys *root, const struct model_family **family)
{
    struct gguf_string type = checkpoint_keys_string_or_empty(root, "model_type");
    if (root->result != RESULT_OK)
        return;
    *family = model_family_find_hf(type);
    if (type.length == 0)
        checkpoint_keys_refuse(root, RESULT_INVALID, "key model_type is missing");
    else if (!*family)
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED, "model_type \"%.*s\" is not supported",
                               (int)(type.length < 64 ? type.length : 64), type.bytes);
    if (json_value_type(json_value_member(root->object, "quantization_config")) != JSON_ABSENT)
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED,
                               "quantization_config: quantized weights are read from GGUF files "
                               "only");
}

static void check_activation(struct checkpoint_keys *keys, const struct hf_form *form)
{
    struct gguf_string name = checkpoint_keys_string_or_empty(keys, form->activation_key);
    if (name.length > 0 && !checkpoint_keys_is(name, form->activation))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s \"%.*s\", not \"%s\"",
                               form->activation_key, (int)(name.length < 64 ? name.length : 64),
                               name.bytes, form->activation);
}

static void read_context(struct checkpoint_keys *keys, struct json_value root,
                         struct model_config *config)
{
    struct error_text reason;
    if (keys->result != RESULT_OK)
        return;
    if (hf_config_context(root, &config->context_tokens, &reason) != RESULT_OK)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%s", reason.text);
    else if (config->context_tokens > LIMIT_CONTEXT_TOKENS)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE,
                               "key max_position_embeddings is %u, more than %u",
                               config->context_tokens, LIMIT_CONTEXT_TOKENS);
}

static void read_shared(struct checkpoint_keys *keys, const struct hf_form *form,
                        struct model_config *config)
{
    const struct hf_defaults *d = &form->defaults;
    checkpoint_keys_expect_all_neutral(
        keys, altering_keys, sizeof(altering_keys) / sizeof(altering_keys[0]), form->own_keys);
    check_activation(keys, form);
    config->layers = checkpoint_keys_u32_or(keys, "num_hidden_layers",
                                            (struct u32_range){1, LIMIT_LAYERS}, d->layers);
    config->hidden =
        checkpoint_keys_u32_or(keys, "hidden_size", (struct u32_range){1, LIMIT_HIDDEN}, d->hidden);
    config->feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, d->feed_forward);
    config->norm_epsilon =
        checkpoint_keys_f32_or(keys, form->epsilon_key ? form->epsilon_key : "rms_norm_eps",
                               (struct f32_range){1e-12f, 1e-1f}, d->norm_epsilon);
    config->vocab_tokens = checkpoint_keys_u32_or(
        keys, "vocab_size", (struct u32_range){1, LIMIT_VOCAB_TOKENS}, d->vocab_tokens);
    config->tied_embeddings =
        checkpoint_keys_bool_or(keys, "tie_word_embeddings", d->tied_embeddings);
    struct u32_range head_range = {1, LIMIT_HEADS};
    config->heads = checkpoint_keys_u32_or(keys, "num_attention_heads", head_range, d->heads);
    config->kv_heads = checkpoint_keys_u32_or(keys, "num_key_value_heads", head_range,
                                              d->kv_heads ? d->kv_heads : config->heads);
    config->head_dim = checkpoint_keys_u32_or(keys, "head_dim",
                                              (struct u32_range){1, LIMIT_HEAD_DIM}, d->head_dim);
    checkpoint_settle_heads(keys, config);
    config->attention_scale = 1.0f / sqrtf((float)config->head_dim);
    config->embedding_scale = 1.0f;
    config->logit_scale = 1.0f;
}

enum result checkpoint_hf_read(struct json_value root, const struct model_family **family,
                               struct model_config *config, struct error_text *error)
{
    struct error_text reason = {""};
    struct checkpoint_keys whole = {.object = root, .error = &reason};
    struct checkpoint_keys keys = {.object = hf_config_text(root), .error = &reason};
    memset(config, 0, sizeof(*config));
    *family = NULL;
    if (json_value_type(root) != JSON_OBJECT)
        return error_set(error, RESULT_INVALID, "config.json: not an object");
    find_family(&whole, family);
    keys.result = whole.result;
    if (whole.result == RESULT_OK) {
        snprintf(config->architecture, sizeof(config->architecture), "%s", (*family)->architecture);
        read_context(&keys, root, config);
        read_shared(&keys, (*family)->hf, config);
    }
    if (keys.result == RESULT_OK)
        (*family)->hf->read_config(&keys, config);
    return keys.result == RESULT_OK ? RESULT_OK
                                    : error_set(error, keys.result, "config.json: %s", reason.text);
}

/* --- rotary embeddings, for families ---------------------------------------------------------- */

/*
 * Llama 3.1: long waves are slowed down by the factor, short ones are left alone, those between are
 * blended.
 */
static void apply_llama3(struct checkpoint_keys *scaling, double factor, struct rope_config *rope)
{
    struct f32_range range = {1e-3f, 1e6f};
    double low = (double)checkpoint_keys_f32(scaling, "low_freq_factor", range);
    double high = (double)checkpoint_keys_f32(scaling, "high_freq_factor", range);
    double context = checkpoint_keys_u32(scaling, "original_max_position_embeddings",
                                         (struct u32_range){1, LIMIT_CONTEXT_TOKENS});
    if (scaling->result == RESULT_OK && !(high > low))
        checkpoint_keys_refuse(scaling, RESULT_INVALID,
                               "high_freq_factor %g is not above low_freq_factor %g", high, low);
    if (scaling->result != RESULT_OK)
        return;
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        double frequency = (double)rope->inverse_frequency[i];
        double waves = context * frequency / TWO_PI; /* within the original context */
        double kept = (waves - low) / (high - low);
        kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
        rope->inverse_frequency[i] = (float)(frequency * (kept + (1 - kept) / factor));
    }
}

void checkpoint_hf_read_rope(struct checkpoint_keys *scaling, const struct model_config *config,
                             float base, struct rope_config *rope)
{
    float stated =
        checkpoint_keys_f32_or(scaling, "rope_theta", (struct f32_range){1.0f, 1e12f}, base);
    struct gguf_string type = checkpoint_keys_string_or_empty(scaling, "rope_type");
    if (type.length == 0)
        type = checkpoint_keys_string_or_empty(scaling, "type");
    checkpoint_keys_expect_neutral(scaling, "partial_rotary_factor", 1);
    bool linear = checkpoint_keys_is(type, "linear"), llama3 = checkpoint_keys_is(type, "llama3");
    if (type.length > 0 && !linear && !llama3 && !checkpoint_keys_is(type, "default"))
        checkpoint_keys_refuse(scaling, RESULT_UNSUPPORTED, "rope_type \"%.*s\" is not supported",
                               (int)(type.length < 32 ? type.length : 32), type.bytes);
    rope->dims = config->head_dim;
    if (rope->dims % 2 != 0)
        checkpoint_keys_refuse(scaling, RESULT_INVALID, "head size %u is odd, so it cannot rotate",
                               rope->dims);
    float factor = 1.0f;
    if (linear || llama3)
        factor = checkpoint_keys_f32(scaling, "factor", (struct f32_range){1e-4f, 1e4f});
    if (scaling->result != RESULT_OK)
        return;
    rope->pairing = ROPE_PAIRS_HALVES;
    checkpoint_plain_rope(rope, stated, linear ? factor : 1.0f);
    if (llama3)
        apply_llama3(scaling, (double)factor, rope);
}
