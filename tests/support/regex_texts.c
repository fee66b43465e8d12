#include "tests/support/regex_texts.h"

#include <string.h>

uint32_t regex_texts_set(struct regex_store *store, const char *bytes)
{
    uint64_t words[4] = {0};
    for (; *bytes != '\0'; bytes++)
        words[(uint8_t)*bytes / 64] |= 1ull << (uint8_t)*bytes % 64;
    return regex_set(store, words);
}

uint32_t regex_texts_all(struct regex_store *store, const char *bytes)
{
    uint32_t all = REGEX_EMPTY;
    for (size_t i = strlen(bytes); i-- > 0;)
        all = regex_concat(store, regex_byte(store, (uint8_t)bytes[i]), all);
    return all;
}
