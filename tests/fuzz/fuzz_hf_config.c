/*
 * Any bytes as config.json: reading must end in an error with a text or in a config that keeps the
 * rules of model_config.h, vision part included. The same bytes as an index of shards name plain
 * files only.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/hf_config.h"
#include "proto/must.h"
#include "worker/model/family_registry.h"
#include "worker/model/hf/checkpoint_hf_vision.h"
#include "worker/model/hf/shard_index.h"

/* Of layers that keep state: what their sizes are multiplied with stays within 32 bits. */
static void check_recurrent(const struct model_config *c)
{
    bool deltas = false, recurrent = false, scans = false;
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        recurrent |= layer_kind_keeps_state(c->layer[layer].kind);
        scans |= layer_kind_scans(c->layer[layer].kind);
        deltas |= c->layer[layer].kind == LAYER_GATED_DELTA;
    }
    if (recurrent)
        must(c->conv_taps >= 2 && c->conv_taps <= LIMIT_CONV_TAPS && c->conv_channels >= 1 &&
             c->conv_channels <= LIMIT_CONV_CHANNELS);
    if (scans)
        must(c->ssm.groups >= 1 && c->ssm.heads >= 1 && c->ssm.heads % c->ssm.groups == 0 &&
             c->ssm.heads <= LIMIT_HEADS && c->ssm.head_dim >= 1 &&
             c->ssm.head_dim <= LIMIT_HEAD_DIM && c->ssm.state >= 1 &&
             c->ssm.state <= LIMIT_HEAD_DIM && c->ssm.least_step >= 0 &&
             c->ssm.least_step <= c->ssm.most_step &&
             c->conv_channels == c->ssm.heads * c->ssm.head_dim + 2 * c->ssm.groups * c->ssm.state);
    if (deltas)
        must(c->delta.key_heads >= 1 && c->delta.value_heads % c->delta.key_heads == 0 &&
             c->delta.value_heads <= LIMIT_HEADS && c->delta.key_dim >= 1 &&
             c->delta.key_dim <= LIMIT_HEAD_DIM && c->delta.value_dim >= 1 &&
             c->delta.value_dim <= LIMIT_HEAD_DIM);
}

/* What sizes of stacks and routes are made of. */
static void check_experts(const struct model_config *c)
{
    const struct expert_config *e = &c->experts;
    for (uint32_t layer = 0; layer < c->layers; layer++)
        must(!c->layer[layer].experts || e->count > 0);
    if (e->count == 0)
        return;
    must(e->count <= LIMIT_EXPERTS && e->chosen >= 1 && e->chosen <= e->count &&
         e->chosen <= LIMIT_EXPERTS_CHOSEN && e->feed_forward >= 1 &&
         e->feed_forward <= LIMIT_FEED_FORWARD);
    must(isfinite(e->gate_limit) && isfinite(e->gate_alpha));
    must(isfinite(e->scale) && e->scale >= 0 && e->epsilon >= 0 && e->shared <= LIMIT_FEED_FORWARD);
    if (e->groups > 0)
        must(e->count % e->groups == 0 && e->groups_chosen >= 1 && e->groups_chosen <= e->groups &&
             e->count / e->groups >= e->group_best &&
             e->count / e->groups * e->groups_chosen >= e->chosen);
}

static uint32_t head_columns_max(const struct model_config *c)
{
    return c->latent.columns > 0 ? LIMIT_LATENT_COLUMNS : LIMIT_HEAD_DIM;
}

/* What the tensors of attention over a latent are made of. */
static void check_latent(const struct model_config *c)
{
    const struct latent_config *l = &c->latent;
    if (l->columns == 0)
        return;
    must(c->head_dim == l->columns + l->rope_dims && c->kv_heads == 1 && l->plain_dims >= 1);
    must(l->plain_dims + l->rope_dims <= LIMIT_HEAD_DIM && l->value_dims >= 1 &&
         l->value_dims <= LIMIT_HEAD_DIM && l->query_columns <= LIMIT_HIDDEN);
    for (uint32_t layer = 0; layer < c->layers; layer++)
        must(c->layer[layer].latent);
}

static void check_config(const struct model_config *c)
{
    must(c->layers >= 1 && c->layers <= LIMIT_LAYERS && c->hidden <= LIMIT_HIDDEN);
    must(c->heads >= 1 && c->heads <= LIMIT_HEADS && c->heads % c->kv_heads == 0);
    must(c->head_dim >= 2 && c->head_dim <= head_columns_max(c));
    must(c->vocab_tokens >= 1 && c->vocab_tokens <= LIMIT_VOCAB_TOKENS);
    must(c->context_tokens >= 1 && c->context_tokens <= LIMIT_CONTEXT_TOKENS);
    must(isfinite(c->attention_scale) && c->attention_scale > 0 && c->norm_epsilon > 0);
    must(isfinite(c->attention_soft_cap) && c->attention_soft_cap >= 0);
    must(isfinite(c->logit_soft_cap) && c->logit_soft_cap >= 0 && c->logit_scale > 0);
    must(c->rope_count <= MODEL_ROPES_MAX);
    must(isfinite(c->position_scale_beta));
    for (uint32_t r = 0; r < c->rope_count; r++)
        must(isfinite(c->ropes[r].magnitude) && c->ropes[r].magnitude > 0);
    for (uint32_t r = 0; r < c->rope_count; r++)
        for (uint32_t i = 0; i < c->ropes[r].dims / 2; i++)
            must(isfinite(c->ropes[r].inverse_frequency[i]) && c->ropes[r].axis[i] <= ROPE_ROW &&
                 c->ropes[r].second_axis[i] <= ROPE_ROW);
    must(c->deepstack_layers == 0 || c->deepstack_layers < c->layers);
    must(c->crossed_layers == 0 || c->heads * c->head_dim == c->hidden);
    must(c->crossed_layers < c->layers || c->position_rows >= 1);
    for (uint32_t layer = 0; layer < c->layers; layer++)
        must(c->layer[layer].rope < c->rope_count || c->layer[layer].rope == ROPE_NONE);
}

/* Sizes of layers, and whose keys they share: the layout of the cache holds them to the rest. */
static void check_layers(const struct model_config *c)
{
    static struct kv_layout layout;
    struct error_text error = {""};
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        must(model_config_head_dim(c, layer) <= head_columns_max(c));
        must(c->heads % model_config_kv_heads(c, layer) == 0);
        must(model_config_feed_forward(c, layer) <= LIMIT_FEED_FORWARD);
        must(isfinite(c->layer[layer].cut_deviations));
    }
    must(kv_layout_init(&layout, c, &error) == RESULT_OK || error.text[0] != '\0');
}

static void check_canvases(const struct vision_config *c)
{
    const struct model_vision *v = &c->vision;
    uint64_t rows = (uint64_t)v->canvas_side * v->canvas_side + 1;
    must((v->canvas_side > 0) == (v->canvas_tiles > 0) && c->outputs <= VISION_DEEPSTACK_MAX);
    must(c->global_layers <= LIMIT_LAYERS);
    must(v->canvas_tiles == 0 || ((rows + 8) * v->canvas_tiles <= LIMIT_PATCH_ROWS &&
                                  v->fixed_side == 0 && v->key_columns >= 1));
}

/* What towers' lists of ops and the order of their rows are made of. */
static void check_tower(const struct vision_config *c)
{
    const struct model_vision *v = &c->vision;
    const struct model_config *t = &c->tower;
    must(c->layers >= 1 && c->layers <= LIMIT_LAYERS && t->hidden <= LIMIT_HIDDEN);
    must(t->head_dim >= 1 && t->head_dim <= LIMIT_HEAD_DIM && t->hidden == t->heads * t->head_dim);
    must(t->feed_forward >= 1 && t->feed_forward <= LIMIT_FEED_FORWARD && t->norm_epsilon > 0);
    must(v->patch_side >= 1 && v->patch_side <= LIMIT_PATCH_SIDE && v->text_hidden >= 1);
    must(v->merge_side >= 1 && v->merge_side <= LIMIT_MERGE_SIDE);
    must(c->frames >= 1 && c->frames <= LIMIT_PATCH_FRAMES);
    must(v->fixed_side % v->merge_side == 0 && v->fixed_side * v->fixed_side <= LIMIT_PATCH_ROWS);
    must(c->table_side <= LIMIT_PATCH_POSITIONS && v->max_side <= c->table_side);
    must(v->max_side > 0 || v->mels > 0 ||
         (uint64_t)c->table_side * c->table_side <= LIMIT_PATCH_POSITIONS);
    must(v->mels <= LIMIT_AUDIO_MELS &&
         (v->mels == 0 || ((c->table_side == 0 || v->sound_rows == c->table_side) &&
                           v->sound_rows <= LIMIT_PATCH_ROWS)));
    must(v->deepstack_layers <= VISION_DEEPSTACK_MAX && t->rope_count <= MODEL_ROPES_MAX);
    for (uint32_t k = 0; k < v->deepstack_layers || k < c->outputs; k++)
        must(c->deepstack[k] < c->layers);
    check_canvases(c);
    uint32_t rotated = 0;
    for (uint32_t r = 0; r < t->rope_count; r++) {
        const struct rope_config *rope = &t->ropes[r];
        for (uint32_t i = 0; i < rope->dims / 2; i++)
            must(isfinite(rope->inverse_frequency[i]) && rope->axis[i] <= ROPE_WIDTH);
        rotated += rope->dims;
    }
    must(rotated <= t->head_dim);
}

/* A tower over the features of the first one, and what lies between the two. */
static void check_second(const struct vision_config *c)
{
    const struct second_tower *s = &c->second;
    if (s->layers == 0)
        return;
    must(s->layers <= LIMIT_LAYERS && s->heads >= 1 && s->hidden % s->heads == 0 &&
         s->hidden / s->heads <= LIMIT_HEAD_DIM && s->hidden <= LIMIT_HIDDEN);
    must(s->feed_forward >= 1 && s->feed_forward <= LIMIT_FEED_FORWARD && s->norm_epsilon > 0);
    must(s->table_side >= 1 && s->table_side * s->table_side <= LIMIT_PATCH_ROWS);
    must(c->neck[0] >= 1 && c->neck[0] <= LIMIT_HIDDEN && c->neck[1] >= 1 &&
         c->neck[1] <= LIMIT_HIDDEN && c->neck[2] == s->hidden);
    must(c->tile_window >= 1 && c->tile_window <= LIMIT_PATCH_ROWS && c->vision.max_side >= 1);
}

static void read_tower(struct json_value root, const struct hf_vision_form *form,
                       const struct model_config *text)
{
    static struct vision_config config;
    struct error_text error = {""};
    if (!form)
        return;
    enum result result = checkpoint_hf_read_vision(root, form, text, &config, &error);
    must(config.layers + config.unused_layers <= LIMIT_LAYERS);
    must(result != RESULT_OK || config.vision.crossed_layers == text->crossed_layers);
    if (result == RESULT_OK) {
        check_tower(&config);
        check_second(&config);
    } else
        must(result == RESULT_NOT_FOUND || error.text[0] != '\0');
}

static void read_index(const char *json, size_t size)
{
    struct shard_index index;
    struct error_text error = {""};
    if (shard_index_open(json, size, &index, &error) != RESULT_OK) {
        must(error.text[0] != '\0');
        return;
    }
    must(index.shard_count >= 1);
    for (uint32_t i = 0; i < index.shard_count; i++)
        must(!strchr(index.shards[i].text, '/') && index.shards[i].text[0] != '.');
    struct shard_line line;
    for (struct json_reader at = shard_index_lines(&index); shard_index_next(&index, &at, &line);)
        must(line.shard < index.shard_count);
    shard_index_close(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_value root;
    struct error_text error = {""};
    const struct model_family *family = NULL;
    static struct model_config config;
    char *json = malloc(size ? size : 1);
    if (!json)
        return 0;
    memcpy(json, data, size);
    enum result result = json_value_open(json, size, LIMIT_CONFIG_BYTES, &root, &error);
    root = result == RESULT_OK ? hf_config_main(root) : root;
    if (result == RESULT_OK)
        result = family_registry_read_hf(root, &family, &config, &error);
    if (result == RESULT_OK) {
        check_config(&config);
        check_experts(&config);
        check_latent(&config);
        check_layers(&config);
        check_recurrent(&config);
        const struct model_tower *tower = family_registry_tower(root);
        read_tower(root, tower ? tower->hf : family->hf->vision, &config);
        read_tower(root, family->hf->sound, &config);
    } else {
        must(error.text[0] != '\0');
    }
    read_index(json, size);
    free(json);
    return 0;
}
