/*
 * Any bytes as a GGUF file with a tokenizer: where both readers accept it, a text must encode
 * within its bound, without a special token (but the one for unknown characters) from a user's
 * text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/prompt/tokenizer/tokenizer_state.h"
#include "proto/gguf_file.h"
#include "proto/must.h"

enum { MOST = 200 };

static const char probe[] =
    "Hello  world, it's\n\n<s>12</s> \xC3\xA9\xFF abc abcab  aaaa\xE2\x96\x81";

static void check(const struct tokenizer *tokenizer)
{
    struct prompt_span span = {probe, sizeof probe - 1, false};
    struct token_list list = {0};
    enum result result = tokenizer_encode(tokenizer, &span, 1, MOST, NULL, &list);
    must(result == RESULT_OK || result == RESULT_TOO_LARGE || result == RESULT_OUT_OF_MEMORY);
    must(list.count <= MOST);
    for (size_t i = 0; i < list.count; i++) {
        const char *bytes;
        size_t byte_count;
        must(list.ids[i] < tokenizer_vocab_tokens(tokenizer));
        must(!tokenizer_is_special(tokenizer, list.ids[i]) ||
             (int32_t)list.ids[i] == tokenizer->model.unknown_id);
        tokenizer_token_bytes(tokenizer, list.ids[i], &bytes, &byte_count);
        must(byte_count <= LIMIT_TOKEN_BYTES);
    }
    token_list_fini(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf_file *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    struct error_text error = {""};
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    if (gguf_file_open(bytes, size, &gguf, NULL) == RESULT_OK) {
        if (tokenizer_open_gguf(gguf, &tokenizer, &error) == RESULT_OK) {
            check(tokenizer);
            tokenizer_close(tokenizer);
        } else {
            must(error.text[0] != '\0');
        }
        gguf_file_close(gguf);
    }
    free(bytes);
    return 0;
}
