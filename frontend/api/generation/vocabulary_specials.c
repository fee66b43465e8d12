/*
 * A text is searched from left to right; at each place the longest special token counts.
 */
#include "frontend/api/generation/vocabulary_specials.h"

static bool special_find(const void *context, const char *text, size_t length,
                         struct special_token *special)
{
    for (size_t at = 0; at < length; at++) {
        special->length = tokenizer_special_at(context, text + at, length - at, &special->id);
        if (special->length > 0) {
            special->begin = at;
            return true;
        }
    }
    return false;
}

static bool id_is_special(const void *context, uint32_t id)
{
    return tokenizer_is_special(context, id);
}

struct special_finder vocabulary_specials(const struct tokenizer *tokenizer)
{
    return (struct special_finder){
        .context = tokenizer, .find = special_find, .is_special = id_is_special};
}
