/*
 * The settings that towers of both formats share: config.json's vision_config, or a projector
 * file's keys. Numbers are checked against limits before they are multiplied.
 *
 * Source: Hugging Face transformers, configuration_*.py of the families with vision; llama.cpp,
 * tools/mtmd/clip.cpp.
 */
#include "worker/model/checkpoint/checkpoint_vision.h"

#include <math.h>

static void check_activation(struct checkpoint_keys *keys, const struct vision_terms *terms)
{
    const char *key = terms->activation_key ? terms->activation_key : "hidden_act";
    struct gguf_string name = checkpoint_keys_string_or_empty(keys, key);
    if (terms->activation && name.length > 0 && !checkpoint_keys_is(name, terms->activation))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s \"%.*s\", not \"%s\"", key,
                               (int)(name.length < 64 ? name.length : 64), name.bytes,
                               terms->activation);
}

/* One number, or two equal ones for lines and columns. */
static uint32_t read_side(struct checkpoint_keys *keys, const char *name, struct u32_range range,
                          uint32_t absent)
{
    uint32_t sides[2];
    if (!checkpoint_keys_u32_each(keys, name, range, 2, sides))
        return absent;
    if (keys->result == RESULT_OK && sides[0] != sides[1])
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "key %s has two different sides", name);
    return keys->result == RESULT_OK ? sides[0] : range.least;
}

enum activation checkpoint_vision_activation(struct checkpoint_keys *keys, const char *key,
                                             enum activation absent)
{
    static const struct {
        const char *name;
        enum activation activation;
    } known[] = {{"gelu", ACTIVATION_GELU_ERF},
                 {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                 {"quick_gelu", ACTIVATION_GELU_QUICK},
                 {"silu", ACTIVATION_SILU}};
    struct gguf_string name = checkpoint_keys_string_or_empty(keys, key);
    if (name.length == 0)
        return absent;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (checkpoint_keys_is(name, known[i].name))
            return known[i].activation;
    checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s \"%.*s\"", key,
                           (int)(name.length < 64 ? name.length : 64), name.bytes);
    return absent;
}

void checkpoint_vision_sizes(struct checkpoint_keys *keys, const struct vision_terms *terms,
                             struct vision_config *config)
{
    struct model_config *tower = &config->tower;
    tower->hidden = checkpoint_keys_u32_or(keys, terms->hidden_key,
                                           (struct u32_range){1, LIMIT_HIDDEN}, terms->hidden);
    config->layers = checkpoint_keys_u32_or(keys, terms->layers_key,
                                            (struct u32_range){1, LIMIT_LAYERS}, terms->layers);
    tower->heads = checkpoint_keys_u32_or(keys, terms->heads_key,
                                          (struct u32_range){1, LIMIT_HEADS}, terms->heads);
    config->vision.patch_side =
        read_side(keys, "patch_size", (struct u32_range){1, LIMIT_PATCH_SIDE}, terms->patch_side);
    checkpoint_keys_expect_neutral(keys, "in_channels", 3);
    checkpoint_keys_expect_neutral(keys, "in_chans", 3);
    checkpoint_keys_expect_neutral(keys, "num_channels", 3);
    check_activation(keys, terms);
    if (keys->result != RESULT_OK)
        return;
    if (tower->hidden % tower->heads != 0 || tower->hidden / tower->heads > LIMIT_HEAD_DIM) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "a hidden size of %u has no %u heads",
                               tower->hidden, tower->heads);
        return;
    }
    tower->kv_heads = tower->heads;
    tower->head_dim = tower->hidden / tower->heads;
    tower->norm_epsilon = terms->norm_epsilon;
    tower->attention_scale = 1.0f / sqrtf((float)tower->head_dim);
    config->vision.hidden = tower->hidden;
    config->vision.merge_side = 1;
    config->frames = 1;
}

void checkpoint_vision_square(struct checkpoint_keys *keys, uint32_t image_pixels,
                              struct vision_config *config)
{
    const struct u32_range range = {1, LIMIT_PATCH_SIDE * LIMIT_PATCH_ROWS};
    uint32_t pixels = read_side(keys, "image_size", range, image_pixels);
    if (keys->result != RESULT_OK)
        return;
    uint32_t side = pixels / config->vision.patch_side;
    if (side == 0 || (uint64_t)side * side > LIMIT_PATCH_ROWS ||
        side % config->vision.merge_side != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "image_size %u in patches of %u is no square of squares of %u",
                               pixels, config->vision.patch_side, config->vision.merge_side);
    config->vision.fixed_side = side;
    config->table_side = side;
}

void checkpoint_vision_table(struct checkpoint_keys *keys, const char *name, uint32_t pixels,
                             struct vision_config *config)
{
    const struct u32_range range = {1, LIMIT_PATCH_SIDE * LIMIT_PATCH_POSITIONS};
    uint32_t image = checkpoint_keys_u32_or(keys, name, range, pixels);
    if (keys->result != RESULT_OK)
        return;
    config->table_side = image / config->vision.patch_side;
    if (config->table_side == 0 ||
        (uint64_t)config->table_side * config->table_side > LIMIT_PATCH_POSITIONS)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%s %u in patches of %u: not 1 to %u patches",
                               name, image, config->vision.patch_side, LIMIT_PATCH_POSITIONS);
}

/* The base of an axial rope; 0 if it is refused. */
static float read_axial_base(struct checkpoint_keys *keys, float absent,
                             const struct vision_config *config)
{
    struct checkpoint_keys stated = checkpoint_keys_enter(keys, "rope_parameters");
    float base =
        checkpoint_keys_f32_or(&stated, "rope_theta", (struct f32_range){1.0f, 1e12f}, absent);
    checkpoint_keys_leave(keys, &stated);
    if (keys->result == RESULT_OK && config->tower.head_dim % 4 != 0)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "heads of %u have no even half for each axis",
                               config->tower.head_dim);
    return keys->result == RESULT_OK ? base : 0.0f;
}

/* Lets pairs [first, first + head_dim / 4) of a rope rotate along one axis, by every second frequency
 * of a whole head from number `odd` on. */
static void turn_along(struct rope_config *rope, uint32_t first, enum rope_axis axis, float base,
                       uint32_t head_dim, uint32_t odd)
{
    for (uint32_t pair = 0; pair < head_dim / 4; pair++) {
        rope->axis[first + pair] = (uint8_t)axis;
        rope->inverse_frequency[first + pair] =
            (float)pow((double)base, -2.0 * (double)(2 * pair + odd) / (double)head_dim);
    }
}

static void read_rope(struct checkpoint_keys *keys, float absent_base, uint32_t odd,
                      struct vision_config *config)
{
    uint32_t head_dim = config->tower.head_dim;
    struct rope_config *rope = &config->tower.ropes[0];
    float base = read_axial_base(keys, absent_base, config);
    if (keys->result != RESULT_OK)
        return;
    *rope = (struct rope_config){.pairing = ROPE_PAIRS_HALVES, .dims = head_dim, .magnitude = 1.0f};
    turn_along(rope, 0, ROPE_HEIGHT, base, head_dim, 0);
    turn_along(rope, head_dim / 4, ROPE_WIDTH, base, head_dim, odd);
    config->tower.rope_count = 1;
}

void checkpoint_vision_rope(struct checkpoint_keys *keys, float absent_base,
                            struct vision_config *config)
{
    read_rope(keys, absent_base, 0, config);
}

void checkpoint_vision_rope_shared(struct checkpoint_keys *keys, float absent_base,
                                   struct vision_config *config)
{
    read_rope(keys, absent_base, 1, config);
}

void checkpoint_vision_rope_adjacent(struct checkpoint_keys *keys, float absent_base, bool in_turn,
                                     struct vision_config *config)
{
    uint32_t head_dim = config->tower.head_dim, quarter = head_dim / 4;
    struct rope_config *rope = &config->tower.ropes[0];
    float base = read_axial_base(keys, absent_base, config);
    if (keys->result != RESULT_OK)
        return;
    *rope =
        (struct rope_config){.pairing = ROPE_PAIRS_ADJACENT, .dims = head_dim, .magnitude = 1.0f};
    for (uint32_t pair = 0; pair < 2 * quarter; pair++) {
        bool line = in_turn ? pair % 2 == 1 : pair >= quarter;
        uint32_t number = in_turn ? pair / 2 : pair % quarter;
        rope->axis[pair] = line ? ROPE_HEIGHT : ROPE_WIDTH;
        rope->inverse_frequency[pair] =
            (float)pow((double)base, -4.0 * (double)number / (double)head_dim);
    }
    config->tower.rope_count = 1;
}

void checkpoint_vision_rope_halves(struct checkpoint_keys *keys, float absent_base,
                                   struct vision_config *config)
{
    static const enum rope_axis axes[] = {ROPE_WIDTH, ROPE_HEIGHT};
    uint32_t head_dim = config->tower.head_dim;
    float base = read_axial_base(keys, absent_base, config);
    if (keys->result != RESULT_OK)
        return;
    for (uint32_t i = 0; i < 2; i++) {
        struct rope_config *rope = &config->tower.ropes[i];
        *rope = (struct rope_config){
            .pairing = ROPE_PAIRS_HALVES, .dims = head_dim / 2, .magnitude = 1.0f};
        turn_along(rope, 0, axes[i], base, head_dim, 0);
    }
    config->tower.rope_count = 2;
}
