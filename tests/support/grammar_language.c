/*
 * A text is followed as one token a byte.
 */
#include "tests/support/grammar_language.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/sample/grammar_matcher.h"

static const char *const special_texts[] = {"<|call|>", "<think>"};

static bool special_find(const void *context, const char *text, size_t length,
                         struct special_token *special)
{
    (void)context;
    for (size_t at = 0; at < length; at++) {
        for (uint32_t i = 0; i < 2; i++) {
            size_t bytes = strlen(special_texts[i]);
            if (length - at < bytes || memcmp(text + at, special_texts[i], bytes) != 0)
                continue;
            *special = (struct special_token){at, bytes, LANGUAGE_CALL_TOKEN + i};
            return true;
        }
    }
    return false;
}

static bool id_is_special(const void *context, uint32_t id)
{
    (void)context;
    return id == LANGUAGE_CALL_TOKEN || id == LANGUAGE_THINK_TOKEN;
}

const struct special_finder language_specials = {NULL, special_find, id_is_special};

struct grammar_language {
    struct grammar_vocabulary *vocabulary;
    struct grammar_matcher *matcher;
};

struct grammar_language *grammar_language_open(struct grammar_builder *builder, symbol_id root)
{
    struct grammar_language *language = must_alloc(1, sizeof *language);
    struct grammar_blob_out blob;
    enum grammar_result result;
    uint8_t bytes[256];
    uint32_t offsets[LANGUAGE_END_TOKEN + 2];
    for (uint32_t i = 0; i < LANGUAGE_END_TOKEN + 2; i++) {
        offsets[i] = i < 256 ? i : 256;
        bytes[i % 256] = (uint8_t)i;
    }
    bool good = grammar_builder_finish(builder, root, &blob);
    grammar_builder_close(builder);
    if (!good) {
        free(language);
        return NULL;
    }
    const struct token_bytes table = {bytes, offsets, LANGUAGE_END_TOKEN + 1};
    const uint32_t end = LANGUAGE_END_TOKEN;
    for (uint32_t i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    language->vocabulary = grammar_vocabulary_open(&table, &end, 1, LANGUAGE_END_TOKEN + 1);
    must(language->vocabulary != NULL);
    language->matcher = grammar_matcher_open(language->vocabulary, blob.bytes, blob.size, &result);
    must(language->matcher != NULL);
    free(blob.bytes);
    return language;
}

void grammar_language_close(struct grammar_language *language)
{
    if (!language)
        return;
    grammar_matcher_close(language->matcher);
    grammar_vocabulary_close(language->vocabulary);
    free(language);
}

bool grammar_language_begins(struct grammar_language *language, const char *text)
{
    size_t length = strlen(text);
    grammar_matcher_cut(language->matcher, 0);
    for (size_t at = 0; at < length;) {
        struct special_token special;
        bool is_special =
            special_find(NULL, text + at, length - at, &special) && special.begin == 0;
        uint32_t token = is_special ? special.id : (unsigned char)text[at];
        if (grammar_matcher_follow(language->matcher, &token, 1) != GRAMMAR_OK)
            return false;
        at += is_special ? special.length : 1;
    }
    return true;
}

bool grammar_language_has(struct grammar_language *language, const char *text)
{
    return grammar_language_begins(language, text) && grammar_matcher_may_end(language->matcher);
}
