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
#include "worker/model/build/dflash_blocks.h"
#include "worker/model/build/eagle_blocks.h"
#include "worker/model/build/gemma_blocks.h"
#include "worker/model/build/plan_builder.h"
#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/family_registry.h"
#include "worker/model/hf/checkpoint_folder.h"
#include "worker/model/hf/checkpoint_hf.h"

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

/* --- DFlash ----------------------------------------------------------------------------------- */

static const struct tensor_name dflash_names[] = {
    {"fc.weight", "^fc.weight"},
    {"hidden_norm.weight", "^hidden_norm.weight"},
    {NULL, NULL},
};
static const char *const dflash_prefixes[] = {"", "model.", NULL};
static const struct tensor_naming dflash_naming = {dflash_names, checkpoint_hf_usual_names,
                                                   dflash_prefixes, NULL};

/* The embedding and the output matrix of the model. */
static enum result find_ends(const struct plan *model, struct dflash_target *ends,
                             struct error_text *error)
{
    *ends = (struct dflash_target){0};
    for (uint32_t i = 0; i < model->op_count; i++) {
        const struct plan_op *op = &model->ops[i];
        if (op->stem == OP_linear && op->output == model->logits)
            ends->output = &model->weights[op->weights[0]];
        if (op->stem != OP_embed_rows || op->params.embed_rows.index != INDEX_TOKEN ||
            ends->embedding)
            continue;
        ends->embedding = &model->weights[op->weights[0]];
        ends->embedding_scale = op->params.embed_rows.scale;
    }
    const struct model_config *config = &model->config;
    bool fits = ends->embedding && ends->output && ends->embedding->columns == config->hidden &&
                ends->output->columns == config->hidden &&
                ends->output->rows == config->vocab_tokens;
    return fits ? RESULT_OK
                : error_set(error, RESULT_UNSUPPORTED,
                            "it uses the model's embedding and output matrix, and those of models "
                            "of family %s are others",
                            config->architecture);
}

/* What a drafter of another kind would compute otherwise. */
static void refuse_other_drafters(struct checkpoint_keys *keys, const struct model_config *own,
                                  const struct model_config *model)
{
    struct json_value classes = json_value_member(keys->object, "architectures");
    if (memmem(classes.bytes ? classes.bytes : "", classes.byte_count, "DFlash2", 7) ||
        json_value_type(json_value_member(keys->object, "selector_top_k")) != JSON_ABSENT)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "drafters of DFlash2 are not read");
    if (strcmp(own->architecture, "qwen3") != 0)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "its layers are of family %s, not qwen3",
                               own->architecture);
    if (own->attention_bias || own->output_bias || own->feed_forward_bias)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "its layers have biases");
    if (own->hidden != model->hidden)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "it reads states of %u columns and the model's have %u", own->hidden,
                               model->hidden);
    if (own->vocab_tokens != model->vocab_tokens)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "its vocabulary has %u tokens and the model's %u", own->vocab_tokens,
                               model->vocab_tokens);
}

static enum result read_dflash(struct json_value root, const struct model_config *model,
                               struct target_drafter *drafter, struct model_config *config,
                               struct error_text *error)
{
    struct error_text reason = {""};
    struct checkpoint_keys keys = {.object = root, .error = &reason};
    const struct model_family *family;
    enum result result = family_registry_read_hf(root, &family, config, error);
    if (result != RESULT_OK)
        return result;
    refuse_other_drafters(&keys, config, model);
    drafter->block_tokens = checkpoint_keys_u32(&keys, "block_size", (struct u32_range){2, 64});
    struct checkpoint_keys own = checkpoint_keys_enter(&keys, "dflash_config");
    drafter->mask_token =
        checkpoint_keys_u32(&own, "mask_token_id", (struct u32_range){0, model->vocab_tokens - 1});
    checkpoint_keys_expect_neutral(&own, "causal", 0);
    checkpoint_keys_expect_neutral(&own, "attention_sink_bias", 0);
    read_taps(&own, "target_layer_ids", 1, drafter);
    if (drafter->tap_count == 0)
        checkpoint_keys_refuse(&own, RESULT_INVALID, "key target_layer_ids is missing");
    checkpoint_keys_leave(&keys, &own);
    uint32_t layers = checkpoint_keys_u32_or(&keys, "num_target_layers",
                                             (struct u32_range){1, LIMIT_LAYERS}, model->layers);
    if (layers != model->layers)
        checkpoint_keys_refuse(&keys, RESULT_INVALID,
                               "it was made for a model of %u layers, and the model has %u", layers,
                               model->layers);
    config->context_tokens = model->context_tokens;
    config->logit_scale = model->logit_scale;
    config->logit_soft_cap = model->logit_soft_cap;
    config->sees_block = true;
    return keys.result == RESULT_OK ? RESULT_OK
                                    : error_set(error, keys.result, "config.json: %s", reason.text);
}

static enum result open_dflash(struct target_drafter *drafter, const struct plan *model,
                               struct error_text *error)
{
    struct model_config config;
    struct dflash_target ends;
    enum result result = read_dflash(checkpoint_folder_config(drafter->folder), &model->config,
                                     drafter, &config, error);
    if (result == RESULT_OK)
        result = find_ends(model, &ends, error);
    if (result != RESULT_OK)
        return result;
    struct plan_source source = {.tensors = checkpoint_folder_tensors(drafter->folder),
                                 .naming = &dflash_naming};
    source.prefix =
        tensor_naming_find_prefix(&dflash_naming, source.tensors, NULL, "hidden_norm.weight");
    if (!source.prefix)
        return error_set(error, RESULT_INVALID, "tensor hidden_norm.weight is missing");
    struct plan_builder *builders[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2; i++) {
        builders[i] = plan_builder_create(&source, &config, error);
        must(builders[i]);
    }
    dflash_blocks_list_context(builders[0], &config, drafter->tap_count * config.hidden);
    result = plan_builder_finish(builders[0], PLAN_NONE, &drafter->context_plan);
    if (result == RESULT_OK)
        result = plan_builder_finish(builders[1], dflash_blocks_list(builders[1], &config, &ends),
                                     &drafter->plan);
    for (uint32_t i = 0; i < 2; i++)
        plan_builder_destroy(builders[i]);
    return result;
}

/* --- Gemma 4's assistant ----------------------------------------------------------------------- */

/* All of its layers share keys. Of a model that is an error, so its family reads a config without that member. `text` is
 * a copy of the config's part, the caller's to free. */
static char *copy_unshared(struct json_value part, struct json_value *text)
{
    static const char name[] = "num_kv_shared_layers";
    char *bytes = must_alloc(part.byte_count + 1, 1);
    memcpy(bytes, part.bytes, part.byte_count);
    *text = (struct json_value){.bytes = bytes, .byte_count = part.byte_count};
    struct json_value shared = json_value_member(*text, name);
    if (json_value_type(shared) == JSON_NUMBER) {
        memset(bytes + (shared.bytes - bytes), ' ', shared.byte_count);
        bytes[shared.bytes - bytes] = '0';
    }
    return bytes;
}

/* The model's last layer of the kind of the assistant's; LIMIT_LAYERS if there is none. */
static uint32_t lending_layer(const struct model_config *model, const struct model_config *own,
                              uint32_t layer)
{
    for (uint32_t i = model->layers; i-- > 0;)
        if ((model->layer[i].window > 0) == (own->layer[layer].window > 0))
            return i;
    return LIMIT_LAYERS;
}

/* What an assistant of another kind, or for another model, would compute otherwise. */
static void refuse_other_assistants(struct checkpoint_keys *keys, const struct model_config *own,
                                    const struct model_config *model)
{
    if (strcmp(model->architecture, own->architecture) != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "it is for models of family %s, not %s",
                               own->architecture, model->architecture);
    if (own->per_layer_columns > 0 || own->experts.count > 0)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "its layers have experts or inputs of their own");
    if (own->vocab_tokens != model->vocab_tokens)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "its vocabulary has %u tokens and the model's %u", own->vocab_tokens,
                               model->vocab_tokens);
    for (uint32_t layer = 0; layer < own->layers && keys->result == RESULT_OK; layer++) {
        uint32_t lends = lending_layer(model, own, layer);
        if (lends == LIMIT_LAYERS || own->layer[layer].window != model->layer[lends].window ||
            model_config_head_dim(own, layer) != model_config_head_dim(model, lends) ||
            model_config_kv_heads(own, layer) != model_config_kv_heads(model, lends))
            checkpoint_keys_refuse(keys, RESULT_INVALID,
                                   "layer %u: the model has no layer whose keys it could read",
                                   layer);
    }
}

static enum result read_assistant(struct json_value root, const struct model_config *model,
                                  const struct model_family **family, struct model_config *config,
                                  struct error_text *error)
{
    struct error_text reason = {""};
    struct checkpoint_keys keys = {.object = root, .error = &reason};
    struct json_value text = json_value_member(root, "text_config");
    if (json_value_type(text) != JSON_OBJECT)
        return error_set(error, RESULT_INVALID, "config.json: key text_config is missing");
    char *copy = copy_unshared(text, &text);
    enum result result = family_registry_read_hf(text, family, config, error);
    free(copy);
    if (result != RESULT_OK)
        return result;
    if (!(*family)->list_assistant_ops)
        return error_set(error, RESULT_UNSUPPORTED, "assistants of family %s are not read",
                         config->architecture);
    if (checkpoint_keys_bool_or(&keys, "use_ordered_embeddings", false))
        checkpoint_keys_refuse(&keys, RESULT_UNSUPPORTED,
                               "use_ordered_embeddings: logits by centroids are not computed");
    uint32_t states =
        checkpoint_keys_u32(&keys, "backbone_hidden_size", (struct u32_range){1, LIMIT_HIDDEN});
    if (keys.result == RESULT_OK && states != model->hidden)
        checkpoint_keys_refuse(&keys, RESULT_INVALID,
                               "it reads states of %u columns and the model's have %u", states,
                               model->hidden);
    refuse_other_assistants(&keys, config, model);
    config->tied_embeddings = checkpoint_keys_bool_or(&keys, "tie_word_embeddings", true);
    config->context_tokens = model->context_tokens;
    config->logit_soft_cap = 0.0f;
    config->borrows_caches = true;
    return keys.result == RESULT_OK ? RESULT_OK
                                    : error_set(error, keys.result, "config.json: %s", reason.text);
}

/* The model's blocks, and in them the places of the layers whose keys and values it reads. */
static struct kv_layout borrowed_layout(const struct plan *model, const struct model_config *own)
{
    struct kv_layout layout = model->kv;
    layout.layer_count = own->layers;
    for (uint32_t layer = 0; layer < own->layers; layer++) {
        uint32_t lends = lending_layer(&model->config, own, layer);
        layout.layer_group[layer] = model->kv.layer_group[lends];
        layout.layer_index[layer] = model->kv.layer_index[lends];
    }
    return layout;
}

void target_drafter_follow_caches(struct target_drafter *drafter, const struct plan *plan)
{
    if (drafter->borrows_caches)
        drafter->plan->kv = borrowed_layout(plan, &drafter->plan->config);
}

static enum result open_assistant(struct target_drafter *drafter, const struct plan *model,
                                  struct error_text *error)
{
    struct model_config config;
    struct dflash_target ends;
    const struct model_family *family;
    enum result result = read_assistant(checkpoint_folder_config(drafter->folder), &model->config,
                                        &family, &config, error);
    if (result == RESULT_OK)
        result = find_ends(model, &ends, error);
    if (result != RESULT_OK)
        return result;
    struct assistant_target target = {ends.embedding, ends.embedding_scale, model->config.hidden};
    struct plan_source source = {.tensors = checkpoint_folder_tensors(drafter->folder),
                                 .naming = &family->hf->naming};
    source.prefix =
        tensor_naming_find_prefix(source.naming, source.tensors, NULL, "output_norm.weight");
    if (!source.prefix)
        return error_set(error, RESULT_INVALID, "tensor model.norm.weight is missing");
    struct plan_builder *builder = plan_builder_create(&source, &config, error);
    if (!builder)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
    struct kv_layout layout = borrowed_layout(model, &config);
    plan_builder_set_caches(builder, &layout);
    drafter->borrows_caches = true;
    result = plan_builder_finish(builder, family->list_assistant_ops(builder, &config, &target),
                                 &drafter->plan);
    plan_builder_destroy(builder);
    return result;
}

/* --- all -------------------------------------------------------------------------------------- */

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
                                const struct plan_source *source, const struct plan *plan,
                                struct target_drafter *drafter, struct error_text *error)
{
    struct error_text reason = {""};
    *drafter = (struct target_drafter){0};
    enum result result = open_folder(path, opened, &drafter->folder, &reason);
    if (result == RESULT_OK)
        drafter->kind = drafter_kind_find(checkpoint_folder_config(drafter->folder));
    if (result == RESULT_OK && drafter->kind == DRAFTER_EAGLE3)
        result = open_eagle(drafter, source, &plan->config, &reason);
    else if (result == RESULT_OK && drafter->kind == DRAFTER_DFLASH)
        result = open_dflash(drafter, plan, &reason);
    else if (result == RESULT_OK && drafter->kind == DRAFTER_ASSISTANT)
        result = open_assistant(drafter, plan, &reason);
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
    plan_destroy(drafter->context_plan);
    checkpoint_folder_close(drafter->folder);
    free(drafter->token_map);
    *drafter = (struct target_drafter){0};
}
