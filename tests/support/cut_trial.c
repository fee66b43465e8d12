/*
 * Both ways are quadratic in the length of a text; the texts have a few hundred bytes.
 */
#include "tests/support/cut_trial.h"

#include <cjson/cJSON.h>
#include <string.h>

static const char *text_of(const cJSON *item)
{
    return cJSON_GetObjectItem(item, "text")->valuestring;
}

void cut_trial_in_two(const struct cut_trial *trial, const cJSON *cases)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cases)
    {
        size_t length = strlen(text_of(item));
        for (size_t cut = 0; cut <= length; cut++) {
            trial->begin(trial->context, item);
            trial->push(trial->context, text_of(item), cut);
            trial->push(trial->context, text_of(item) + cut, length - cut);
            trial->end(trial->context, item, 2);
        }
    }
}

void cut_trial_in_pieces(const struct cut_trial *trial, const cJSON *cases)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cases)
    {
        size_t length = strlen(text_of(item));
        for (size_t piece = 1; piece < length; piece++) {
            uint32_t pieces = 0;
            trial->begin(trial->context, item);
            for (size_t at = 0; at < length; at += piece, pieces++)
                trial->push(trial->context, text_of(item) + at,
                            piece < length - at ? piece : length - at);
            trial->end(trial->context, item, pieces);
        }
    }
}
