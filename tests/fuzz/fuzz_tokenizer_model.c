/*
 * Any bytes as tokenizer.model: opening must end in an error with a text, or in a tokenizer whose
 * every token can be decoded and that encodes a text within its bound. A user's text gives no
 * special token except the one for unknown characters.
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
    char *bytes = malloc(size ? size : 1);
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    if (tokenizer_open_model(bytes, size, &tokenizer, &error) == RESULT_OK) {
        tokenizer_probe_check(tokenizer);
        tokenizer_close(tokenizer);
    } else {
        must(error.text[0] != '\0');
    }
    free(bytes);
    return 0;
}
