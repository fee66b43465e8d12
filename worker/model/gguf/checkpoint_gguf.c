/*
 * Turns untrusted GGUF metadata into the config that the rest of the worker trusts.
 *
 * Three kinds of input are dangerous. Numbers out of range: each is read with its range, so that
 * products of any two or three of them fit their types (heads * head_dim <= 2^19, layers * both
 * caches < 2^40). Numbers that contradict each other or the tensor table: heads that do not divide,
 * a vocabulary of another size than the embedding. And keys that change the computation (experts,
 * soft-capping, logit scales): a loader that reads only the keys it knows would run such a model
 * wrong. Those keys are listed in `altering_keys` and refused unless neutral, except for the ones
 * that the family reads itself (own_keys). Key and value heads of different sizes are not
 * supported.
 *
 * Source: the GGUF specification's key list for names and meanings.
 */
#include "worker/model/gguf/checkpoint_gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/model/checkpoint/checkpoint_shared.h"

static const struct altering_key altering_keys[] = {
    {"expert_count", 0},           {"nextn_predict_layers", 0},    {"use_parallel_residual", 0},
    {"attn_logit_softcapping", 0}, {"final_logit_softcapping", 0}, {"attention.max_alibi_bias", 0},
    {"attention.clamp_kqv", 0},    {"attention.causal", 1},        {"logit_scale", 1},
    {"residual_scale", 1},         {"embedding_scale", 1},
};

/* The vocabulary size is the embedding's row count; a tokenizer of another size belongs to another
 * model. */
static void read_vocabulary(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct gguf_tensor *embedding = gguf_file_find_tensor(keys->file, "token_embd.weight");
    if (!embedding) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "tensor token_embd.weight is missing");
        return;
    }
    uint64_t rows = embedding->dimensions[1];
    if (rows == 0 || rows > LIMIT_VOCAB_TOKENS) {
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE,
                               "tensor token_embd.weight: %llu tokens, not within 1 to %u",
                               (unsigned long long)rows, LIMIT_VOCAB_TOKENS);
        return;
    }
    config->vocab_tokens = (uint32_t)rows;
    struct gguf_array tokens;
    if (gguf_file_array(keys->file, "tokenizer.ggml.tokens", &tokens) == RESULT_OK &&
        tokens.count != rows)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "tokenizer.ggml.tokens has %llu entries, token_embd.weight %llu",
                               (unsigned long long)tokens.count, (unsigned long long)rows);
    config->tied_embeddings = !gguf_file_find_tensor(keys->file, "output.weight");
}

static bool is_own(const struct gguf_form *form, const char *key)
{
    for (const char *const *own = form->own_keys; own && *own; own++)
        if (strcmp(*own, key) == 0)
            return true;
    return false;
}

static void read_feed_forward(struct checkpoint_keys *keys, const struct gguf_form *form,
                              struct model_config *config)
{
    struct u32_range range = {1, LIMIT_FEED_FORWARD};
    uint32_t each[LIMIT_LAYERS];
    if (is_own(form, "feed_forward_length"))
        return;
    if (!checkpoint_keys_u32_each(keys, "feed_forward_length", range, config->layers, each)) {
        config->feed_forward = checkpoint_keys_u32(keys, "feed_forward_length", range);
        return;
    }
    config->feed_forward = each[0];
    for (uint32_t layer = 1; layer < config->layers; layer++)
        config->layer[layer].feed_forward = each[layer] != each[0] ? each[layer] : 0;
}

static void read_kv_heads(struct checkpoint_keys *keys, const struct gguf_form *form,
                          struct model_config *config)
{
    uint32_t each[LIMIT_LAYERS];
    config->kv_heads = config->heads;
    if (is_own(form, "attention.head_count_kv"))
        return;
    if (!checkpoint_keys_u32_each(keys, "attention.head_count_kv",
                                  (struct u32_range){1, LIMIT_HEADS}, config->layers, each))
        return;
    config->kv_heads = each[0];
    for (uint32_t layer = 1; layer < config->layers; layer++) {
        config->layer[layer].kv_heads = each[layer] != each[0] ? each[layer] : 0;
        if (config->heads % each[layer] != 0)
            checkpoint_keys_refuse(
                keys, RESULT_INVALID,
                "layer %u: %u attention heads do not share %u key-value heads evenly", layer,
                config->heads, each[layer]);
    }
}

static void read_heads(struct checkpoint_keys *keys, const struct gguf_form *form,
                       struct model_config *config)
{
    struct u32_range head_range = {1, LIMIT_HEADS};
    struct u32_range dim_range = {1, LIMIT_HEAD_DIM};
    if (is_own(form, "attention.head_count"))
        return;
    config->heads = checkpoint_keys_u32(keys, "attention.head_count", head_range);
    read_kv_heads(keys, form, config);
    if (is_own(form, "attention.key_length"))
        return;
    config->head_dim = checkpoint_keys_u32_or(keys, "attention.key_length", dim_range, 0);
    checkpoint_settle_heads(keys, config);
    uint32_t value_dim =
        checkpoint_keys_u32_or(keys, "attention.value_length", dim_range, config->head_dim);
    if (keys->result == RESULT_OK && value_dim != config->head_dim)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "attention.value_length %u differs from key length %u", value_dim,
                               config->head_dim);
}

static void read_shared(struct checkpoint_keys *keys, const struct gguf_form *form,
                        struct model_config *config)
{
    checkpoint_keys_expect_all_neutral(
        keys, altering_keys, sizeof(altering_keys) / sizeof(altering_keys[0]), form->own_keys);
    config->layers = checkpoint_keys_u32(keys, "block_count", (struct u32_range){1, LIMIT_LAYERS});
    config->context_tokens =
        checkpoint_keys_u32(keys, "context_length", (struct u32_range){1, LIMIT_CONTEXT_TOKENS});
    config->hidden =
        checkpoint_keys_u32(keys, "embedding_length", (struct u32_range){1, LIMIT_HIDDEN});
    read_feed_forward(keys, form, config);
    config->norm_epsilon = checkpoint_keys_f32(
        keys, form->epsilon_key ? form->epsilon_key : "attention.layer_norm_rms_epsilon",
        (struct f32_range){1e-12f, 1e-1f});
    read_heads(keys, form, config);
    config->attention_scale =
        checkpoint_keys_f32_or(keys, "attention.scale", (struct f32_range){1e-6f, 1e3f},
                               config->head_dim ? 1.0f / sqrtf((float)config->head_dim) : 1.0f);
    config->embedding_scale = 1.0f;
    config->logit_scale = 1.0f;
    read_vocabulary(keys, config);
}

enum result checkpoint_gguf_read(const struct gguf_file *file, const struct model_family *family,
                                 struct model_config *config, struct error_text *error)
{
    struct checkpoint_keys keys = {.file = file, .error = error};
    memset(config, 0, sizeof(*config));
    snprintf(keys.section, sizeof(keys.section), "%s", family->architecture);
    snprintf(config->architecture, sizeof(config->architecture), "%s", family->architecture);
    struct gguf_string name;
    if (gguf_file_string(file, "general.name", &name) == RESULT_OK)
        checkpoint_set_name(config, name.bytes, name.length);
    read_shared(&keys, family->gguf, config);
    if (keys.result == RESULT_OK)
        family->gguf->read_config(&keys, config);
    return keys.result;
}

/* --- biases, for families -----------------------------------------------------------------------
 */

static bool has_tensor(const struct checkpoint_keys *keys, const char *name)
{
    return gguf_file_find_tensor(keys->file, name) != NULL;
}

void checkpoint_gguf_read_biases(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_bias = has_tensor(keys, "blk.0.attn_q.bias");
    config->output_bias = has_tensor(keys, "blk.0.attn_output.bias");
    config->feed_forward_bias = has_tensor(keys, "blk.0.ffn_down.bias");
}

/* --- windows, for families ---------------------------------------------------------------------
 */

uint32_t checkpoint_gguf_window(struct checkpoint_keys *keys, const struct model_config *config,
                                bool required)
{
    struct u32_range range = {required ? 1 : 0, UINT32_MAX};
    uint32_t window = required ? checkpoint_keys_u32(keys, "attention.sliding_window", range)
                               : checkpoint_keys_u32_or(keys, "attention.sliding_window", range, 0);
    return checkpoint_useful_window(config, window);
}

/* --- layers that attend, for families ----------------------------------------------------------
 */

uint32_t checkpoint_gguf_read_attending(struct checkpoint_keys *keys, enum layer_kind other,
                                        struct model_config *config)
{
    uint32_t first = config->layers;
    config->kv_heads = 0;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        uint32_t heads = checkpoint_keys_u32_at(keys, "attention.head_count_kv", layer,
                                                (struct u32_range){0, LIMIT_HEADS});
        config->layer[layer] = (struct layer_config){.kind = heads > 0 ? LAYER_ATTENTION : other};
        if (heads == 0 && first == config->layers)
            first = layer;
        if (heads > 0 && config->kv_heads == 0)
            config->kv_heads = heads;
        if (heads > 0 && config->kv_heads != heads)
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                                   "attention.head_count_kv: layer %u has %u heads, an earlier one "
                                   "%u",
                                   layer, heads, config->kv_heads);
    }
    if (keys->result == RESULT_OK && config->kv_heads == 0)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "attention.head_count_kv: no layer attends");
    if (keys->result == RESULT_OK)
        checkpoint_settle_heads(keys, config);
    return first < config->layers ? first : 0;
}
