/*
 * A growing array of token ids. The bound is checked before memory is allocated. Growth doubles, so
 * that appending one token at a time stays linear.
 */
#include "frontend/prompt/tokenizer/token_list.h"

#include <stdlib.h>
#include <string.h>

void token_list_fini(struct token_list *list)
{
    free(list->ids);
    *list = (struct token_list){0};
}

enum result token_list_append(struct token_list *list, const uint32_t ids[], size_t count,
                              size_t max_tokens)
{
    if (count == 0)
        return RESULT_OK;
    if (list->count > max_tokens || count > max_tokens - list->count)
        return RESULT_TOO_LARGE;
    if (list->count + count > list->capacity) {
        size_t capacity = list->capacity ? list->capacity : 64;
        while (capacity < list->count + count)
            capacity *= 2;
        uint32_t *grown = realloc(list->ids, capacity * sizeof *grown);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        list->ids = grown;
        list->capacity = capacity;
    }
    memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return RESULT_OK;
}
