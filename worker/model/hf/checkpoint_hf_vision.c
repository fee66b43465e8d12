/*
 * The settings that towers share in config.json. As with text, an absent key means its class's
 * default, and numbers are checked against limits before they are multiplied.
 *
 * Source: Hugging Face transformers, configuration_*.py of the families with vision.
 */
#include "worker/model/hf/checkpoint_hf_vision.h"

#include <math.h>
#include <string.h>

#define DEFAULT_SIDE 2u /* side of merged squares, and number of frames */

void checkpoint_hf_vision_merging(struct checkpoint_keys *keys, struct vision_config *config)
{
    config->vision.merge_side = checkpoint_keys_u32_or(
        keys, "spatial_merge_size", (struct u32_range){1, LIMIT_MERGE_SIDE}, DEFAULT_SIDE);
    config->frames = checkpoint_keys_u32_or(
        keys, "temporal_patch_size", (struct u32_range){1, LIMIT_PATCH_FRAMES}, DEFAULT_SIDE);
}

void checkpoint_hf_feature_layer(struct checkpoint_keys *root, const char *name, int absent,
                                 struct vision_config *config)
{
    struct json_value value = json_value_member(root->object, name);
    float number = (float)absent, layers = (float)config->layers;
    if (root->result != RESULT_OK)
        return;
    if (json_value_type(value) == JSON_ARRAY) {
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED, "%s is a list; only one layer is done",
                               name);
        return;
    }
    if (json_value_f32(value, &number) == RESULT_INVALID || number != floorf(number)) {
        checkpoint_keys_refuse(root, RESULT_INVALID, "key %s is no layer", name);
        return;
    }
    float run = number < 0 ? layers + 1 + number : number;
    if (run < 1 || run > layers) {
        checkpoint_keys_refuse(root, RESULT_INVALID, "%s %g is not one of %u layers", name,
                               (double)number, config->layers);
        return;
    }
    config->unused_layers = config->layers - (uint32_t)run;
    config->layers = (uint32_t)run;
}

void checkpoint_hf_feature_selection(struct checkpoint_keys *root, const char *absent,
                                     bool lead_row)
{
    struct gguf_string stated =
        checkpoint_keys_string_or_empty(root, "vision_feature_select_strategy");
    if (stated.length == 0)
        stated = (struct gguf_string){absent, strlen(absent)};
    bool full = checkpoint_keys_is(stated, "full");
    if (root->result == RESULT_OK && !full && !checkpoint_keys_is(stated, "default"))
        checkpoint_keys_refuse(root, RESULT_INVALID,
                               "vision_feature_select_strategy is neither default nor full");
    if (full == lead_row)
        checkpoint_keys_refuse(
            root, RESULT_UNSUPPORTED,
            "vision_feature_select_strategy \"%s\" of a tower with%s a class row",
            full ? "full" : "default", lead_row ? "" : "out");
}

bool checkpoint_hf_vision_list(struct checkpoint_keys *keys, const char *name, uint32_t bound,
                               uint32_t most, uint32_t *numbers, uint32_t *count)
{
    struct json_value list = json_value_member(keys->object, name), element;
    enum json_type type = json_value_type(list);
    *count = 0;
    if (type == JSON_ABSENT || keys->result != RESULT_OK)
        return false;
    if (type != JSON_ARRAY)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not an array", name);
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);) {
        uint32_t number = 0;
        if (*count == most || json_value_u32(element, &number) != RESULT_OK || number >= bound) {
            checkpoint_keys_refuse(keys, RESULT_INVALID,
                                   "key %s is no list of at most %u numbers below %u", name, most,
                                   bound);
            return true;
        }
        numbers[(*count)++] = number;
    }
    return true;
}

enum result checkpoint_hf_read_vision(struct json_value root, const struct hf_vision_form *form,
                                      const struct model_config *text, struct vision_config *config,
                                      struct error_text *error)
{
    struct error_text reason = {""};
    struct checkpoint_keys whole = {.object = root, .error = &reason};
    const char *part = form->part ? form->part : "vision_config";
    memset(config, 0, sizeof *config);
    bool nested = part[0] != '\0';
    if (nested && json_value_type(json_value_member(root, part)) == JSON_ABSENT)
        return RESULT_NOT_FOUND;
    struct checkpoint_keys keys = nested ? checkpoint_keys_enter(&whole, part) : whole;
    memcpy(config->tower.architecture, text->architecture, sizeof config->tower.architecture);
    config->vision.text_hidden = text->hidden;
    config->text_epsilon = text->norm_epsilon;
    config->text = text;
    config->tower.rope_count = 0;
    if (keys.result == RESULT_OK)
        form->read_config(&keys, &whole, config);
    checkpoint_keys_leave(&whole, &keys);
    return whole.result == RESULT_OK
               ? RESULT_OK
               : error_set(error, whole.result, "config.json: %s", reason.text);
}

void checkpoint_hf_expect_word(struct checkpoint_keys *keys, const char *name, const char *word)
{
    struct gguf_string found = checkpoint_keys_string_or_empty(keys, name);
    if (keys->result == RESULT_OK && found.length > 0 && !checkpoint_keys_is(found, word))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s is not \"%s\"", name, word);
}

void checkpoint_hf_read_ratio(struct checkpoint_keys *keys, float absent,
                              struct vision_config *config)
{
    float ratio =
        checkpoint_keys_f32_or(keys, "mlp_ratio", (struct f32_range){1e-3f, 1e3f}, absent);
    config->tower.feed_forward = (uint32_t)((double)config->tower.hidden * (double)ratio);
    if (keys->result == RESULT_OK &&
        (config->tower.feed_forward == 0 || config->tower.feed_forward > LIMIT_FEED_FORWARD))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "mlp_ratio %g of %u columns", (double)ratio,
                               config->tower.hidden);
}
