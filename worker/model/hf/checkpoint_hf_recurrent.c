/*
 * A config states the kinds in one of three ways, newest first: a word for each layer, a list of
 * the layers that attend, or a period. If none is there, the class's default applies.
 */
#include "worker/model/hf/checkpoint_hf_recurrent.h"

#include <string.h>

#include "proto/must.h"

static void set_layer(struct model_config *config, uint32_t layer, enum layer_kind kind)
{
    config->layer[layer] = (struct layer_config){.kind = kind};
}

static void read_words(struct checkpoint_keys *keys, struct json_value types,
                       struct model_config *config, const struct hf_recurrent_layers *recurrent)
{
    struct json_value element;
    uint32_t count = 0;
    char word[32] = "";
    for (struct json_reader at = json_value_elements(types); json_value_next(&at, &element);) {
        if (json_value_string(element, word, sizeof word) != RESULT_OK)
            word[0] = '\0';
        const char *older = recurrent->older_word;
        bool attends =
            strcmp(word, "full_attention") == 0 || (older && strcmp(word, "attention") == 0);
        if (!attends && strcmp(word, recurrent->word) != 0 &&
            !(older && strcmp(word, older) == 0)) {
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                                   "layer_types: element %u is neither %s nor full_attention",
                                   count, recurrent->word);
            return;
        }
        if (count < config->layers)
            set_layer(config, count, attends ? LAYER_ATTENTION : recurrent->kind);
        count++;
    }
    if (count != config->layers)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "layer_types has %u elements for %u layers",
                               count, config->layers);
}

static void read_indices(struct checkpoint_keys *keys, struct json_value indices,
                         struct model_config *config, const struct hf_recurrent_layers *recurrent)
{
    struct json_value element;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        set_layer(config, layer, recurrent->kind);
    for (struct json_reader at = json_value_elements(indices); json_value_next(&at, &element);) {
        uint32_t layer = UINT32_MAX;
        if (json_value_u32(element, &layer) != RESULT_OK || layer >= config->layers) {
            checkpoint_keys_refuse(keys, RESULT_INVALID, "%s: an element is no layer's number",
                                   recurrent->indices);
            return;
        }
        set_layer(config, layer, LAYER_ATTENTION);
    }
}

static void read_period(struct checkpoint_keys *keys, struct model_config *config,
                        const struct hf_recurrent_layers *recurrent)
{
    uint32_t period = recurrent->default_period;
    must(period > 0);
    if (recurrent->period)
        period = checkpoint_keys_u32_or(keys, recurrent->period,
                                        (struct u32_range){1, LIMIT_LAYERS}, period);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        set_layer(config, layer, (layer + 1) % period == 0 ? LAYER_ATTENTION : recurrent->kind);
}

/* Whether the key is there; a value that is not an array is refused. */
static bool has_array(struct checkpoint_keys *keys, const char *name, struct json_value *array)
{
    if (!name)
        return false;
    *array = json_value_member(keys->object, name);
    enum json_type type = json_value_type(*array);
    if (type != JSON_ARRAY && type != JSON_ABSENT)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is not an array", name);
    return type == JSON_ARRAY;
}

void checkpoint_hf_read_layer_kinds(struct checkpoint_keys *keys, struct model_config *config,
                                    const struct hf_recurrent_layers *recurrent)
{
    struct json_value array;
    if (keys->result != RESULT_OK)
        return;
    if (has_array(keys, "layer_types", &array))
        read_words(keys, array, config, recurrent);
    else if (has_array(keys, recurrent->indices, &array))
        read_indices(keys, array, config, recurrent);
    else
        read_period(keys, config, recurrent);
}
