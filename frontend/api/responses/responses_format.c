/*
 * Replies of the Responses API.
 *
 * responses_writer makes items and events; the record writes the response object with the request's
 * part. This file adds the outcome and the order. A response whose client leaves the stream is
 * cancelled, with its output so far. An answer is not kept if its client left before it got the id.
 */
#include "frontend/api/responses/responses_format.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/answer.h"
#include "frontend/api/generation/generation_prepare.h"
#include "frontend/api/responses/response_store.h"
#include "frontend/api/responses/responses_fields.h"
#include "frontend/api/responses/responses_refusal.h"
#include "frontend/api/responses/responses_request.h"
#include "frontend/api/responses/responses_tools.h"
#include "frontend/api/responses/responses_writer.h"
#include "proto/must.h"

struct api_reply {
    struct response_record *record; /* a reference */
    struct answer *answer;
    struct responses_writer writer;
    struct cJSON *labels; /* owned; of the writer */
    bool stream;
    bool background;
    bool running; /* a token arrived */
    bool over;    /* the record is finished */
    enum answer_end ended;
};

/* --- the record ------------------------------------------------------------------------------ */

static void event_tell(struct api_reply *reply, const char *name)
{
    responses_writer_tell(&reply->writer, name, reply->record,
                          response_record_status(reply->record));
}

static void step_add(struct response_record *record, enum response_step_kind kind)
{
    response_record_add_step(record, &(struct response_step){.kind = kind});
}

/* Adds the last step. */
static void last_step_add(struct response_record *record, enum response_status status,
                          const struct api_error *error)
{
    static const enum response_step_kind kinds[] = {[RESPONSE_COMPLETED] = STEP_COMPLETED,
                                                    [RESPONSE_INCOMPLETE] = STEP_INCOMPLETE,
                                                    [RESPONSE_FAILED] = STEP_FAILED,
                                                    [RESPONSE_CANCELLED] = STEP_CANCELLED};
    struct response_step step = {.kind = kinds[status]};
    if (error) {
        step.text = error->message;
        step.text_bytes = strlen(error->message);
        step.more = error->code;
        step.more_bytes = error->code ? strlen(error->code) : 0;
    }
    response_record_add_step(record, &step);
}

static void usage_write(const struct api_reply *reply, struct text_buffer *out)
{
    const struct answer_usage *usage = answer_usage(reply->answer);
    text_buffer_append_format(
        out,
        ",\"usage\":{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u,"
        "\"cached_images\":%u,\"cache_write_tokens\":0},\"output_tokens\":%u,\"output_tokens_"
        "details\":"
        "{\"reasoning_tokens\":%u},\"total_tokens\":%u}",
        usage->prompt_tokens, usage->cached.tokens, usage->cached.images, usage->completion_tokens,
        usage->reasoning_tokens, usage->prompt_tokens + usage->completion_tokens);
}

/* The API has few codes for failed responses; clients look for these. */
static const char *error_code(const struct api_error *error)
{
    static const char *const overflow = "context_length_exceeded";
    return error->code && strcmp(error->code, overflow) == 0 ? overflow : "server_error";
}

/* Writes the members that say how the answer ended, except its usage. */
static void ending_write(enum response_status status, const struct api_error *error,
                         struct text_buffer *fields)
{
    text_buffer_append_text(fields, ",\"error\":");
    if (error) {
        text_buffer_append_format(fields, "{\"code\":\"%s\",\"message\":", error_code(error));
        text_buffer_append_json_string(fields, error->message, strlen(error->message));
        text_buffer_append_text(fields, "}");
    } else {
        text_buffer_append_text(fields, "null");
    }
    text_buffer_append_text(fields, status == RESPONSE_INCOMPLETE
                                        ? ",\"incomplete_details\":{\"reason\":"
                                          "\"max_output_tokens\"}"
                                        : ",\"incomplete_details\":null");
}

/* Finishes the record with its outcome; `error`: what failed, or NULL. */
static void record_finish(struct api_reply *reply, enum response_status status,
                          const struct api_error *error)
{
    struct response_outcome outcome = {.status = status, .output = reply->writer.items};
    struct text_buffer *fields = &outcome.fields;
    ending_write(status, error, fields);
    if (status == RESPONSE_COMPLETED || status == RESPONSE_INCOMPLETE)
        usage_write(reply, fields);
    else
        text_buffer_append_text(fields, ",\"usage\":null");
    reply->writer.items = (struct response_items){0};
    last_step_add(reply->record, status, error);
    response_record_finish(reply->record, &outcome);
    reply->over = true;
}

void responses_format_abandon(struct response_record *record, enum response_status status,
                              const struct api_error *error)
{
    struct response_outcome outcome = {.status = status};
    bool queued = response_record_status(record) == RESPONSE_QUEUED;
    ending_write(status, error, &outcome.fields);
    text_buffer_append_text(&outcome.fields, ",\"usage\":null");
    step_add(record, queued ? STEP_QUEUED : STEP_STARTED);
    last_step_add(record, status, error);
    response_record_finish(record, &outcome);
}

/* Writes a finished record for the client. */
static void outcome_write(struct api_reply *reply, const char *event)
{
    if (reply->stream)
        event_tell(reply, event);
    else if (!reply->background)
        response_record_write(reply->record, reply->writer.out);
}

/* --- the format ------------------------------------------------------------------------------ */

static struct api_reply *create(const struct reply_config *config)
{
    const struct generation_request *request = &config->prepared->request;
    struct api_reply *reply = must_alloc(1, sizeof *reply);
    reply->record = response_record_hold(request->own.state);
    reply->stream = request->stream;
    reply->background = request->background;
    reply->answer =
        answer_create(config, 0, &(struct reply_event_sink){&reply->writer, responses_writer_take});
    if (!config->resumed)
        response_record_publish(reply->record, config->id, config->created_unix_s);
    responses_writer_init(&reply->writer, response_record_id(reply->record), reply->stream,
                          request->logprobs ? config->assets->tokenizer : NULL);
    reply->writer.record = reply->record;
    reply->writer.summarizes = responses_fields_summary(request->body) != NULL;
    reply->labels = cJSON_Duplicate(
        cJSON_GetObjectItemCaseSensitive(request->body, RESPONSES_TOOL_LABELS), true);
    reply->writer.labels = reply->labels;
    step_add(reply->record, reply->background ? STEP_QUEUED : STEP_STARTED);
    if (!reply->background)
        response_record_set_status(reply->record, RESPONSE_IN_PROGRESS);
    return reply;
}

static void destroy(struct api_reply *reply)
{
    struct text_buffer nowhere = {0};
    reply->writer.out = &nowhere;
    if (!reply->over && reply->stream) {
        responses_writer_close(&reply->writer, "incomplete");
        record_finish(reply, RESPONSE_CANCELLED, NULL);
    } else if (!reply->over) {
        response_record_withdraw(reply->record);
        record_finish(reply, RESPONSE_CANCELLED, NULL);
    }
    text_buffer_fini(&nowhere);
    response_record_release(reply->record);
    answer_destroy(reply->answer);
    responses_writer_fini(&reply->writer);
    cJSON_Delete(reply->labels);
    free(reply);
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    reply->writer.out = out;
    if (reply->stream) {
        event_tell(reply, "created");
        event_tell(reply, reply->background ? "queued" : "in_progress");
    } else if (reply->background) {
        response_record_write(reply->record, out);
    }
}

/* Background requests were queued until now. */
static void run(struct api_reply *reply)
{
    reply->running = true;
    if (!reply->background)
        return;
    response_record_set_status(reply->record, RESPONSE_IN_PROGRESS);
    step_add(reply->record, STEP_RUNNING);
    if (reply->stream)
        event_tell(reply, "in_progress");
}

static bool token(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                  struct text_buffer *out)
{
    must(choice == 0);
    reply->writer.out = out;
    if (!reply->running)
        run(reply);
    responses_writer_set_token(&reply->writer, token);
    bool stopped = answer_push(reply->answer, token);
    responses_writer_set_token(&reply->writer, NULL);
    return stopped;
}

static void choice_end(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    must(choice == 0);
    reply->writer.out = out;
    reply->ended = answer_finish(reply->answer, finish, cached);
    responses_writer_end_tokens(&reply->writer, reply->ended == ANSWER_STOP_STRING);
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    bool cut = reply->ended == ANSWER_LENGTH;
    reply->writer.out = out;
    responses_writer_end_empty(&reply->writer);
    responses_writer_close(&reply->writer, cut ? "incomplete" : "completed");
    record_finish(reply, cut ? RESPONSE_INCOMPLETE : RESPONSE_COMPLETED, NULL);
    outcome_write(reply, cut ? "incomplete" : "completed");
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    reply->writer.out = out;
    responses_writer_close(&reply->writer, "incomplete");
    record_finish(reply, RESPONSE_FAILED, error);
    if (reply->stream)
        responses_writer_tell_error(&reply->writer, error->code, error->message,
                                    strlen(error->message));
    outcome_write(reply, "failed");
}

/* The API has no event for a cancelled response: a stream ends with "incomplete", and its response
 * says "cancelled". */
static void cancel(struct api_reply *reply, struct text_buffer *out)
{
    reply->writer.out = out;
    responses_writer_close(&reply->writer, "incomplete");
    record_finish(reply, RESPONSE_CANCELLED, NULL);
    outcome_write(reply, "incomplete");
}

const struct api_format responses_format = {.id_prefix = RESPONSE_ID_PREFIX,
                                            .prompt_field = "input",
                                            .reply_refuse = responses_refusal_write,
                                            .reply_fail_early = responses_refusal_write,
                                            .parse = responses_request_parse,
                                            .keep = responses_request_keep,
                                            .reply_create = create,
                                            .reply_destroy = destroy,
                                            .reply_begin = begin,
                                            .reply_token = token,
                                            .reply_choice_end = choice_end,
                                            .reply_end = end,
                                            .reply_fail = fail,
                                            .reply_cancel = cancel};

/* --- counting -------------------------------------------------------------------------------- */

enum result responses_count_tokens(const struct parse_context *context, const char *body,
                                   size_t body_bytes, int64_t now_unix_s, struct text_buffer *reply,
                                   struct api_error *error)
{
    static const struct api_format counting = {.parse = responses_count_parse};
    struct prepared_generation prepared;
    enum result result =
        generation_prepare(&counting, context, body, body_bytes, now_unix_s, &prepared, error);
    if (result != RESULT_OK)
        return result;
    text_buffer_append_format(reply, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                              prepared.prompt.count);
    prepared_generation_fini(&prepared);
    return RESULT_OK;
}
