/*
 * Turns an untrusted config.json into the config that the rest of the worker trusts.
 *
 * The dangers are those of GGUF metadata (checkpoint_gguf.c): numbers out of range, numbers that
 * contradict each other, and keys that change the computation, which are listed in `altering_keys`
 * and refused unless neutral or read by the family. In addition, an absent key means the default of
 * the model's configuration class, not "none", so each family states its class's defaults.
 *
 * Source: Hugging Face transformers, configuration_*.py for keys and defaults. Quantization is read
 * by checkpoint_quantization.c.
 */
#include "worker/model/hf/checkpoint_hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/hf_config.h"
#include "worker/model/checkpoint/checkpoint_shared.h"

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

/* One width, or a list with one width per layer. */
static void read_feed_forward(struct checkpoint_keys *keys, uint32_t absent,
                              struct model_config *config)
{
    uint32_t each[LIMIT_LAYERS];
    config->feed_forward = absent;
    if (!checkpoint_keys_u32_each(keys, "intermediate_size",
                                  (struct u32_range){1, LIMIT_FEED_FORWARD}, config->layers, each))
        return;
    config->feed_forward = each[0];
    for (uint32_t layer = 1; layer < config->layers; layer++)
        config->layer[layer].feed_forward = each[layer] != each[0] ? each[layer] : 0;
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
    read_feed_forward(keys, d->feed_forward, config);
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

void checkpoint_hf_read_biases(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_bias = checkpoint_keys_bool_or(keys, "attention_bias", false);
    config->output_bias = config->attention_bias;
}

/* If the model has several parts, the key stands outside text_config. */
static void read_whole_tie(struct checkpoint_keys *whole, const struct hf_form *form,
                           const struct model_tower *tower, struct model_config *config)
{
    /* In transformers 5.24 the whole alone decides if its class ties by default; llava's does not, and
     * there a text that ties does so too. */
    if (tower) {
        bool ties = checkpoint_keys_bool_or(whole, "tie_word_embeddings", tower->ties);
        config->tied_embeddings = ties || (!tower->ties && config->tied_embeddings);
        return;
    }
    struct gguf_string type = checkpoint_keys_string_or_empty(whole, "model_type");
    bool parts = json_value_type(json_value_member(whole->object, "text_config")) == JSON_OBJECT;
    for (const char *const *name = form->tying_wholes; parts && name && *name; name++)
        if (checkpoint_keys_is(type, *name))
            config->tied_embeddings = true;
    if (form->untying_whole && parts)
        config->tied_embeddings = false;
    config->tied_embeddings =
        checkpoint_keys_bool_or(whole, "tie_word_embeddings", config->tied_embeddings);
}

enum result checkpoint_hf_read(struct json_value root, const struct model_family *family,
                               const struct model_tower *tower, struct model_config *config,
                               struct error_text *error)
{
    struct error_text reason = {""};
    struct checkpoint_keys whole = {.object = root, .error = &reason};
    struct checkpoint_keys keys = {.object = hf_config_text(root), .error = &reason};
    const struct hf_form *form = family->hf;
    memset(config, 0, sizeof(*config));
    snprintf(config->architecture, sizeof(config->architecture), "%s", family->architecture);
    read_context(&keys, root, config);
    read_shared(&keys, form, config);
    read_whole_tie(&whole, form, tower, config);
    checkpoint_keys_leave(&keys, &whole);
    if (keys.result == RESULT_OK)
        form->read_config(&keys, config);
    if (keys.result == RESULT_OK && form->read_whole) {
        form->read_whole(&whole, config);
        checkpoint_keys_leave(&keys, &whole);
    }
    return keys.result == RESULT_OK ? RESULT_OK
                                    : error_set(error, keys.result, "config.json: %s", reason.text);
}
