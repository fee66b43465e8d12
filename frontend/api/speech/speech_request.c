/*
 * Fields other than the file become a JSON object, so that names and unknown fields are checked as in other bodies.
 */
#include "frontend/api/speech/speech_request.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/speech/multipart_form.h"
#include "frontend/api/speech/speech_job.h"

#define FIELD_BYTES_MAX 65536u /* of a field that is no file */

static const char *const known_fields[] = {
    "model",       "language", "prompt", "response_format",           "timestamp_granularities",
    "temperature", "stream",   "seed",   "timestamp_granularities[]", NULL};

/* The fields of the form; the file is left out. */
static enum result fields_read(const struct multipart_form *form, cJSON *body,
                               struct api_error *error)
{
    for (unsigned i = 0; i < form->count; i++) {
        const struct multipart_part *part = &form->parts[i];
        if (strcmp(part->name, "file") == 0)
            continue;
        if (part->byte_count > FIELD_BYTES_MAX || memchr(part->bytes, '\0', part->byte_count))
            return api_error_invalid(error, part->name,
                                     "%s must be a text of at most %u bytes without NUL",
                                     part->name, FIELD_BYTES_MAX);
        char *text = strndup(part->bytes, part->byte_count);
        cJSON *before = cJSON_GetObjectItemCaseSensitive(body, part->name);
        cJSON *list = NULL;
        if (before && strncmp(part->name, "timestamp_granularities", 23) != 0) {
            free(text);
            return api_error_invalid(error, part->name, "%s is given twice", part->name);
        }
        if (text && strncmp(part->name, "timestamp_granularities", 23) == 0) {
            list = before ? before : cJSON_AddArrayToObject(body, part->name);
            cJSON_AddItemToArray(list, cJSON_CreateString(text));
        } else if (text) {
            list = cJSON_AddStringToObject(body, part->name, text);
        }
        free(text);
        if (!list)
            return api_error_memory(error);
    }
    return RESULT_OK;
}

static const char *text_of(const cJSON *body, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(body, name));
    return text && text[0] ? text : NULL;
}

static enum result read_form(const cJSON *body, struct speech_job *job, struct api_error *error)
{
    static const char *const names[] = {"json", "text", "srt", "vtt", "verbose_json"};
    const char *text = text_of(body, "response_format");
    for (uint32_t i = 0; text && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            job->form = (enum speech_form)i;
            text = NULL;
        }
    job->stamps = job->form >= SPEECH_SRT;
    return text ? api_error_invalid(error, "response_format",
                                    "response_format must be json, text, srt, vtt or verbose_json")
                : RESULT_OK;
}

static enum result read_granularities(const cJSON *body, struct api_error *error)
{
    static const char *const names[] = {"timestamp_granularities[]", "timestamp_granularities"};
    for (size_t i = 0; i < 2; i++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(body, names[i]), *item;
        cJSON_ArrayForEach(item, list)
        {
            if (strcmp(item->valuestring, "segment") != 0)
                return api_error_invalid(error, "timestamp_granularities",
                                         "timestamp_granularities: only segment is computed");
        }
    }
    return RESULT_OK;
}

static enum result read_number(const cJSON *body, const char *name, double most, double *number,
                               struct api_error *error)
{
    const char *text = text_of(body, name);
    char *end = NULL;
    double value = text ? strtod(text, &end) : *number;
    if (text && (*end || !(value >= 0 && value <= most)))
        return api_error_invalid(error, name, "%s must be a number from 0 to %.0f", name, most);
    *number = value;
    return RESULT_OK;
}

static enum result read_settings(const struct parse_context *context, const cJSON *body,
                                 struct speech_job *job, struct api_error *error)
{
    double temperature = 0, seed = -1;
    const char *stream = text_of(body, "stream"), *language = text_of(body, "language");
    enum result result = read_form(body, job, error);
    if (result == RESULT_OK)
        result = read_granularities(body, error);
    if (result == RESULT_OK)
        result = read_number(body, "temperature", 2, &temperature, error);
    if (result == RESULT_OK)
        result = read_number(body, "seed", 9007199254740991.0, &seed, error);
    if (result != RESULT_OK)
        return result;
    job->temperature = (float)temperature;
    job->seed = seed < 0 ? context->random_seed : (uint64_t)seed;
    job->streams = stream && (strcmp(stream, "true") == 0 || strcmp(stream, "True") == 0 ||
                              strcmp(stream, "1") == 0);
    if (stream && !job->streams && strcmp(stream, "false") != 0 && strcmp(stream, "False") != 0 &&
        strcmp(stream, "0") != 0)
        return api_error_invalid(error, "stream", "stream must be true or false");
    if (job->streams && job->form != SPEECH_JSON && job->form != SPEECH_TEXT)
        return api_error_invalid(error, "stream", "only json and text are streamed");
    job->language = SPEECH_LANGUAGES;
    if (!language)
        return RESULT_OK;
    job->language = speech_language_find(language);
    const struct speech_assets *speech = context->assets->speech;
    bool known = job->language < SPEECH_LANGUAGES &&
                 (speech->multilingual ? speech->languages[job->language] != SPEECH_NO_TOKEN
                                       : job->language == 0);
    return known ? RESULT_OK
                 : api_error_invalid(error, "language", "the model does not know this language");
}

/* " text" after <|startofprev|>, its end if it is longer than half of the context. */
static enum result read_prompt(const struct parse_context *context, const cJSON *body,
                               struct speech_job *job, struct api_error *error)
{
    const struct speech_assets *speech = context->assets->speech;
    const char *text = text_of(body, "prompt");
    size_t most = context->assets->context_tokens / 2 - 1;
    text = text ? text + strspn(text, " \t\r\n") : NULL;
    if (!text || !text[0])
        return RESULT_OK;
    if (speech->previous == SPEECH_NO_TOKEN)
        return api_error_invalid(error, "prompt", "this model takes no prompt");
    size_t bytes = strlen(text);
    while (strchr(" \t\r\n", text[bytes - 1]))
        bytes--;
    const struct prompt_span spans[] = {{" ", 1, false}, {text, bytes, false}};
    struct token_list *list = &job->prompt;
    enum result result = tokenizer_encode(context->assets->tokenizer, spans, 2,
                                          LIMIT_CONTEXT_TOKENS, context->cancelled, list);
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result != RESULT_OK || list->count == 0)
        return api_error_invalid(error, "prompt", "the tokenizer cannot split this prompt");
    size_t kept = list->count < most ? list->count : most;
    uint32_t *ids = malloc((kept + 1) * sizeof *ids);
    if (!ids)
        return api_error_memory(error);
    ids[0] = speech->previous;
    memcpy(ids + 1, list->ids + list->count - kept, kept * sizeof *ids);
    token_list_fini(list);
    *list = (struct token_list){.ids = ids, .count = kept + 1, .capacity = kept + 1};
    return RESULT_OK;
}

static enum result file_find(const struct multipart_form *form, struct speech_job *job,
                             struct api_error *error)
{
    const struct multipart_part *file = multipart_form_find(form, "file");
    if (!file || !file->is_file || file->byte_count == 0)
        return api_error_invalid(error, "file", "file is missing: a part of the form with a file");
    if (file->byte_count > LIMIT_REQUEST_SOURCE_BYTES)
        return api_error_set(error, RESULT_TOO_LARGE, 413, "file_too_large",
                             "file has more than %u bytes", LIMIT_REQUEST_SOURCE_BYTES);
    job->file = file->bytes;
    job->file_bytes = file->byte_count;
    return RESULT_OK;
}

static enum result body_read(const struct parse_context *context, const struct multipart_form *form,
                             struct generation_request *request, struct api_error *error)
{
    struct speech_job *job = request->own.state;
    request->body = cJSON_CreateObject();
    if (!request->body)
        return api_error_memory(error);
    enum result result = fields_read(form, request->body, error);
    if (result == RESULT_OK)
        result = request_fields_check_model(request->body, context->assets, error);
    if (result == RESULT_OK && !context->assets->speech)
        result = api_error_set(error, RESULT_UNSUPPORTED, 400, "transcription_unsupported",
                               "this model transcribes no speech");
    if (result == RESULT_OK)
        result = field_watch_check(context->fields, request->body, known_fields, error);
    if (result == RESULT_OK)
        result = read_settings(context, request->body, job, error);
    if (result == RESULT_OK && job->translates && !context->assets->speech->multilingual)
        result = api_error_invalid(error, "model", "this model translates nothing");
    if (result == RESULT_OK)
        result = file_find(form, job, error);
    if (result == RESULT_OK)
        result = read_prompt(context, request->body, job, error);
    request->stream = job->streams;
    return result;
}

static enum result parse(const struct parse_context *context, bool translates, const char *body,
                         size_t body_bytes, struct generation_request *request,
                         struct api_error *error)
{
    struct error_text why = {""};
    struct multipart_form *form = malloc(sizeof *form);
    struct speech_job *job = speech_job_create(context->assets);
    *request = (struct generation_request){.thinking_budget = THINKING_BUDGET_NONE};
    if (job) {
        request->own = (struct format_state){.state = job, .destroy = speech_job_release};
        job->translates = translates;
    }
    enum result result = form && job ? RESULT_OK : api_error_memory(error);
    if (result == RESULT_OK && multipart_form_read(body, body_bytes, form, &why) != RESULT_OK)
        result = api_error_invalid(error, "", "%s", why.text);
    if (result == RESULT_OK)
        result = body_read(context, form, request, error);
    free(form);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}

enum result speech_request_parse_transcription(const struct parse_context *context,
                                               const char *body, size_t body_bytes,
                                               struct generation_request *request,
                                               struct api_error *error)
{
    return parse(context, false, body, body_bytes, request, error);
}

enum result speech_request_parse_translation(const struct parse_context *context, const char *body,
                                             size_t body_bytes, struct generation_request *request,
                                             struct api_error *error)
{
    return parse(context, true, body, body_bytes, request, error);
}

enum result speech_request_prepare(const struct parse_context *context,
                                   struct prepared_generation *prepared, struct api_error *error)
{
    struct speech_job *job = prepared->request.own.state;
    struct prepared_generation made = {0};
    enum result result = speech_job_hear(job, context, error);
    if (result != RESULT_OK)
        return result;
    const struct speech_turn turn = {.round = speech_job_first_round(job),
                                     .language =
                                         job->language < SPEECH_LANGUAGES
                                             ? context->assets->speech->languages[job->language]
                                             : SPEECH_NO_TOKEN};
    result = speech_job_turn(job, &turn, &made, error);
    if (result != RESULT_OK) {
        prepared_generation_fini(&made);
        return result;
    }
    made.request.body = prepared->request.body;
    made.request.own = prepared->request.own;
    made.request.adapter = prepared->request.adapter;
    *prepared = made;
    return RESULT_OK;
}
