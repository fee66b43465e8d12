/*
 * Any bytes as tokenizer.json: opening must end in an error with words, or in a tokenizer whose
 * every token can be shown and that encodes a text within its bound, never making a special token
 * (but the one for unknown characters) from a user's text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/must.h"
#include "tests/support/tokenizer_probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokenizer *tokenizer = NULL;
    struct error_text error = {""};
    char *json = malloc(size ? size : 1);
    if (!json)
        return 0;
    memcpy(json, data, size);
    if (tokenizer_open_json(json, size, &tokenizer, &error) == RESULT_OK) {
        tokenizer_probe_check(tokenizer);
        tokenizer_close(tokenizer);
    } else {
        must(error.text[0] != '\0');
    }
    free(json);
    return 0;
}
