/*
 * A list of readers, run in order until one fails. The part of the response object that shows the
 * request is then written, because the body is freed before the answer ends.
 */
#include "frontend/api/responses/responses_request.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_messages.h"
#include "frontend/api/generation/bias_fields.h"
#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/request_documents.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/generation/sampler_fields.h"
#include "frontend/api/responses/response_file.h"
#include "frontend/api/responses/responses_fields.h"
#include "frontend/api/responses/responses_input.h"
#include "frontend/api/responses/responses_tools.h"

/* --- the record ------------------------------------------------------------------------------ */

static enum result record_refuse(enum result result, struct api_error *error)
{
    if (result == RESULT_TOO_LARGE)
        return api_error_invalid(error, "store",
                                 "the request is larger than all that this server stores; send "
                                 "store: false");
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    (void)api_error_set(error, result, 429, "response_store_full",
                        "the store of responses is full of answers in progress; try again, or "
                        "send store: false");
    error->retry_after_s = 1;
    return result;
}

static void record_drop(void *state)
{
    response_record_release(state);
}

static enum result record_make(const struct parse_context *context, struct responses_input *input,
                               const struct responses_settings *settings,
                               const struct responses_tools_shown *shown,
                               struct generation_request *request, struct api_error *error)
{
    struct response_draft draft = {.client_key = context->client_key, .kept = settings->store};
    struct response_record *record;
    if (settings->store) {
        draft.previous = input->previous;
        draft.input = input->items;
    } else {
        responses_input_fini(input);
    }
    responses_fields_write(request->body, request, settings,
                           request_fields_model_name(request->body, context->assets), shown,
                           &draft.fields);
    enum result result = response_record_create(context->format_context, &draft, &record);
    if (result != RESULT_OK)
        return record_refuse(result, error);
    request->own = (struct format_state){.state = record, .destroy = record_drop};
    return RESULT_OK;
}

/* --- the request ----------------------------------------------------------------------------- */

static enum result settings_read(const struct parse_context *context,
                                 struct generation_request *request,
                                 struct responses_settings *settings, struct api_error *error)
{
    cJSON *body = request->body;
    const struct model_assets *assets = context->assets;
    enum result result = request_fields_check_model(body, assets, error);
    if (result == RESULT_OK)
        result = field_table_check(body, FIELDS_RESPONSES, context->fields, error);
    if (result == RESULT_OK)
        result = responses_fields_read(body, request, settings, error);
    if (result == RESULT_OK)
        result = request_fields_read_sampling(body, assets, context->random_seed,
                                              &request->sampling, error);
    if (result == RESULT_OK)
        result = sampler_fields_read(body, assets->tokenizer, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_ends(body, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_stop(body, "stop", request, error);
    if (result == RESULT_OK)
        result = request_fields_read_stop_tokens(body, assets, request, error);
    if (result == RESULT_OK)
        result = bias_fields_read(body, assets->tokenizer, request, error);
    return result;
}

/* The record of an answer that an earlier process began. */
static enum result record_resume(const struct parse_context *context,
                                 struct generation_request *request, struct api_error *error)
{
    struct response_record *record =
        response_store_find(context->format_context, &context->client_key, context->answer_id);
    if (!record)
        return api_error_set(error, RESULT_NOT_FOUND, 404, NULL, "the response was deleted");
    request->own = (struct format_state){.state = record, .destroy = record_drop};
    return RESULT_OK;
}

void responses_request_keep(const struct parse_context *context, const char *json,
                            size_t json_bytes, int64_t now_unix_s,
                            const struct generation_request *request)
{
    struct response_file job = {.status =
                                    request->background ? RESPONSE_QUEUED : RESPONSE_IN_PROGRESS,
                                .body = {.bytes = (char *)json, .length = json_bytes},
                                .model_id = {.bytes = (char *)context->assets->model_id,
                                             .length = strlen(context->assets->model_id)},
                                .random_seed = context->random_seed,
                                .asked_unix_s = now_unix_s,
                                .cache_salt = context->cache_salt};
    /* Without a stream the client of a foreground request does not know its id. */
    if (context->resumes || !context->answer_id || !(request->stream || request->background))
        return;
    snprintf(job.id, sizeof job.id, "%s", context->answer_id);
    response_record_file(request->own.state, &job);
}

static enum result body_read(const struct parse_context *context, const char *json,
                             size_t json_bytes, bool counts, struct generation_request *request,
                             struct api_error *error)
{
    struct responses_settings settings = {0};
    struct responses_input input = {.store = context->format_context,
                                    .client_key = context->client_key};
    struct responses_tools_shown shown = {0};
    *request = (struct generation_request){0};
    enum result result = request_fields_read_body(json, json_bytes, &request->body, error);
    request_documents_begin(&request->images, context);
    if (result == RESULT_OK)
        result = settings_read(context, request, &settings, error);
    if (result == RESULT_OK)
        result = responses_tools_read(request->body, request, &shown, error);
    if (result == RESULT_OK && context->resumes)
        result = record_resume(context, request, error);
    input.resumed = context->resumes ? request->own.state : NULL;
    if (result == RESULT_OK)
        result = responses_input_read(request->body, &input, &request->images, error);
    if (result == RESULT_OK && !counts && !context->resumes)
        result = record_make(context, &input, &settings, &shown, request, error);
    else if (result == RESULT_OK)
        responses_input_fini(&input);
    if (result == RESULT_OK) {
        request->messages = cJSON_GetObjectItemCaseSensitive(request->body, "messages");
        result = chat_messages_normalize_made(request->messages, error);
    }
    responses_tools_shown_fini(&shown);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}

enum result responses_request_parse(const struct parse_context *context, const char *json,
                                    size_t json_bytes, struct generation_request *request,
                                    struct api_error *error)
{
    return body_read(context, json, json_bytes, false, request, error);
}

enum result responses_count_parse(const struct parse_context *context, const char *json,
                                  size_t json_bytes, struct generation_request *request,
                                  struct api_error *error)
{
    return body_read(context, json, json_bytes, true, request, error);
}
