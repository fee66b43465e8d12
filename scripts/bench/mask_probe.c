/*
 * Measures compilations and masks of JSON schemas, for scripts/bench/mask_bench.
 *
 *   mask_probe TOKENIZER.json END_TOKEN
 *
 * One JSON object a line on standard input: {"schema": ..., "answers": [[token, ...], ...]}, and one
 * on standard output: {"compile_us": n, "masks_us": [n, ...], "read": [tokens of each answer that the
 * grammar allows, plus one if it may end there]} or {"compile_us": n, "error": "..."}. A mask is made
 * before each token and at the end of an answer. Times are CPU times of the thread; compilation
 * includes the check of the blob and the building of its automaton in the worker.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/must.h"
#include "tests/support/grammar_texts.h"
#include "worker/sample/grammar_matcher.h"

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static char *file_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    must(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = must_alloc(*bytes + 1, 1);
    must(fread(text, 1, *bytes, file) == *bytes);
    fclose(file);
    return text;
}

static struct grammar_vocabulary *vocabulary_read(const char *path, uint32_t end_token)
{
    size_t json_bytes, used = 0, total = 0;
    char *json = file_read(path, &json_bytes);
    struct tokenizer *tokenizer = NULL;
    struct error_text error = {""};
    must(tokenizer_open_json(json, json_bytes, &tokenizer, &error) == RESULT_OK);
    free(json);
    uint32_t count = tokenizer_vocab_tokens(tokenizer);
    const char *text;
    size_t length;
    for (uint32_t t = 0; t < count; t++) {
        tokenizer_token_bytes(tokenizer, t, &text, &length);
        total += length;
    }
    uint32_t *offsets = must_alloc((size_t)count + 1, sizeof *offsets);
    uint8_t *bytes = must_alloc(total + 1, 1);
    for (uint32_t t = 0; t < count; t++) {
        offsets[t] = (uint32_t)used;
        tokenizer_token_bytes(tokenizer, t, &text, &length);
        if (tokenizer_is_special(tokenizer, t))
            continue;
        memcpy(bytes + used, text, length);
        used += length;
    }
    offsets[count] = (uint32_t)used;
    struct grammar_vocabulary *vocabulary =
        grammar_vocabulary_open(&(struct token_bytes){bytes, offsets, count}, &end_token, 1, count);
    must(vocabulary != NULL);
    tokenizer_close(tokenizer);
    free(offsets);
    free(bytes);
    return vocabulary;
}

/* Returns how much of the answer is allowed; -1: out of fuel or memory. */
static int answer_read(struct grammar_matcher *matcher, const cJSON *answer, uint32_t *words,
                       cJSON *masks)
{
    int read = 0;
    size_t allowed;
    for (const cJSON *token = answer->child;; token = token->next) {
        double begin = cpu_us();
        if (grammar_matcher_mask(matcher, words, &allowed) != GRAMMAR_OK)
            return -1;
        cJSON_AddItemToArray(masks, cJSON_CreateNumber(cpu_us() - begin));
        if (!token)
            return read + grammar_matcher_may_end(matcher);
        uint32_t id = (uint32_t)token->valuedouble;
        bool is_allowed = words[id / 32] >> id % 32 & 1;
        enum grammar_result result = grammar_matcher_follow(matcher, &id, 1);
        must(is_allowed == (result == GRAMMAR_OK));
        if (!is_allowed)
            return read;
        read++;
    }
}

static void request_measure(struct grammar_vocabulary *vocabulary, const cJSON *request,
                            cJSON *reply)
{
    const struct json_schema_options options = {.blanks = JSON_SCHEMA_BLANKS};
    struct grammar_texts texts;
    double begin = cpu_us();
    bool good =
        grammar_texts_schema(&texts, cJSON_GetObjectItemCaseSensitive(request, "schema"), &options);
    enum grammar_result result = GRAMMAR_OK;
    struct grammar_matcher *matcher =
        good ? grammar_matcher_open(vocabulary, texts.blob.bytes, texts.blob.size, &result) : NULL;
    cJSON_AddNumberToObject(reply, "compile_us", cpu_us() - begin);
    if (!matcher) {
        cJSON_AddStringToObject(reply, "error",
                                good ? "the worker refuses it" : texts.error.message);
        grammar_texts_close(&texts);
        return;
    }
    uint32_t *words = must_alloc(grammar_vocabulary_mask_words(vocabulary), sizeof *words);
    cJSON *masks = cJSON_AddArrayToObject(reply, "masks_us");
    cJSON *read = cJSON_AddArrayToObject(reply, "read");
    const cJSON *answer;
    cJSON_ArrayForEach(answer, cJSON_GetObjectItemCaseSensitive(request, "answers"))
    {
        grammar_matcher_cut(matcher, 0);
        cJSON_AddItemToArray(read, cJSON_CreateNumber(answer_read(matcher, answer, words, masks)));
    }
    free(words);
    grammar_matcher_close(matcher);
    grammar_texts_close(&texts);
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t capacity = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: mask_probe TOKENIZER.json END_TOKEN\n");
        return 2;
    }
    struct grammar_vocabulary *vocabulary =
        vocabulary_read(argv[1], (uint32_t)strtoul(argv[2], NULL, 10));
    while (getline(&line, &capacity, stdin) > 0) {
        cJSON *request = cJSON_Parse(line), *reply = cJSON_CreateObject();
        must(request != NULL);
        request_measure(vocabulary, request, reply);
        char *text = cJSON_PrintUnformatted(reply);
        puts(text);
        fflush(stdout);
        cJSON_free(text);
        cJSON_Delete(reply);
        cJSON_Delete(request);
    }
    free(line);
    grammar_vocabulary_close(vocabulary);
    return 0;
}
