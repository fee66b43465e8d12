/*
 * Qwen2-Audio: Whisper's encoder (sound_blocks.h) over the log-mel rows of a sound, beside any text family,
 * mostly qwen2. Qwen2.5-Omni's thinker: the same over pieces of 2 * n_window rows. Pairs of rows are averaged and
 * projected:
 *
 *   feature = W . norm(mean of two rows) + bias
 *
 * Qwen2-Audio's publisher computes all 30 s and masks the keys of silence; rows that no other row attends to are
 * not computed here. Of the silence only the mel rows that the last rows hear are sent.
 *
 * In Qwen2.5-Omni rows attend within a piece, convolutions see zeros around it, and positions, which are
 * sinusoids that no tensor holds, begin anew. So a piece is a sound of its own here.
 *
 * Stages: the mel rows, those of the layers, and the features.
 *
 * Source: transformers, configuration_qwen2_audio.py and modeling_qwen2_audio.py, configuration_qwen2_5_omni.py
 * and modeling_qwen2_5_omni.py.
 */
#include <math.h>

#include "worker/model/build/sound_blocks.h"
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_sound.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define DEFAULT_POSITIONS 1500u
#define POOLED            2u
#define DEFAULT_WINDOW    100u
#define DEFAULT_OUTPUT    3584u
#define MOST_TIMESCALE    10000.0

static const char *const whole_types[] = {"qwen2_audio", NULL};
static const char *const audio_types[] = {"qwen2_audio_encoder", NULL};

static const struct tensor_name names[] = {
    CHECKPOINT_HF_SOUND_NAMES,
    {"mm.a.fc.weight", "multi_modal_projector.linear.weight"},
    {"mm.a.fc.weight", "model.multi_modal_projector.linear.weight"},
    {"mm.a.fc.bias", "multi_modal_projector.linear.bias"},
    {"mm.a.fc.bias", "model.multi_modal_projector.linear.bias"},
    {NULL, NULL},
};
static const struct tensor_name omni_names[] = {
    {"v.post_ln.weight", "^ln_post.weight"},
    {"v.post_ln.bias", "^ln_post.bias"},
    {"mm.a.fc.weight", "^proj.weight"},
    {"mm.a.fc.bias", "^proj.bias"},
    {"a.edges", "^audio_bos_eos_token.weight"}, /* unused by the publisher's code */
    {NULL, NULL},
};
static const char *const omni_prefixes[] = {"thinker.audio_tower.", "model.audio_tower.",
                                            "audio_tower.", NULL};
static const char *const prefixes[] = {"model.audio_tower.", "audio_tower.", NULL};
static const char *const parts[] = {"model.audio_tower.", "audio_tower.",
                                    "model.multi_modal_projector.", "multi_modal_projector.", NULL};

static void read_sizes(struct checkpoint_keys *keys, struct vision_config *config)
{
    const struct hf_sound_defaults defaults = {
        .hidden = 1280, .layers = 32, .heads = 20, .feed_forward = 5120, .mels = 128};
    checkpoint_hf_sound_sizes(keys, &defaults, config);
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    (void)root;
    read_sizes(keys, config);
    config->vision.sound_rows =
        checkpoint_keys_u32_or(keys, "max_source_positions",
                               (struct u32_range){POOLED, LIMIT_PATCH_ROWS}, DEFAULT_POSITIONS);
    if (keys->result == RESULT_OK && config->vision.sound_rows % POOLED != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "max_source_positions %u is odd",
                               config->vision.sound_rows);
    config->table_side = config->vision.sound_rows;
}

/* A row of the tower stands for two mel rows, so a piece has n_window. */
static void read_omni_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                             struct vision_config *config)
{
    (void)root;
    read_sizes(keys, config);
    uint32_t positions =
        checkpoint_keys_u32_or(keys, "max_source_positions",
                               (struct u32_range){POOLED, LIMIT_PATCH_ROWS}, DEFAULT_POSITIONS);
    uint32_t rows = checkpoint_keys_u32_or(
        keys, "n_window", (struct u32_range){POOLED, LIMIT_PATCH_ROWS}, DEFAULT_WINDOW);
    uint32_t output = checkpoint_keys_u32_or(keys, "output_dim",
                                             (struct u32_range){1, LIMIT_HIDDEN}, DEFAULT_OUTPUT);
    config->vision.sound_rows = config->table_side = rows;
    config->vision.sound_ends = true;
    config->vision.grid_positions = true;
    if (keys->result != RESULT_OK)
        return;
    if (rows % POOLED != 0 || rows > positions)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "n_window %u is odd or above %u positions",
                               rows, positions);
    else if (config->tower.hidden < 4 || config->tower.hidden % 2 != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "d_model %u has no sinusoids",
                               config->tower.hidden);
    else if (output != config->vision.text_hidden)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "output_dim %u is not the text's %u", output,
                               config->vision.text_hidden);
}

const struct hf_vision_form checkpoint_hf_qwen2_5_omni_sound = {
    .naming = {omni_names, names, omni_prefixes, NULL},
    .part = "audio_config",
    .probe = "a.conv1d.1.weight",
    .parts = omni_prefixes,
    .read_config = read_omni_config,
};

static const struct hf_vision_form hf_qwen2_audio = {
    .naming = {names, NULL, prefixes, NULL},
    .part = "audio_config",
    .probe = "a.conv1d.1.weight",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static void list_features(struct plan_builder *b, const struct vision_config *c, plan_tensor_id x)
{
    uint32_t hidden = c->tower.hidden, text = c->vision.text_hidden;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_ops_pool_rows(b, x, (struct pool_rows_params){.count = POOLED, .scale = 1.0f / POOLED},
                       row);
    tower_blocks_norm(b, false, row, hidden, "v.post_ln", row);
    tower_blocks_linear(b, row, &(const struct tower_linear){"mm.a.fc", text, hidden, true},
                        feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

/* `table`: [table_side, hidden], positions of the tower's rows. */
static void list_tower(struct plan_builder *b, const struct vision_config *c, plan_weight_id table)
{
    list_features(b, c, sound_blocks_list(b, c, table));
}

void tower_qwen2_audio_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    list_tower(b, c,
               plan_builder_flat(b, c->table_side, c->tower.hidden, "v.position_embd.weight"));
}

/* Row p: the sines of p over each timescale, then the cosines. Timescales are a geometric sequence from 1 to
 * MOST_TIMESCALE. */
static plan_weight_id add_sinusoids(struct plan_builder *b, const struct vision_config *c)
{
    uint32_t half = c->tower.hidden / 2;
    float *values;
    plan_weight_id table =
        plan_builder_computed(b, c->table_side, c->tower.hidden, "sinusoids", &values);
    for (uint32_t p = 0; values && p < c->table_side; p++) {
        float *row = values + (size_t)p * c->tower.hidden;
        for (uint32_t i = 0; i < half; i++) {
            float angle = (float)p * expf((float)(-log(MOST_TIMESCALE) / (half - 1)) * (float)i);
            row[i] = sinf(angle);
            row[half + i] = cosf(angle);
        }
    }
    return table;
}

void tower_qwen2_5_omni_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    plan_builder_use_in_config(b, "a.edges");
    list_tower(b, c, add_sinusoids(b, c));
}

const struct model_tower tower_qwen2_audio = {
    .model_types = whole_types,
    .vision_types = audio_types,
    .hf = &hf_qwen2_audio,
    .list_ops = tower_qwen2_audio_list_ops,
};
