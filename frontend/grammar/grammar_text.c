/*
 * Cuts text at special tokens, from left to right and the longest first, as tokenizers do.
 */
#include "frontend/grammar/grammar_text.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 64 };

static bool special_find(const struct special_finder *specials, const char *text, size_t length,
                         struct special_token *special)
{
    return length > 0 && specials && specials->find(specials->context, text, length, special);
}

symbol_id grammar_text_symbol(struct grammar_builder *builder,
                              const struct special_finder *specials, const char *text,
                              size_t length)
{
    symbol_id parts[PARTS_MAX];
    size_t count = 0;
    struct special_token special;
    while (special_find(specials, text, length, &special)) {
        if (count + 3 > PARTS_MAX) {
            symbol_id joined = grammar_sequence(builder, parts, count);
            parts[0] = joined;
            count = 1;
        }
        if (special.begin > 0)
            parts[count++] =
                grammar_terminal(builder, grammar_regex_literal(builder, text, special.begin));
        parts[count++] = grammar_token(builder, special.id);
        text += special.begin + special.length;
        length -= special.begin + special.length;
    }
    if (length > 0 || count == 0)
        parts[count++] = grammar_terminal(builder, grammar_regex_literal(builder, text, length));
    return count == 1 ? parts[0] : grammar_sequence(builder, parts, count);
}

bool grammar_text_has_special(const struct special_finder *specials, const char *text,
                              size_t length)
{
    struct special_token special;
    return special_find(specials, text, length, &special);
}

regex_id grammar_text_without(struct grammar_builder *builder,
                              const struct special_finder *specials, const char *const *texts,
                              size_t count)
{
    regex_id any = grammar_regex_any_text(builder);
    regex_id unwanted = GRAMMAR_NONE;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(texts[i]);
        if (length == 0 || grammar_text_has_special(specials, texts[i], length))
            continue;
        regex_id text = grammar_regex_literal(builder, texts[i], length);
        unwanted = unwanted == GRAMMAR_NONE ? text : grammar_regex_or(builder, unwanted, text);
    }
    if (unwanted == GRAMMAR_NONE)
        return any;
    return grammar_regex_not(
        builder, grammar_regex_concat(builder, any, grammar_regex_concat(builder, unwanted, any)));
}
