/*
 * A config states a window's length (sliding_window: null means none, absent means the class's
 * default) and the layers that have it (layer_types, or a period in older configs, which some
 * classes save with a leading underscore).
 *
 * A window that is not shorter than the context is stored as no window. So a layer's kind is
 * decided by the pattern, never by its window.
 *
 * Source: transformers, configuration_utils.py (layer_type_validation), __post_init__ of
 * configuration_gemma2.py, _gemma3.py and _cohere2.py.
 */
#include "worker/model/hf/checkpoint_hf_layers.h"

#include <string.h>

#include "worker/model/checkpoint/checkpoint_shared.h"

uint32_t checkpoint_hf_window(struct checkpoint_keys *keys, const struct model_config *config,
                              uint32_t absent)
{
    static const char name[] = "sliding_window";
    if (json_value_member_is_null(keys->object, name))
        absent = 0;
    struct u32_range range = {1, UINT32_MAX};
    return checkpoint_useful_window(config, checkpoint_keys_u32_or(keys, name, range, absent));
}

bool checkpoint_hf_layer_slides(struct checkpoint_keys *keys, const struct model_config *config,
                                bool *slides)
{
    struct json_value types = json_value_member(keys->object, "layer_types"), element;
    uint32_t count = 0;
    char word[32] = "";
    if (keys->result != RESULT_OK || json_value_type(types) == JSON_ABSENT)
        return false;
    if (json_value_type(types) != JSON_ARRAY)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key layer_types is not an array");
    for (struct json_reader at = json_value_elements(types); json_value_next(&at, &element);) {
        if (json_value_string(element, word, sizeof word) != RESULT_OK)
            word[0] = '\0';
        bool full = strcmp(word, "full_attention") == 0;
        if (!full && strcmp(word, "sliding_attention") != 0)
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                                   "layer_types: element %u is neither sliding_attention nor "
                                   "full_attention",
                                   count);
        if (count < config->layers)
            slides[count] = !full;
        count++;
    }
    if (count != config->layers)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "layer_types has %u elements for %u layers",
                               count, config->layers);
    return keys->result == RESULT_OK;
}

void checkpoint_hf_read_layers(struct checkpoint_keys *keys, const struct hf_layer_pattern *pattern,
                               struct model_config *config)
{
    struct u32_range range = {1, LIMIT_LAYERS};
    bool slides[LIMIT_LAYERS];
    uint32_t window = checkpoint_hf_window(keys, config, pattern->window);
    uint32_t period =
        checkpoint_keys_u32_or(keys, "_sliding_window_pattern", range, pattern->period);
    period = checkpoint_keys_u32_or(keys, "sliding_window_pattern", range, period);
    bool listed = checkpoint_hf_layer_slides(keys, config, slides);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool global = listed ? !slides[layer] : (layer + 1) % period == 0;
        config->layer[layer].window = global ? 0 : window;
        config->layer[layer].rope = global ? pattern->global_rope : pattern->window_rope;
    }
}

void checkpoint_hf_read_per_layer(struct checkpoint_keys *keys, uint32_t least,
                                  uint32_t absent_columns, uint32_t absent_tokens,
                                  struct model_config *config)
{
    config->per_layer_columns =
        checkpoint_keys_u32_or(keys, "hidden_size_per_layer_input",
                               (struct u32_range){least, LIMIT_PLE_COLUMNS}, absent_columns);
    config->per_layer_tokens = checkpoint_keys_u32_or(
        keys, "vocab_size_per_layer_input",
        (struct u32_range){config->per_layer_columns > 0 ? 1 : 0, LIMIT_VOCAB_TOKENS},
        absent_tokens);
    if (keys->result == RESULT_OK && config->per_layer_columns > 0 &&
        config->per_layer_tokens > config->vocab_tokens)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "vocab_size_per_layer_input %u is more than vocab_size %u",
                               config->per_layer_tokens, config->vocab_tokens);
}
