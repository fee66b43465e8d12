/*
 * Windows are stated twice: how far back (sliding_window, where null means "none" and absence the
 * class's default), and by which layers (layer_types).
 *
 * Source: transformers, configuration_utils.py (layer_type_validation).
 */
#include "worker/model/checkpoint_hf_layers.h"

#include <string.h>

#include "worker/model/checkpoint_shared.h"

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
