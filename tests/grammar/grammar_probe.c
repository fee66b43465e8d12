/*
 * Compiles schemas and regular expressions and says which texts their grammars accept, for tests and
 * benchmarks in Python.
 *
 * One JSON object a line on standard input:
 *   {"schema": ..., "strict": false, "closed": false, "blanks": 8, "texts": ["..."]}
 *   {"object": true, "texts": ["..."]}
 *   {"regex": "...", "search": false, "texts": ["..."]}
 * and one on standard output: {"accepted": [true, ...], "reached": [n, ...], "cpu_us": n, "bytes": n}
 * or {"pointer": "...", "keyword": "...", "error": "...", "cpu_us": n}. "reached" counts the bytes of
 * each text that the grammar allows; an accepted entry is null if the matcher ran out of fuel or memory.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/must.h"
#include "tests/support/grammar_texts.h"
#include "worker/sample/grammar_vocabulary.h"

static bool flag(const cJSON *request, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(request, name));
}

static bool request_compile(struct grammar_texts *texts, const cJSON *request)
{
    const cJSON *regex = cJSON_GetObjectItemCaseSensitive(request, "regex");
    const cJSON *blanks = cJSON_GetObjectItemCaseSensitive(request, "blanks");
    const struct json_schema_options options = {
        .strict = flag(request, "strict"),
        .closed_objects = flag(request, "closed"),
        .blanks = cJSON_IsNumber(blanks) ? (uint32_t)blanks->valueint : JSON_SCHEMA_BLANKS,
    };
    if (regex) {
        const struct regex_options how = {.search = flag(request, "search")};
        return grammar_texts_regex(texts, regex->valuestring, &how);
    }
    return grammar_texts_schema(texts, cJSON_GetObjectItemCaseSensitive(request, "schema"),
                                &options);
}

static cJSON *request_answer(struct grammar_vocabulary *vocabulary, const cJSON *request)
{
    cJSON *answer = cJSON_CreateObject();
    struct grammar_texts texts;
    bool good = request_compile(&texts, request);
    cJSON_AddNumberToObject(answer, "cpu_us", (double)texts.cpu_us);
    if (!good) {
        cJSON_AddStringToObject(answer, "pointer", texts.error.pointer);
        cJSON_AddStringToObject(answer, "keyword", texts.error.keyword);
        cJSON_AddStringToObject(answer, "error", texts.error.message);
        return answer;
    }
    cJSON_AddNumberToObject(answer, "bytes", (double)texts.blob.size);
    cJSON *accepted = cJSON_AddArrayToObject(answer, "accepted");
    cJSON *reached = cJSON_AddArrayToObject(answer, "reached");
    const cJSON *text;
    cJSON_ArrayForEach(text, cJSON_GetObjectItemCaseSensitive(request, "texts"))
    {
        size_t bytes;
        enum text_verdict verdict =
            grammar_texts_read(&texts, vocabulary, text->valuestring, &bytes);
        cJSON_AddItemToArray(accepted, verdict == TEXT_UNDECIDED
                                           ? cJSON_CreateNull()
                                           : cJSON_CreateBool(verdict == TEXT_ACCEPTED));
        cJSON_AddItemToArray(reached, cJSON_CreateNumber((double)bytes));
    }
    grammar_texts_close(&texts);
    return answer;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    struct grammar_vocabulary *vocabulary = grammar_texts_vocabulary();
    while (getline(&line, &capacity, stdin) > 0) {
        cJSON *request = cJSON_Parse(line);
        must(request != NULL);
        cJSON *answer = request_answer(vocabulary, request);
        char *text = cJSON_PrintUnformatted(answer);
        puts(text);
        fflush(stdout);
        cJSON_free(text);
        cJSON_Delete(answer);
        cJSON_Delete(request);
    }
    free(line);
    grammar_vocabulary_close(vocabulary);
    return 0;
}
