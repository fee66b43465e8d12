/*
 * The config is that of a model with the drafter's few layers, so the family that it names reads it; what only
 * drafters have is read here. Sizes that the model decides (vocabulary, context) are replaced by the model's.
 */
#include "worker/model/target_drafter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/model/build/eagle_blocks.h"
#include "worker/model/build/plan_builder.h"
#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/family_registry.h"
#include "worker/model/hf/checkpoint_folder.h"

#define EAGLE_TAPS 3u

/* --- EAGLE-3 ---------------------------------------------------------------------------------- */

static const struct tensor_name eagle_names[] = {
    {"token_embd.weight", "embed_tokens.weight"},
    {"output.weight", "lm_head.weight"},
    {"output_norm.weight", "norm.weight"},
    {"hidden_norm.weight", "^hidden_norm.weight"},
    {"blk.0.attn_norm.weight", "^input_layernorm.weight"},
    {"blk.0.attn_q.weight", "^self_attn.q_proj.weight"},
    {"blk.0.attn_k.weight", "^self_attn.k_proj.weight"},
    {"blk.0.attn_v.weight", "^self_attn.v_proj.weight"},
    {"blk.0.attn_output.weight", "^self_attn.o_proj.weight"},
    {"blk.0.ffn_norm.weight", "^post_attention_layernorm.weight"},
    {"blk.0.ffn_gate.weight", "^mlp.gate_proj.weight"},
    {"blk.0.ffn_up.weight", "^mlp.up_proj.weight"},
    {"blk.0.ffn_down.weight", "^mlp.down_proj.weight"},
    {NULL, NULL},
};
static const char *const eagle_prefixes[] = {"midlayer.", "layers.0.", NULL};
static const char *const eagle_others[] = {"verifier_", NULL};
static const struct tensor_naming eagle_naming = {eagle_names, NULL, eagle_prefixes, eagle_others};

/* Reads an array of layer numbers, each plus `shift`, as the taps. */
static void read_taps(struct checkpoint_keys *keys, const char *name, uint32_t shift,
                      struct target_drafter *drafter)
{
    struct json_value array = json_value_member(keys->object, name), element;
    struct json_reader at = json_value_elements(array);
    uint32_t number;
    if (keys->result != RESULT_OK || json_value_type(array) == JSON_ABSENT)
        return;
    if (json_value_type(array) != JSON_ARRAY) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not an array", name);
        return;
    }
    drafter->tap_count = 0;
    while (json_value_next(&at, &element)) {
        if (drafter->tap_count == PLAN_TAPS_MAX || json_value_u32(element, &number) != RESULT_OK ||
            number >= LIMIT_LAYERS) {
            checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not an array of 1 to %u layers",
                                   name, PLAN_TAPS_MAX);
            return;
        }
        drafter->taps[drafter->tap_count++] = number + shift;
    }
    if (drafter->tap_count == 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is empty", name);
}

/* EAGLE's and vLLM's numbers are of layers whose input is read; those of eagle_config, which SGLang and
 * SpecForge write, of layers whose output is. */
static void read_eagle_taps(struct checkpoint_keys *keys, uint32_t layers,
                            struct target_drafter *drafter)
{
    drafter->tap_count = EAGLE_TAPS;
    drafter->taps[0] = 2;
    drafter->taps[1] = layers / 2;
    drafter->taps[2] = layers > 3 ? layers - 3 : 0;
    struct checkpoint_keys nested = checkpoint_keys_enter(keys, "eagle_config");
    read_taps(&nested, "eagle_aux_hidden_state_layer_ids", 1, drafter);
    checkpoint_keys_leave(keys, &nested);
    read_taps(keys, "eagle_aux_hidden_state_layer_ids", 0, drafter);
}

/* What a head of another kind would compute otherwise. */
static void refuse_other_heads(struct checkpoint_keys *keys, const struct model_config *own,
                               const struct model_config *model)
{
    if (strcmp(own->architecture, "llama") != 0)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "its layer is of family %s, not llama",
                               own->architecture);
    if (own->layers != 1)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "it has %u layers, not one", own->layers);
    if (own->attention_bias || own->output_bias || own->feed_forward_bias)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "its layer has biases");
    if (own->vocab_tokens != model->vocab_tokens)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "its vocabulary has %u tokens and the model's %u", own->vocab_tokens,
                               model->vocab_tokens);
}

/* d2t: [logit_tokens] of I64 or I32, the model's token minus the head's. */
static enum result read_map(const struct tensor_table *tensors, const struct model_config *config,
                            struct target_drafter *drafter, struct error_text *error)
{
    const struct checkpoint_tensor *map = tensor_table_find(tensors, "d2t");
    uint32_t tokens = config->logit_tokens;
    if (tokens == 0)
        return RESULT_OK;
    if (!map)
        return error_set(error, RESULT_INVALID, "tensor d2t is missing");
    bool wide = strcmp(map->type_name, "I64") == 0;
    uint64_t element_bytes = wide ? sizeof(int64_t) : sizeof(int32_t);
    if ((!wide && strcmp(map->type_name, "I32") != 0) || map->dimensions[0] != tokens ||
        map->data_bytes != tokens * element_bytes)
        return error_set(error, RESULT_INVALID, "tensor d2t is not [%u] of I64 or I32", tokens);
    drafter->token_map = must_alloc(tokens, sizeof *drafter->token_map);
    for (uint32_t i = 0; i < tokens; i++) {
        int64_t shift = 0;
        int32_t narrow = 0;
        memcpy(wide ? (void *)&shift : (void *)&narrow, map->data + i * element_bytes,
               element_bytes);
        shift += narrow;
        if (shift < -(int64_t)i || shift >= (int64_t)config->vocab_tokens - (int64_t)i)
            return error_set(error, RESULT_INVALID,
                             "tensor d2t: token %u becomes %u and %lld, no token of %u", i, i,
                             (long long)shift, config->vocab_tokens);
        drafter->token_map[i] = (uint32_t)(i + shift);
    }
    return RESULT_OK;
}

static enum result read_eagle(struct json_value root, const struct model_config *model,
                              struct target_drafter *drafter, struct model_config *config,
                              struct eagle_form *form, struct error_text *error)
{
    struct error_text reason = {""};
    struct checkpoint_keys keys = {.object = root, .error = &reason};
    struct json_value layer = json_value_member(root, "transformer_layer_config");
    const struct model_family *family;
    enum result result = family_registry_read_hf(
        json_value_type(layer) == JSON_OBJECT ? layer : root, &family, config, error);
    if (result != RESULT_OK)
        return result;
    refuse_other_heads(&keys, config, model);
    read_eagle_taps(&keys, model->layers, drafter);
    uint32_t tokens = checkpoint_keys_u32_or(
        &keys, "draft_vocab_size", (struct u32_range){1, LIMIT_VOCAB_TOKENS}, config->vocab_tokens);
    uint32_t states = checkpoint_keys_u32_or(&keys, "target_hidden_size",
                                             (struct u32_range){1, LIMIT_HIDDEN}, model->hidden);
    if (states != model->hidden)
        checkpoint_keys_refuse(&keys, RESULT_INVALID,
                               "it reads states of %u columns and the model's have %u", states,
                               model->hidden);
    form->norm_before_fc = checkpoint_keys_bool_or(&keys, "norm_before_fc", false);
    form->norm_before_residual = checkpoint_keys_bool_or(&keys, "norm_before_residual", false);
    form->tied = checkpoint_keys_bool_or(&keys, "tie_word_embeddings", config->tied_embeddings);
    form->tap_columns = drafter->tap_count * model->hidden;
    config->logit_tokens = tokens == model->vocab_tokens ? 0 : tokens;
    form->tied = form->tied && config->logit_tokens == 0;
    config->context_tokens = model->context_tokens;
    return keys.result == RESULT_OK
               ? read_map(checkpoint_folder_tensors(drafter->folder), config, drafter, error)
               : error_set(error, keys.result, "config.json: %s", reason.text);
}

static enum result open_eagle(struct target_drafter *drafter, const struct plan_source *target,
                              const struct model_config *model, struct error_text *error)
{
    struct model_config config;
    struct eagle_form form;
    enum result result = read_eagle(checkpoint_folder_config(drafter->folder), model, drafter,
                                    &config, &form, error);
    if (result != RESULT_OK)
        return result;
    struct plan_source source = {.tensors = checkpoint_folder_tensors(drafter->folder),
                                 .naming = &eagle_naming,
                                 .target = target};
    source.prefix =
        tensor_naming_find_prefix(&eagle_naming, source.tensors, NULL, "hidden_norm.weight");
    if (!source.prefix)
        return error_set(error, RESULT_INVALID, "tensor midlayer.hidden_norm.weight is missing");
    struct plan_builder *builder = plan_builder_create(&source, &config, error);
    if (!builder)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
    plan_tensor_id logits = eagle_blocks_list(builder, &config, &form);
    result = plan_builder_finish(builder, logits, &drafter->plan);
    plan_builder_destroy(builder);
    return result;
}

/* --- both ------------------------------------------------------------------------------------- */

static enum result open_folder(const char *path, const struct opened_files *opened,
                               struct checkpoint_folder **folder, struct error_text *error)
{
    int folder_fd = opened ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder_fd < 0 && !opened)
        return error_set(error, RESULT_IO, "it is no folder that can be read");
    enum result result = checkpoint_folder_open(folder_fd, opened, folder, error);
    if (folder_fd >= 0)
        close(folder_fd);
    return result;
}

enum result target_drafter_open(const char *path, const struct opened_files *opened,
                                const struct plan_source *source, const struct model_config *config,
                                struct target_drafter *drafter, struct error_text *error)
{
    struct error_text reason = {""};
    *drafter = (struct target_drafter){0};
    enum result result = open_folder(path, opened, &drafter->folder, &reason);
    if (result == RESULT_OK)
        drafter->kind = drafter_kind_find(checkpoint_folder_config(drafter->folder));
    if (result == RESULT_OK && drafter->kind == DRAFTER_EAGLE3)
        result = open_eagle(drafter, source, config, &reason);
    else if (result == RESULT_OK)
        result = error_set(&reason, RESULT_UNSUPPORTED, "drafters of this kind are not read: %s",
                           drafter_kind_name(drafter->kind));
    if (result == RESULT_OK)
        return result;
    target_drafter_close(drafter);
    return error_set(error, result, "%.100s: %s", path, reason.text);
}

void target_drafter_close(struct target_drafter *drafter)
{
    plan_destroy(drafter->plan);
    checkpoint_folder_close(drafter->folder);
    free(drafter->token_map);
    *drafter = (struct target_drafter){0};
}
