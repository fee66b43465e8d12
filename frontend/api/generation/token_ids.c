/*
 * Numbers with commas.
 */
#include "frontend/api/generation/token_ids.h"

void token_ids_write(const char *before, const struct token_list *tokens, struct text_buffer *out)
{
    text_buffer_append_text(out, before);
    for (size_t i = 0; i < tokens->count; i++) {
        if (i > 0)
            text_buffer_append_text(out, ",");
        text_buffer_append_whole(out, tokens->ids[i], 1);
    }
    text_buffer_append_text(out, "]");
}
