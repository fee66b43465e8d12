/*
 * One text with all kinds of input that are difficult for tokenizers.
 */
#include "tests/support/tokenizer_probe.h"

#include <stdint.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/prompt/tokenizer/tokenizer_state.h"
#include "proto/must.h"

enum { MOST = 200 };

static const char probe[] = "Hello  world, it's\n\n<s>1234</s> \xC3\xA9"
                            "e\xCC\x81\xFF\xE2\x96\x81"
                            "abcab abc xyz aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

static void encode_probe(const struct tokenizer *tokenizer, bool trusted)
{
    struct prompt_span spans[] = {{probe, 20, trusted}, {probe + 20, sizeof probe - 21, trusted}};
    struct token_list list = {0};
    enum result result = tokenizer_encode(tokenizer, spans, 2, MOST, NULL, &list);
    must(list.count <= MOST);
    must(result == RESULT_OK || result == RESULT_TOO_LARGE || result == RESULT_UNSUPPORTED ||
         result == RESULT_OUT_OF_MEMORY);
    for (size_t i = 0; i < list.count; i++) {
        const char *bytes;
        size_t byte_count;
        must(list.ids[i] < tokenizer_vocab_tokens(tokenizer));
        must(trusted || !tokenizer_is_special(tokenizer, list.ids[i]) ||
             (int32_t)list.ids[i] == tokenizer->model.unknown_id);
        tokenizer_token_bytes(tokenizer, list.ids[i], &bytes, &byte_count);
        must(byte_count <= LIMIT_TOKEN_BYTES);
    }
    token_list_fini(&list);
}

void tokenizer_probe_check(const struct tokenizer *tokenizer)
{
    uint32_t ends[LIMIT_STOP_TOKENS];
    must(tokenizer_end_tokens(tokenizer, ends) <= LIMIT_STOP_TOKENS);
    encode_probe(tokenizer, false);
    encode_probe(tokenizer, true);
}
