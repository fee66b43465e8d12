/*
 * Adapts tokenizers to tokenizer_corpus.h, which knows only functions from text to ids.
 */
#include "tests/support/golden_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/tokenizer_corpus.h"

static struct tokenizer *open_file(const char *path, const char *hint)
{
    size_t json_bytes;
    struct error_text error = {""};
    struct tokenizer *tokenizer = NULL;
    char *json = corpus_read_file(path, hint, &json_bytes);
    if (tokenizer_open_json(json, json_bytes, &tokenizer, &error) != RESULT_OK)
        fail_msg("%s: %s", path, error.text);
    free(json);
    return tokenizer;
}

struct tokenizer *golden_tokenizer_open_published(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "build/cache/tokenizers/%s/tokenizer.json", name);
    return open_file(path, "scripts/fetch_tokenizers");
}

struct tokenizer *golden_tokenizer_open_variant(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/tokenizer/variants/%s.json", name);
    return open_file(path, "git checkout");
}

static size_t encode(void *tokenizer, const char *bytes, size_t byte_count, bool is_template,
                     uint32_t **ids)
{
    struct prompt_span span = {bytes, byte_count, is_template};
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, SIZE_MAX, NULL, &list), RESULT_OK);
    *ids = list.ids;
    return list.count;
}

void golden_tokenizer_check(const char *folder, const char *name, struct tokenizer *tokenizer)
{
    corpus_check(folder, name, encode, tokenizer);
}
