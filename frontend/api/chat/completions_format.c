/*
 * Completions in OpenAI's shape: {"choices":[{"index","text","logprobs","finish_reason"}]},
 * streamed or whole.
 *
 * A choice is text and, on request, log-probabilities in a shape that only this API has: four
 * lists, with tokens that are not whole characters written as "bytes:\xe2\x82".
 */
#include "frontend/api/chat/completions_format.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/completions_request.h"
#include "frontend/api/generation/answer_timings.h"
#include "frontend/api/generation/generation_share.h"
#include "frontend/api/generation/own_stops.h"
#include "frontend/api/generation/token_ids.h"
#include "frontend/base/utf8_stream.h"
#include "frontend/reply/prompt_log.h"
#include "frontend/reply/reply_text.h"
#include "frontend/reply/stop_matcher.h"
#include "frontend/reply/token_log.h"
#include "proto/must.h"

struct completion {
    struct reply_text *decoder;
    struct stop_matcher stops;
    struct text_buffer text;       /* streaming: of the next chunk; otherwise of all */
    struct token_log *log;         /* NULL: none */
    struct prompt_log *prompt_log; /* NULL: the prompt is not scored */
    uint64_t echo_characters;      /* of the echoed prompt */
    bool echoes_log;               /* the prompt's log-probabilities are to be written */
    bool names_specials;           /* the echoed text has that of special tokens */
    struct own_stops own;
    struct text_buffer ids;        /* of tokens, not written yet */
    struct text_buffer prompt_ids; /* `,"prompt_token_ids":[…]`, if wanted, until it is written */
    uint32_t tokens;
    uint32_t cached_tokens;
    const char *finish; /* NULL: not ended */
};

struct api_reply {
    const struct tokenizer *tokenizer;
    bool stream;
    bool include_usage;
    bool continuous_usage;
    bool shows_ids;
    bool shows_prompt_log;    /* prompt_logprobs */
    uint32_t prompt_log_top;  /* its alternatives */
    uint32_t log_top;         /* alternatives of `logprobs` */
    bool empty;               /* max_tokens is 0: the one token that the worker draws is dropped */
    uint32_t prompt_tokens;   /* of all prompts */
    struct text_buffer piece; /* scratch: the text of one token */
    struct answer_timings timings;
    struct text_buffer head; /* {"id":…,"object":…,"created":…,"model":… */
    uint32_t ended;
    uint32_t choice_count;
    struct completion choices[]; /* [choice_count] */
};

/* --- echo ------------------------------------------------------------------------------------ */

static void prompt_echo(struct api_reply *reply, const struct prepared_generation *prepared,
                        uint32_t choice, const cJSON *prompt)
{
    struct text_buffer *out = &reply->choices[choice].text;
    if (cJSON_IsString(prompt))
        text_buffer_append_text(out, prompt->valuestring);
    else
        reply_text_write_all(reply->tokenizer, generation_share_prompt(prepared, choice), out);
    reply->choices[choice].names_specials = !cJSON_IsString(prompt);
    reply->choices[choice].echo_characters = utf8_characters(out->bytes, out->length);
}

/* --- create, destroy ------------------------------------------------------------------------- */

static struct api_reply *create(const struct reply_config *config)
{
    const struct prepared_generation *prepared = config->prepared;
    const struct generation_request *request = &prepared->request;
    uint32_t count = generation_share_answers(prepared);
    uint32_t each = count / (1 + prepared->more_prompt_count);
    struct api_reply *reply = must_alloc(1, sizeof *reply + count * sizeof reply->choices[0]);
    reply->tokenizer = config->assets->tokenizer;
    reply->stream = request->stream;
    reply->include_usage = request->include_usage;
    reply->continuous_usage = request->continuous_usage;
    reply->shows_ids = request->return_token_ids;
    reply->shows_prompt_log = request->prompt_logprobs;
    reply->prompt_log_top = request->prompt_logprobs_top;
    reply->log_top = request->top_logprobs;
    reply->empty = request->no_answer;
    reply->choice_count = count;
    const cJSON *prompt = request->prompts->child;
    for (uint32_t i = 0; i < count; i++) {
        struct completion *choice = &reply->choices[i];
        choice->decoder = reply_text_create(config->assets->tokenizer);
        stop_matcher_init(&choice->stops, request->stops, request->stop_count);
        choice->stops.include = request->include_stop;
        own_stops_init(&choice->own, request);
        if (request->return_token_ids)
            token_ids_write(",\"prompt_token_ids\":[", generation_share_prompt(prepared, i),
                            &choice->prompt_ids);
        if (request->logprobs)
            choice->log = token_log_create(config->assets->tokenizer);
        if (request->scores_prompt)
            choice->prompt_log = prompt_log_create(config->assets->tokenizer,
                                                   generation_share_prompt(prepared, i)->ids[0]);
        choice->echoes_log = request->echo && request->logprobs;
        if (request->echo)
            prompt_echo(reply, prepared, i, prompt);
        if (i % each == 0)
            reply->prompt_tokens += (uint32_t)generation_share_prompt(prepared, i)->count;
        if ((i + 1) % each == 0)
            prompt = prompt->next;
    }
    text_buffer_append_format(
        &reply->head,
        "{\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", config->id,
        (long long)config->created_unix_s);
    text_buffer_append_json_string(&reply->head, reply_config_model(config),
                                   strlen(reply_config_model(config)));
    text_buffer_append_format(&reply->head, ",\"system_fingerprint\":\"%s\"",
                              config->assets->fingerprint);
    return reply;
}

static void destroy(struct api_reply *reply)
{
    for (uint32_t i = 0; i < reply->choice_count; i++) {
        reply_text_destroy(reply->choices[i].decoder);
        stop_matcher_fini(&reply->choices[i].stops);
        token_log_destroy(reply->choices[i].log);
        prompt_log_destroy(reply->choices[i].prompt_log);
        text_buffer_fini(&reply->choices[i].ids);
        text_buffer_fini(&reply->choices[i].prompt_ids);
        text_buffer_fini(&reply->choices[i].text);
    }
    text_buffer_fini(&reply->head);
    text_buffer_fini(&reply->piece);
    free(reply);
}

/* --- log-probabilities ----------------------------------------------------------------------- */

/* True if the bytes are whole characters, and so their own text. */
static bool is_text(const char *bytes, size_t count)
{
    struct utf8_stream utf8 = {0};
    struct text_buffer decoded = {0};
    utf8_stream_push(&utf8, bytes, count, &decoded);
    bool same = utf8.pending_bytes == 0 && decoded.length == count &&
                (count == 0 || memcmp(decoded.bytes, bytes, count) == 0);
    text_buffer_fini(&decoded);
    return same;
}

static void name_write(const struct tokenizer *tokenizer, uint32_t token, size_t skipped,
                       size_t shown, struct text_buffer *out)
{
    const char *bytes;
    size_t count;
    tokenizer_token_bytes(tokenizer, token, &bytes, &count);
    if (shown > count - skipped)
        shown = count - skipped;
    bytes += skipped;
    if (is_text(bytes, shown)) {
        text_buffer_append_json_string(out, bytes, shown);
        return;
    }
    text_buffer_append_text(out, "\"bytes:");
    for (size_t i = 0; i < shown; i++)
        text_buffer_append_format(out, "\\\\x%02x", (unsigned)(unsigned char)bytes[i]);
    text_buffer_append_text(out, "\"");
}

/* {"<token>":<logprob>,…}: the most likely tokens, and the drawn one. */
static void top_write(const struct tokenizer *tokenizer, struct token_logprob own,
                      const struct token_logprob *alternatives, uint32_t alternative_count,
                      struct text_buffer *out)
{
    bool has_own = false;
    text_buffer_append_text(out, "{");
    for (uint32_t i = 0; i <= alternative_count; i++) {
        bool is_own = i == alternative_count;
        struct token_logprob one = is_own ? own : alternatives[i];
        if (is_own && has_own)
            break;
        has_own |= one.token == own.token;
        text_buffer_append_text(out, i > 0 ? "," : "");
        name_write(tokenizer, one.token, 0, SIZE_MAX, out);
        text_buffer_append_text(out, ":");
        token_log_write_logprob(one.logprob, out);
    }
    text_buffer_append_text(out, "}");
}

/* Writes the prompt's tokens to `out` and their members of the other lists. */
static void prompt_logprobs_write(const struct api_reply *reply, const struct completion *choice,
                                  struct text_buffer *lists, struct text_buffer *out)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < prompt_log_count(choice->prompt_log); i++) {
        struct prompt_log_entry entry = prompt_log_at(choice->prompt_log, i);
        const char *bytes;
        size_t count;
        const char *comma = i > 0 ? "," : "";
        text_buffer_append_text(out, comma);
        name_write(reply->tokenizer, entry.own.token, 0, SIZE_MAX, out);
        for (size_t list = 0; list < 3; list++)
            text_buffer_append_text(&lists[list], comma);
        if (i == 0) {
            text_buffer_append_text(&lists[0], "null");
            text_buffer_append_text(&lists[1], "null");
        } else {
            uint32_t top =
                entry.alternative_count < reply->log_top ? entry.alternative_count : reply->log_top;
            token_log_write_logprob(entry.own.logprob, &lists[0]);
            top_write(reply->tokenizer, entry.own, entry.alternatives, top, &lists[1]);
        }
        text_buffer_append_format(&lists[2], "%llu",
                                  (unsigned long long)(offset < choice->echo_characters
                                                           ? offset
                                                           : choice->echo_characters));
        if (!choice->names_specials && tokenizer_is_special(reply->tokenizer, entry.own.token))
            continue;
        tokenizer_token_bytes(reply->tokenizer, entry.own.token, &bytes, &count);
        offset += utf8_characters(bytes, count);
    }
}

static void logprobs_write(const struct api_reply *reply, struct completion *choice,
                           struct text_buffer *out)
{
    struct text_buffer lists[3] = {0}; /* token_logprobs, top_logprobs, text_offset */
    struct token_log_entry entry;
    const char *comma = "";
    if (!choice->log) {
        text_buffer_append_text(out, "null");
        return;
    }
    text_buffer_append_text(out, "{\"tokens\":[");
    if (choice->echoes_log) {
        prompt_logprobs_write(reply, choice, lists, out);
        choice->echoes_log = false;
        comma = ",";
    }
    while (token_log_take(choice->log, &entry)) {
        text_buffer_append_text(out, comma);
        if (tokenizer_is_special(reply->tokenizer, entry.own.token))
            name_write(reply->tokenizer, entry.own.token, 0, SIZE_MAX, out); /* not in the text */
        else
            name_write(reply->tokenizer, entry.own.token, entry.skipped_bytes, entry.shown_bytes,
                       out);
        for (size_t i = 0; i < 3; i++)
            text_buffer_append_text(&lists[i], comma);
        token_log_write_logprob(entry.own.logprob, &lists[0]);
        top_write(reply->tokenizer, entry.own, entry.alternatives, entry.alternative_count,
                  &lists[1]);
        text_buffer_append_format(
            &lists[2], "%llu", (unsigned long long)(choice->echo_characters + entry.text_offset));
        comma = ",";
    }
    static const char *const names[] = {"token_logprobs", "top_logprobs", "text_offset"};
    for (size_t i = 0; i < 3; i++) {
        text_buffer_append_format(out, "],\"%s\":[", names[i]);
        if (lists[i].length > 0)
            text_buffer_append(out, lists[i].bytes, lists[i].length);
        text_buffer_fini(&lists[i]);
    }
    text_buffer_append_text(out, "]}");
}

/* --- writing --------------------------------------------------------------------------------- */

static void write_usage(const struct api_reply *reply, struct text_buffer *out)
{
    uint32_t tokens = 0;
    uint32_t cached = reply->choices[0].cached_tokens;
    for (uint32_t i = 0; i < reply->choice_count; i++)
        tokens += reply->choices[i].tokens;
    text_buffer_append_format(out,
                              "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
                              "\"total_tokens\":%u,\"prompt_tokens_details\":{\"cached_tokens\":%u}"
                              "},\"timings\":",
                              reply->prompt_tokens, tokens, reply->prompt_tokens + tokens, cached);
    answer_timings_write(&reply->timings, reply->prompt_tokens, cached, out);
}

static void choice_write(const struct api_reply *reply, uint32_t index, struct text_buffer *out)
{
    struct completion *choice = (struct completion *)(uintptr_t)&reply->choices[index];
    text_buffer_append_text(out, "{\"index\":");
    text_buffer_append_whole(out, index, 1);
    text_buffer_append_text(out, ",\"text\":");
    text_buffer_append_json_string(out, choice->text.bytes ? choice->text.bytes : "",
                                   choice->text.length);
    text_buffer_append_text(out, ",\"logprobs\":");
    logprobs_write(reply, choice, out);
    if (reply->shows_ids) {
        text_buffer_append_text(out, ",\"token_ids\":[");
        text_buffer_append(out, choice->ids.bytes, choice->ids.length);
        text_buffer_append_text(out, "]");
        text_buffer_append(out, choice->prompt_ids.bytes, choice->prompt_ids.length);
    }
    if (reply->shows_prompt_log) {
        text_buffer_append_text(out, ",\"prompt_logprobs\":");
        prompt_log_write(choice->prompt_log, reply->prompt_log_top, out);
    }
    if (choice->finish) {
        text_buffer_append_format(out, ",\"finish_reason\":\"%s\"", choice->finish);
        own_stops_write(&choice->own, stop_matcher_string(&choice->stops), out);
        text_buffer_append_text(out, "}");
    } else {
        text_buffer_append_text(out, ",\"finish_reason\":null}");
    }
    text_buffer_clear(&choice->ids);
    text_buffer_clear(&choice->prompt_ids);
    text_buffer_clear(&choice->text);
}

static void chunk_write(const struct api_reply *reply, uint32_t index, struct text_buffer *out)
{
    const struct completion *choice = &reply->choices[index];
    if (!reply->stream || (choice->text.length == 0 && !choice->finish))
        return;
    text_buffer_append_text(out, "data: ");
    text_buffer_append(out, reply->head.bytes, reply->head.length);
    text_buffer_append_text(out, ",\"choices\":[");
    choice_write(reply, index, out);
    text_buffer_append_text(out, "]");
    if (reply->continuous_usage) {
        text_buffer_append_text(out, ",");
        write_usage(reply, out);
    } else if (reply->include_usage) {
        text_buffer_append_text(out, ",\"usage\":null");
    }
    text_buffer_append_text(out, "}\n\n");
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    for (uint32_t i = 0; i < reply->choice_count; i++) {
        if (!reply->choices[i].prompt_log) /* otherwise with the first token, when it is scored */
            chunk_write(reply, i, out);    /* the echoed prompt */
    }
}

/* Writes the text that was added since `before`. */
static void text_note(struct completion *choice, size_t before)
{
    must(!choice->text.failed);
    if (choice->log)
        token_log_show(choice->log, choice->text.length - before);
}

static void prompt_token(struct api_reply *reply, uint32_t index, const struct reply_token *token)
{
    if (reply->choices[index].prompt_log)
        prompt_log_push(reply->choices[index].prompt_log,
                        (struct token_logprob){token->id, token->logprob}, token->rank,
                        token->alternatives, token->alternative_count);
}

static bool token(struct api_reply *reply, uint32_t index, const struct reply_token *token,
                  struct text_buffer *out)
{
    struct completion *choice = &reply->choices[index];
    answer_timings_note(&reply->timings, token);
    if (reply->empty)
        return true;
    choice->tokens++;
    if (reply->shows_ids) {
        text_buffer_append_text(&choice->ids, choice->ids.length > 0 ? "," : "");
        text_buffer_append_whole(&choice->ids, token->id, 1);
    }
    if (!own_stops_note(&choice->own, token))
        return false;
    if (choice->log)
        token_log_push(choice->log, (struct token_logprob){token->id, token->logprob},
                       token->alternatives, token->alternative_count);
    size_t before = choice->text.length;
    text_buffer_clear(&reply->piece);
    reply_text_push(choice->decoder, token->id, &reply->piece);
    bool stopped =
        stop_matcher_push(&choice->stops, reply->piece.bytes, reply->piece.length, &choice->text);
    text_note(choice, before);
    chunk_write(reply, index, out);
    return stopped;
}

static void choice_end(struct api_reply *reply, uint32_t index, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    struct completion *choice = &reply->choices[index];
    size_t before = choice->text.length;
    text_buffer_clear(&reply->piece);
    reply_text_finish(choice->decoder, &reply->piece);
    (void)stop_matcher_push(&choice->stops, reply->piece.bytes, reply->piece.length, &choice->text);
    stop_matcher_release(&choice->stops, &choice->text);
    text_note(choice, before);
    bool cut = stop_matcher_string(&choice->stops) != NULL;
    if (choice->log)
        token_log_end(choice->log, cut);
    choice->cached_tokens = cached.tokens;
    choice->finish = reply->empty || (finish == FINISH_LENGTH && !cut) ? "length" : "stop";
    reply->ended++;
    chunk_write(reply, index, out);
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    if (reply->stream && !reply->include_usage) {
        text_buffer_append_text(out, "data: [DONE]\n\n");
        return;
    }
    if (reply->stream)
        text_buffer_append_text(out, "data: ");
    text_buffer_append(out, reply->head.bytes, reply->head.length);
    text_buffer_append_text(out, ",\"choices\":[");
    for (uint32_t i = 0; !reply->stream && i < reply->choice_count; i++) {
        text_buffer_append_text(out, i > 0 ? "," : "");
        choice_write(reply, i, out);
    }
    text_buffer_append_text(out, "],");
    write_usage(reply, out);
    text_buffer_append_text(out, reply->stream ? "}\n\ndata: [DONE]\n\n" : "}");
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    must(reply->stream);
    api_error_write_last_events(error, out);
}

static void fail_early(const struct reply_refusal *refusal, struct text_buffer *out)
{
    api_error_write_last_events(refusal->error, out);
}

const struct api_format completions_format = {.id_prefix = "cmpl-",
                                              .prompt_field = "prompt",
                                              .parse = completions_request_parse,
                                              .reply_create = create,
                                              .reply_destroy = destroy,
                                              .reply_begin = begin,
                                              .reply_prompt_token = prompt_token,
                                              .reply_token = token,
                                              .reply_choice_end = choice_end,
                                              .reply_end = end,
                                              .reply_fail = fail,
                                              .reply_fail_early = fail_early};
