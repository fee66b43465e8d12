/*
 * Draws answers under the grammar of a request's tools, each token among those that its mask allows,
 * and parses them as the server does, for tests in Python.
 *
 * One JSON object a line on standard input:
 *   {"folder": "tests/model/demo", "format": "hermes", "tools": [...], "choice": "required",
 *    "name": null, "single": false, "strict": ["f"], "seed": 1, "answers": 4, "tokens": 400}
 * and one on standard output: {"error": "..."} or {"loose": "f, g", "answers": [{"ended": true,
 * "text": "...", "content": "...", "calls": [{"name": "f", "arguments": "{...}"}]}]}
 * "text" shows special tokens. Three draws in eight take a special token or one that ends, closes or
 * separates, if one is allowed, so that answers come to an end.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/grammar_prepare.h"
#include "frontend/assets/model_assets.h"
#include "frontend/base/shared_bytes.h"
#include "frontend/reply/reply_parser.h"
#include "frontend/reply/reply_text.h"
#include "proto/log.h"
#include "proto/must.h"
#include "tests/support/test_random.h"
#include "worker/sample/grammar_matcher.h"

struct heard {
    struct text_buffer content;
    cJSON *calls;
    struct text_buffer arguments; /* of the last call */
};

static void on_event(void *context, const struct reply_event *event)
{
    struct heard *heard = context;
    cJSON *call;
    switch (event->kind) {
    case REPLY_CONTENT: text_buffer_append(&heard->content, event->bytes, event->length); break;
    case REPLY_CALL_BEGIN:
        cJSON_AddItemToArray(heard->calls, call = cJSON_CreateObject());
        text_buffer_clear(&heard->arguments);
        text_buffer_append(&heard->arguments, event->bytes, event->length);
        cJSON_AddStringToObject(call, "name", heard->arguments.bytes);
        text_buffer_clear(&heard->arguments);
        break;
    case REPLY_CALL_ARGUMENTS:
        text_buffer_append(&heard->arguments, event->bytes, event->length);
        break;
    case REPLY_CALL_END:
        call = cJSON_GetArrayItem(heard->calls, cJSON_GetArraySize(heard->calls) - 1);
        cJSON_AddStringToObject(call, "arguments",
                                heard->arguments.bytes ? heard->arguments.bytes : "");
        break;
    default: break;
    }
}

static void bytes_of(const struct model_assets *assets, uint32_t token, const char **bytes,
                     size_t *length)
{
    tokenizer_token_bytes(assets->tokenizer, token, bytes, length);
    if (*length > LIMIT_TOKEN_BYTES)
        *length = 0;
}

static struct grammar_vocabulary *vocabulary_open(const struct model_assets *assets)
{
    uint32_t count = tokenizer_vocab_tokens(assets->tokenizer);
    uint32_t *offsets = must_alloc(count + 1, sizeof *offsets);
    struct text_buffer bytes = {0};
    for (uint32_t t = 0; t < count; t++) {
        const char *text;
        size_t length;
        offsets[t] = (uint32_t)bytes.length;
        bytes_of(assets, t, &text, &length);
        if (!tokenizer_is_special(assets->tokenizer, t))
            text_buffer_append(&bytes, text, length);
    }
    offsets[count] = (uint32_t)bytes.length;
    struct grammar_vocabulary *vocabulary =
        grammar_vocabulary_open(&(struct token_bytes){(const uint8_t *)bytes.bytes, offsets, count},
                                assets->stop_ids, assets->stop_id_count, count);
    must(vocabulary != NULL);
    free(offsets);
    text_buffer_fini(&bytes);
    return vocabulary;
}

enum token_kind { TOKEN_PLAIN, TOKEN_MARK, TOKEN_SPECIAL, TOKEN_KINDS };

static enum token_kind kind_of(const struct model_assets *assets, uint32_t token)
{
    const char *text;
    size_t length;
    bytes_of(assets, token, &text, &length);
    if (tokenizer_is_special(assets->tokenizer, token))
        return TOKEN_SPECIAL;
    return length > 0 && strchr("\"}])<>,\n", text[0]) ? TOKEN_MARK : TOKEN_PLAIN;
}

/* One of the allowed tokens. */
static uint32_t token_draw(const struct model_assets *assets, struct test_random *random,
                           const uint32_t *words, uint32_t count)
{
    uint32_t dice = test_random_below(random, 8);
    enum token_kind wanted = dice == 0 ? TOKEN_SPECIAL : dice < 3 ? TOKEN_MARK : TOKEN_PLAIN;
    uint32_t chosen[TOKEN_KINDS], seen[TOKEN_KINDS] = {0};
    for (uint32_t t = 0; t < count; t++) {
        if (!(words[t / 32] >> t % 32 & 1))
            continue;
        enum token_kind kind = wanted == TOKEN_PLAIN ? TOKEN_PLAIN : kind_of(assets, t);
        if (test_random_below(random, ++seen[kind]) == 0)
            chosen[kind] = t;
    }
    for (enum token_kind kind = wanted;; kind = (kind + 1) % TOKEN_KINDS) {
        if (seen[kind] > 0)
            return chosen[kind];
    }
}

static cJSON *answer_draw(const struct model_assets *assets,
                          const struct generation_request *request,
                          struct grammar_vocabulary *vocabulary, struct test_random *random,
                          unsigned tokens)
{
    enum grammar_result result;
    uint32_t count = tokenizer_vocab_tokens(assets->tokenizer);
    uint32_t *words = must_alloc(grammar_vocabulary_mask_words(vocabulary), sizeof *words);
    struct grammar_matcher *matcher =
        grammar_matcher_open(vocabulary, shared_bytes_data(request->grammar),
                             shared_bytes_length(request->grammar), &result);
    must(matcher != NULL);
    struct heard heard = {.calls = cJSON_CreateArray()};
    struct text_buffer whole = {0}, piece = {0};
    struct reply_text *text = reply_text_create(assets->tokenizer);
    reply_text_show(text, &assets->formats.mark_tokens);
    struct reply_parser *parser =
        reply_parser_create(&(struct reply_parser_config){.reasoning = assets->formats.reasoning,
                                                          .tools = assets->formats.tools,
                                                          .offered_tools = request->tools,
                                                          .sink = {&heard, on_event}});
    bool ended = false;
    for (unsigned i = 0; i < tokens && !ended; i++) {
        size_t allowed;
        if (grammar_matcher_mask(matcher, words, &allowed) != GRAMMAR_OK || allowed == 0)
            break;
        uint32_t token = token_draw(assets, random, words, count);
        must(grammar_matcher_follow(matcher, &token, 1) == GRAMMAR_OK);
        ended = grammar_matcher_has_ended(matcher);
        if (ended)
            break;
        const char *bytes;
        size_t length;
        bytes_of(assets, token, &bytes, &length);
        text_buffer_append(&whole, bytes, length);
        size_t earlier = reply_text_push(text, token, &piece);
        (void)reply_parser_push_rest(parser, piece.bytes, earlier);
        (void)reply_parser_push(parser, earlier ? piece.bytes + earlier : piece.bytes,
                                piece.length - earlier);
        text_buffer_clear(&piece);
    }
    reply_parser_finish(parser, !ended);
    cJSON *answer = cJSON_CreateObject();
    cJSON_AddBoolToObject(answer, "ended", ended);
    cJSON_AddStringToObject(answer, "text", whole.bytes ? whole.bytes : "");
    cJSON_AddStringToObject(answer, "content", heard.content.bytes ? heard.content.bytes : "");
    cJSON_AddItemToObject(answer, "calls", heard.calls);
    reply_parser_destroy(parser);
    reply_text_destroy(text);
    grammar_matcher_close(matcher);
    text_buffer_fini(&whole);
    text_buffer_fini(&piece);
    text_buffer_fini(&heard.content);
    text_buffer_fini(&heard.arguments);
    free(words);
    return answer;
}

static const cJSON *field(const cJSON *line, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(line, name);
}

static enum tool_choice choice_read(const char *name)
{
    return strcmp(name, "required") == 0 ? TOOL_CHOICE_REQUIRED
           : strcmp(name, "named") == 0  ? TOOL_CHOICE_NAMED
                                         : TOOL_CHOICE_AUTO;
}

static cJSON *line_answer(const cJSON *line)
{
    struct model_assets assets;
    struct error_text error;
    const char *format = field(line, "format")->valuestring;
    bool harmony = strcmp(format, "harmony") == 0;
    const struct model_assets_options options = {
        .path = field(line, "folder")->valuestring,
        .format_names = {.reasoning = harmony ? format : "none", .tools = format}};
    if (model_assets_open(&options, &assets, &error) != RESULT_OK) {
        cJSON *failed = cJSON_CreateObject();
        cJSON_AddStringToObject(failed, "error", error.text);
        return failed;
    }
    struct generation_request request = {.tools = (cJSON *)field(line, "tools"),
                                         .tool_choice =
                                             choice_read(field(line, "choice")->valuestring),
                                         .tool_name = cJSON_GetStringValue(field(line, "name")),
                                         .single_tool_call = cJSON_IsTrue(field(line, "single")),
                                         .strict_tools = field(line, "strict"),
                                         .thinking_budget = THINKING_BUDGET_NONE};
    const struct parse_context context = {.assets = &assets};
    struct api_error refused = {0};
    cJSON *answer = cJSON_CreateObject();
    struct test_random random = {(uint64_t)field(line, "seed")->valuedouble};
    if (grammar_prepare(&context, &request, &refused) != RESULT_OK) {
        cJSON_AddStringToObject(answer, "error", refused.message);
    } else {
        struct grammar_vocabulary *vocabulary = vocabulary_open(&assets);
        cJSON *answers = cJSON_AddArrayToObject(answer, "answers");
        for (int i = 0; i < field(line, "answers")->valueint; i++)
            cJSON_AddItemToArray(answers, answer_draw(&assets, &request, vocabulary, &random,
                                                      (unsigned)field(line, "tokens")->valueint));
        char names[1024] = "";
        if (request.loose_tools)
            snprintf(names, sizeof names, "%.*s", (int)shared_bytes_length(request.loose_tools),
                     (const char *)shared_bytes_data(request.loose_tools));
        cJSON_AddStringToObject(answer, "loose", names);
        grammar_vocabulary_close(vocabulary);
    }
    shared_bytes_release(request.grammar);
    shared_bytes_release(request.loose_tools);
    model_assets_close(&assets);
    return answer;
}

int main(void)
{
    char *text = NULL;
    size_t capacity = 0;
    log_init("probe", LOG_ERROR);
    while (getline(&text, &capacity, stdin) > 0) {
        cJSON *line = cJSON_Parse(text);
        must(line != NULL);
        cJSON *answer = line_answer(line);
        char *printed = cJSON_PrintUnformatted(answer);
        puts(printed);
        fflush(stdout);
        cJSON_free(printed);
        cJSON_Delete(answer);
        cJSON_Delete(line);
    }
    free(text);
    return 0;
}
