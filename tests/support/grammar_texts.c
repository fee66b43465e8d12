#include "tests/support/grammar_texts.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/must.h"
#include "worker/sample/grammar_matcher.h"

#define END_TOKEN 256u

static uint64_t cpu_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

struct grammar_vocabulary *grammar_texts_vocabulary(void)
{
    static uint8_t bytes[256];
    static uint32_t offsets[258];
    const uint32_t end = END_TOKEN;
    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
        offsets[i] = i;
    }
    offsets[256] = offsets[257] = 256;
    const struct token_bytes table = {.bytes = bytes, .offsets = offsets, .count = 257};
    struct grammar_vocabulary *vocabulary = grammar_vocabulary_open(&table, &end, 1, 257);
    must(vocabulary != NULL);
    return vocabulary;
}

static bool finish(struct grammar_texts *texts, struct grammar_builder *builder, bool good,
                   symbol_id root, uint64_t begin)
{
    if (good && !grammar_builder_finish(builder, root, &texts->blob)) {
        snprintf(texts->error.message, sizeof(texts->error.message), "%s",
                 grammar_builder_reason(builder));
        good = false;
    }
    grammar_builder_close(builder);
    texts->cpu_us = cpu_now_us() - begin;
    return good;
}

bool grammar_texts_schema(struct grammar_texts *texts, const cJSON *schema,
                          const struct json_schema_options *options)
{
    uint64_t begin = cpu_now_us();
    symbol_id root = GRAMMAR_NONE;
    *texts = (struct grammar_texts){0};
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
    must(builder != NULL);
    bool good = schema ? json_schema_compile(builder, schema, options, &root, &texts->error)
                       : json_schema_compile_object(builder, options, &root, &texts->error);
    return finish(texts, builder, good, root, begin);
}

bool grammar_texts_regex(struct grammar_texts *texts, const char *pattern,
                         const struct regex_options *options)
{
    uint64_t begin = cpu_now_us();
    regex_id regex = GRAMMAR_NONE;
    *texts = (struct grammar_texts){0};
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
    must(builder != NULL);
    bool good = regex_compile(builder, pattern, strlen(pattern), options, &regex, &texts->error);
    symbol_id root = good ? grammar_terminal(builder, regex) : GRAMMAR_NONE;
    return finish(texts, builder, good, root, begin);
}

void grammar_texts_close(struct grammar_texts *texts)
{
    free(texts->blob.bytes);
    texts->blob.bytes = NULL;
}

enum text_verdict grammar_texts_read(const struct grammar_texts *texts,
                                     struct grammar_vocabulary *vocabulary, const char *text,
                                     size_t *reached)
{
    enum grammar_result result = GRAMMAR_OK;
    struct grammar_matcher *matcher =
        grammar_matcher_open(vocabulary, texts->blob.bytes, texts->blob.size, &result);
    must(matcher != NULL);
    for (; *text != '\0' && result == GRAMMAR_OK; text++) {
        uint32_t token = (uint8_t)*text;
        result = grammar_matcher_follow(matcher, &token, 1);
    }
    bool end = result == GRAMMAR_OK && grammar_matcher_may_end(matcher);
    *reached = grammar_matcher_followed(matcher);
    grammar_matcher_close(matcher);
    if (result != GRAMMAR_OK && result != GRAMMAR_REFUSED)
        return TEXT_UNDECIDED;
    return end ? TEXT_ACCEPTED : TEXT_REFUSED;
}
