/*
 * The stages of an answer: tokens to text (reply_text), text to parts (reply_parser), parts to the
 * sink.
 *
 * Bytes that a token makes final are passed on at once. Bytes that are held back (half a character,
 * the start of a tag, a call or a stop string) follow with a later token or at the end.
 */
#include "frontend/api/generation/answer.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "frontend/api/generation/own_stops.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/reply/mark_tokens.h"
#include "frontend/reply/reply_parser.h"
#include "frontend/reply/reply_text.h"
#include "proto/must.h"

struct answer {
    struct reply_event_sink sink;
    struct reply_text *text;
    struct reply_parser *parser;
    struct token_list own_marks;      /* of a request with its own tags */
    cJSON *tools;                     /* a copy: the request's body is freed before the answer */
    struct text_buffer piece;         /* scratch */
    const struct tool_format *format; /* of calls; NULL: none */
    uint64_t id_bits;                 /* ids of calls are made from them */
    bool single_call;
    bool call_ended;
    struct own_stops stops;
    struct answer_usage usage;
};

/* FNV-1a. A reply's id is already random, so no secret is needed. */
static uint64_t id_bits_make(const char *id, uint32_t choice)
{
    uint64_t bits = 0xcbf29ce484222325u + choice;
    for (; *id; id++)
        bits = (bits ^ (unsigned char)*id) * 0x100000001b3u;
    return bits;
}

/* If the answer may hold one call, it ends with that call. A call without an id gets one here if
 * the template needs ids of a certain form; otherwise the writer makes one. */
static void answer_hear(void *context, const struct reply_event *event)
{
    struct answer *answer = context;
    struct reply_event named = *event;
    char id[TOOL_CALL_ID_BYTES];
    if (answer->call_ended && answer->single_call)
        return;
    answer->call_ended |= event->kind == REPLY_CALL_END;
    if (event->kind == REPLY_CALL_BEGIN && !event->id && answer->format &&
        tool_format_call_id(answer->format, answer->id_bits, event->call, id))
        named.id = id;
    answer->sink.event(answer->sink.context, &named);
}

/* Text of tokens that spell marks is kept. */
static void answer_show_marks(struct answer *answer, const struct model_assets *assets,
                              const struct reasoning_format *reasoning)
{
    const struct reply_formats *formats = &assets->formats;
    if (reasoning == formats->reasoning) {
        reply_text_show(answer->text, &formats->mark_tokens);
        return;
    }
    must(mark_tokens_find(assets->tokenizer, reasoning, formats->tools, &answer->own_marks) ==
         RESULT_OK);
    reply_text_show(answer->text, &answer->own_marks);
}

struct answer *answer_create(const struct reply_config *config, uint32_t choice,
                             const struct reply_event_sink *sink)
{
    const struct prepared_generation *prepared = config->prepared;
    const struct generation_request *request = &prepared->request;
    const struct reply_formats *formats = &config->assets->formats;
    struct answer *answer = must_alloc(1, sizeof *answer);
    answer->sink = *sink;
    answer->single_call = request->single_tool_call;
    own_stops_init(&answer->stops, request);
    answer->format = formats->tools;
    answer->id_bits = id_bits_make(config->id, choice);
    bool raw = request->prompts != NULL; /* raw text is continued; no part of it is parsed */
    bool with_calls = !raw && request->tools && request->tool_choice != TOOL_CHOICE_NONE;
    if (with_calls)
        must(answer->tools = cJSON_Duplicate(request->tools, true));
    struct reasoning_format custom;
    const struct reasoning_format *reasoning =
        raw ? NULL : generation_request_reasoning(request, formats->reasoning, &custom);
    answer->text = reply_text_create(config->assets->tokenizer);
    if (!raw)
        answer_show_marks(answer, config->assets, reasoning);
    answer->parser = reply_parser_create(&(struct reply_parser_config){
        .reasoning = reasoning,
        .reasoning_open = prepared->reasoning_open,
        .tools = with_calls ? formats->tools : NULL,
        .offered_tools = answer->tools,
        .stops = request->stops,
        .stop_count = request->stop_count,
        .include_stop = request->include_stop,
        .sink = {answer, answer_hear},
    });
    answer->usage.prompt_tokens = (uint32_t)prepared->prompt.count;
    return answer;
}

void answer_destroy(struct answer *answer)
{
    if (!answer)
        return;
    reply_text_destroy(answer->text);
    reply_parser_destroy(answer->parser);
    token_list_fini(&answer->own_marks);
    cJSON_Delete(answer->tools);
    text_buffer_fini(&answer->piece);
    free(answer);
}

static void count_tokens(struct answer *answer)
{
    struct reply_token_counts counts = reply_parser_counts(answer->parser);
    answer->usage.completion_tokens = counts.reasoning + counts.rest;
    answer->usage.reasoning_tokens = counts.reasoning;
}

bool answer_push(struct answer *answer, const struct reply_token *token)
{
    size_t earlier = 0; /* bytes that count for earlier tokens */
    if (own_stops_note(&answer->stops, token))
        earlier = reply_text_push(answer->text, token->id, &answer->piece);
    must(!answer->piece.failed);
    const char *bytes = answer->piece.bytes;
    bool stopped = reply_parser_push_rest(answer->parser, bytes, earlier);
    stopped |= reply_parser_push(answer->parser, earlier ? bytes + earlier : bytes,
                                 answer->piece.length - earlier);
    must(!reply_parser_failed(answer->parser));
    text_buffer_clear(&answer->piece);
    count_tokens(answer);
    return stopped || (answer->single_call && answer->call_ended);
}

enum answer_end answer_finish(struct answer *answer, enum finish_reason finish,
                              struct cached_prompt cached)
{
    bool truncated = finish == FINISH_LENGTH;
    answer->usage.cached = cached;
    reply_text_finish(answer->text, &answer->piece);
    must(!answer->piece.failed);
    (void)reply_parser_push_rest(answer->parser, answer->piece.bytes, answer->piece.length);
    text_buffer_clear(&answer->piece);
    reply_parser_finish(answer->parser, truncated);
    must(!reply_parser_failed(answer->parser));
    count_tokens(answer);
    if (answer_stop_string(answer))
        return ANSWER_STOP_STRING;
    if (truncated)
        return ANSWER_LENGTH;
    return reply_parser_calls(answer->parser) > 0 ? ANSWER_TOOL_CALLS : ANSWER_STOP;
}

const struct answer_usage *answer_usage(const struct answer *answer)
{
    return &answer->usage;
}

void answer_write_stop_reason(const struct answer *answer, struct text_buffer *out)
{
    own_stops_write(&answer->stops, answer_stop_string(answer), out);
}

const char *answer_stop_string(const struct answer *answer)
{
    return reply_parser_stop_string(answer->parser);
}
