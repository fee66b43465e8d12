/*
 * A line has what came since the last one: text, thinking, and calls that are complete, whose
 * arguments are an object here and not a text. The last line has the counts and durations, in
 * nanoseconds. A whole answer is one such line with everything.
 *
 * During silence a stream gets a space, which JSON allows before a value.
 */
#include "frontend/api/ollama/ollama_format.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/api/generation/answer.h"
#include "frontend/api/generation/answer_timings.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/api/ollama/ollama_error.h"
#include "frontend/api/ollama/ollama_request.h"
#include "frontend/base/json_text.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/reply/token_log.h"
#include "proto/must.h"

struct api_reply {
    struct ollama_state state;
    bool stream;
    int64_t began_us;
    struct answer *answer;
    enum answer_end ended;
    struct answer_timings timings;
    struct token_log *log;    /* NULL: no log-probabilities */
    struct text_buffer model; /* JSON */
    /* Not yet sent. */
    struct text_buffer content;
    struct text_buffer thinking;
    struct text_buffer calls; /* objects separated by commas */
    uint32_t call_count;
    struct text_buffer name; /* of the current call */
    struct text_buffer arguments;
    bool call_open;
};

/* --- parts of the answer --------------------------------------------------------------------- */

/* A call whose arguments were cut off is shown as text, so that they are not lost. */
static void call_end(struct api_reply *reply)
{
    struct text_buffer *arguments = &reply->arguments;
    struct json_problem problem;
    if (!reply->call_open)
        return;
    reply->call_open = false;
    const char *bytes = arguments->length > 0 ? arguments->bytes : "{}";
    size_t length = arguments->length > 0 ? arguments->length : 2;
    if (json_text_check(bytes, length, LIMIT_BODY_DEPTH, &problem)) {
        text_buffer_append_text(&reply->calls, reply->calls.length > 0 ? "," : "");
        text_buffer_append_format(&reply->calls,
                                  "{\"function\":{\"index\":%u,\"name\":", reply->call_count++);
        text_buffer_append_json_string(&reply->calls, reply->name.bytes, reply->name.length);
        text_buffer_append_text(&reply->calls, ",\"arguments\":");
        text_buffer_append(&reply->calls, bytes, length);
        text_buffer_append_text(&reply->calls, "}}");
    } else {
        text_buffer_append(&reply->content, reply->name.bytes, reply->name.length);
        text_buffer_append(&reply->content, bytes, length);
    }
    text_buffer_clear(&reply->name);
    text_buffer_clear(arguments);
}

static void on_event(void *context, const struct reply_event *event)
{
    struct api_reply *reply = context;
    if (reply->log && event->kind == REPLY_CONTENT)
        token_log_show(reply->log, event->length);
    else if (reply->log)
        token_log_set_mixed(reply->log);
    switch (event->kind) {
    case REPLY_CONTENT: text_buffer_append(&reply->content, event->bytes, event->length); break;
    case REPLY_REASONING: text_buffer_append(&reply->thinking, event->bytes, event->length); break;
    case REPLY_CALL_BEGIN:
        call_end(reply);
        reply->call_open = true;
        text_buffer_append(&reply->name, event->bytes, event->length);
        break;
    case REPLY_CALL_ARGUMENTS:
        text_buffer_append(&reply->arguments, event->bytes, event->length);
        break;
    case REPLY_CALL_END: call_end(reply); break;
    }
}

/* --- create, destroy ------------------------------------------------------------------------- */

static struct api_reply *create(const struct reply_config *config)
{
    const struct generation_request *request = &config->prepared->request;
    const char *model = reply_config_model(config);
    struct api_reply *reply = must_alloc(1, sizeof *reply);
    reply->state = *(const struct ollama_state *)request->own.state;
    reply->stream = request->stream;
    reply->began_us = monotonic_clock_us();
    text_buffer_append_json_string(&reply->model, model, strlen(model));
    reply->answer = answer_create(config, 0, &(struct reply_event_sink){reply, on_event});
    if (request->logprobs)
        reply->log = token_log_create(config->assets->tokenizer);
    return reply;
}

static void destroy(struct api_reply *reply)
{
    struct text_buffer *const buffers[] = {&reply->model, &reply->content, &reply->thinking,
                                           &reply->calls, &reply->name,    &reply->arguments};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        text_buffer_fini(buffers[i]);
    answer_destroy(reply->answer);
    token_log_destroy(reply->log);
    free(reply);
}

/* --- writing --------------------------------------------------------------------------------- */

/* ,"<name>":"<text>" */
static void text_write(const char *name, struct text_buffer *text, struct text_buffer *out)
{
    out->failed |= text->failed;
    text_buffer_append_format(out, ",\"%s\":", name);
    text_buffer_append_json_string(out, text->bytes ? text->bytes : "", text->length);
    text_buffer_clear(text);
}

static void calls_write(struct api_reply *reply, struct text_buffer *out)
{
    if (reply->calls.length == 0)
        return;
    out->failed |= reply->calls.failed;
    text_buffer_append_text(out, ",\"tool_calls\":[");
    text_buffer_append(out, reply->calls.bytes, reply->calls.length);
    text_buffer_append_text(out, "]");
    text_buffer_clear(&reply->calls);
}

/* {"model":…,"created_at":…, and the part of the answer that is not yet sent */
static void line_open(struct api_reply *reply, struct text_buffer *out)
{
    struct timespec now;
    struct tm utc;
    char date[40] = "1970-01-01T00:00:00";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    text_buffer_append_text(out, "{\"model\":");
    text_buffer_append(out, reply->model.bytes, reply->model.length);
    text_buffer_append_format(out, ",\"created_at\":\"%s.%06ldZ\"", date, now.tv_nsec / 1000);
    if (!reply->state.generates)
        text_buffer_append_text(out, ",\"message\":{\"role\":\"assistant\"");
    text_write(reply->state.generates ? "response" : "content", &reply->content, out);
    if (reply->thinking.length > 0)
        text_write("thinking", &reply->thinking, out);
    calls_write(reply, out);
    text_buffer_append_text(out, reply->state.generates ? "" : "}");
    if (!reply->log)
        return;
    text_buffer_append_text(out, ",\"logprobs\":[");
    (void)token_log_write(reply->log, out);
    text_buffer_append_text(out, "]");
}

static void counts_write(const struct api_reply *reply, struct text_buffer *out)
{
    const struct answer_usage *usage = answer_usage(reply->answer);
    const struct answer_timings *timings = &reply->timings;
    text_buffer_append_format(
        out,
        ",\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%u,"
        "\"prompt_eval_duration\":%lld,\"eval_count\":%u,\"eval_duration\":%lld",
        (long long)(monotonic_clock_us() - reply->began_us) * 1000, usage->prompt_tokens,
        (long long)(timings->first_us - timings->scheduled_us) * 1000, timings->tokens,
        (long long)(timings->last_us - timings->first_us) * 1000);
}

static void last_line_write(struct api_reply *reply, struct text_buffer *out)
{
    const char *reason = reply->ended == ANSWER_LENGTH ? "length" : "stop";
    if (reply->state.only_load) {
        text_buffer_clear(&reply->content);
        reason = "load";
    }
    line_open(reply, out);
    text_buffer_append_format(out, ",\"done\":true,\"done_reason\":\"%s\"", reason);
    if (!reply->state.only_load)
        counts_write(reply, out);
    text_buffer_append_text(out, "}\n");
}

/* --- the format ------------------------------------------------------------------------------ */

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    (void)reply;
    (void)out;
}

static bool token(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                  struct text_buffer *out)
{
    must(choice == 0);
    answer_timings_note(&reply->timings, token);
    if (reply->log && !token->is_stop)
        token_log_push(reply->log, (struct token_logprob){token->id, token->logprob},
                       token->alternatives, token->alternative_count);
    bool stopped = answer_push(reply->answer, token);
    bool any = reply->content.length + reply->thinking.length + reply->calls.length > 0;
    if (reply->stream && any && !reply->state.only_load) {
        line_open(reply, out);
        text_buffer_append_text(out, ",\"done\":false}\n");
    }
    return stopped;
}

static void choice_end(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    must(choice == 0);
    (void)out;
    reply->ended = answer_finish(reply->answer, finish, cached);
    call_end(reply);
    if (reply->log)
        token_log_end(reply->log, reply->ended == ANSWER_STOP_STRING);
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    must(reply->stream);
    (void)ollama_error_write(error, NULL, out);
    text_buffer_append_text(out, "\n");
}

const struct api_format ollama_chat_format = {.id_prefix = "ollama-",
                                              .stream_type = "application/x-ndjson",
                                              .silence = " ",
                                              .parse = ollama_request_parse_chat,
                                              .reply_create = create,
                                              .reply_destroy = destroy,
                                              .reply_begin = begin,
                                              .reply_token = token,
                                              .reply_choice_end = choice_end,
                                              .reply_end = last_line_write,
                                              .reply_fail = fail};

const struct api_format ollama_generate_format = {.id_prefix = "ollama-",
                                                  .prompt_field = "prompt",
                                                  .stream_type = "application/x-ndjson",
                                                  .silence = " ",
                                                  .parse = ollama_request_parse_generate,
                                                  .reply_create = create,
                                                  .reply_destroy = destroy,
                                                  .reply_begin = begin,
                                                  .reply_token = token,
                                                  .reply_choice_end = choice_end,
                                                  .reply_end = last_line_write,
                                                  .reply_fail = fail};
