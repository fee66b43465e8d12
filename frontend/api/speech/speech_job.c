/*
 * The rows of the whole audio are made at once, because the floor of their values follows from the loudest of all. Audio
 * of at most a window is followed by silence up to its end, as the publisher's extractor pads it; of longer audio
 * the last window is padded with zeros.
 */
#include "frontend/api/speech/speech_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/parse_context.h"
#include "proto/must.h"

struct speech_job *speech_job_create(const struct model_assets *assets)
{
    struct speech_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    atomic_init(&job->references, 1);
    job->assets = assets;
    return job;
}

struct speech_job *speech_job_share(struct speech_job *job)
{
    atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
    return job;
}

void speech_job_release(void *released)
{
    struct speech_job *job = released;
    if (!job || atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) > 1)
        return;
    if (job->charged_bytes > 0)
        atomic_fetch_sub(&job->assets->speech->budget.used_bytes, job->charged_bytes);
    token_list_fini(&job->prompt);
    free(job->rows);
    free(job);
}

/* --- hearing ---------------------------------------------------------------------------------- */

static enum result refuse(enum result result, const struct error_text *why, struct api_error *error)
{
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result == RESULT_CANCELLED)
        return api_error_set(error, result, 503, NULL, "the request was cancelled");
    if (result == RESULT_PEER_GONE) {
        (void)api_error_set(error, result, 503, "audio_decoder_unavailable", "file: %s", why->text);
        error->retry_after_s = 1;
        return result;
    }
    (void)api_error_set(error, result, 400, "invalid_audio", "file: %s", why->text);
    strcpy(error->param, "file");
    return result;
}

/* Takes memory of the operator's budget for images, which rows of sounds are too. */
static enum result charge(struct speech_job *job, uint64_t bytes, struct api_error *error)
{
    struct image_budget *budget = &job->assets->speech->budget;
    uint64_t before = atomic_fetch_add(&budget->used_bytes, bytes);
    if (before + bytes <= budget->most_bytes) {
        job->charged_bytes = bytes;
        return RESULT_OK;
    }
    atomic_fetch_sub(&budget->used_bytes, bytes);
    (void)api_error_set(error, RESULT_FULL, 429, "images_full",
                        "the audio of other requests fills this server's memory for it");
    error->retry_after_s = 1;
    return RESULT_FULL;
}

static enum result make_rows(struct speech_job *job, const float *samples, uint32_t count,
                             struct api_error *error)
{
    const struct speech_assets *speech = job->assets->speech;
    struct log_mel_settings settings = speech->mel;
    struct error_text why = {""};
    struct log_mel mel;
    job->heard_rows = (count + settings.hop - 1) / settings.hop;
    job->row_count = speech->window_rows;
    if (count > settings.most_samples) {
        settings.most_samples = count;
        job->row_count = job->heard_rows = count / settings.hop;
    }
    uint64_t bytes = (uint64_t)job->row_count * settings.mels * sizeof(float);
    enum result result = charge(job, bytes, error);
    if (result != RESULT_OK)
        return result;
    job->rows = malloc(bytes);
    if (!job->rows)
        return api_error_memory(error);
    result = log_mel_init(&mel, &settings, &why);
    if (result == RESULT_OK)
        result = log_mel_run(&mel, samples, count, job->rows, job->row_count, &why);
    log_mel_fini(&mel);
    return result == RESULT_OK ? RESULT_OK : refuse(result, &why, error);
}

enum result speech_job_hear(struct speech_job *job, const struct parse_context *context,
                            struct api_error *error)
{
    const struct image_reader *reader = context->reader;
    const struct image_input input = {(const uint8_t *)job->file, job->file_bytes,
                                      context->cancelled};
    const struct log_mel_settings *mel = &job->assets->speech->mel;
    struct audio_header header;
    struct error_text why = {""};
    if (context->lane && *context->lane < PREPARATION_IMAGES) {
        *context->lane = PREPARATION_IMAGES;
        return RESULT_CANCELLED;
    }
    must(reader != NULL);
    enum result result = reader->probe_audio(reader->context, &input, mel->rate, &header, &why);
    if (result != RESULT_OK)
        return refuse(result, &why, error);
    if (header.samples < mel->hop)
        return api_error_invalid(error, "file", "file: %u samples are too short", header.samples);
    float *samples = calloc(header.samples, sizeof *samples);
    if (!samples)
        return api_error_memory(error);
    result = reader->decode_audio(reader->context, &input, &header, samples, &why);
    if (result == RESULT_OK)
        result = make_rows(job, samples, header.samples, error);
    else
        result = refuse(result, &why, error);
    free(samples);
    job->file = NULL;
    job->duration_s = (double)header.samples / mel->rate;
    job->stamps |= job->heard_rows > job->assets->speech->window_rows;
    return result;
}

/* --- rounds ----------------------------------------------------------------------------------- */

enum speech_round speech_job_first_round(const struct speech_job *job)
{
    if (job->assets->speech->multilingual && job->language == SPEECH_LANGUAGES)
        return SPEECH_LANGUAGE;
    return job->form == SPEECH_VERBOSE ? SPEECH_SILENCE : SPEECH_WINDOW;
}

uint32_t speech_job_window_rows(const struct speech_job *job, uint32_t seek)
{
    uint32_t left = job->heard_rows - seek, most = job->assets->speech->window_rows;
    return left < most ? left : most;
}

double speech_job_row_seconds(const struct speech_job *job)
{
    return (double)job->assets->speech->mel.hop / job->assets->speech->mel.rate;
}

/* The window's rows as the image of the prompt's first token. */
static enum result add_rows(const struct speech_job *job, uint32_t seek,
                            struct prepared_generation *made, struct api_error *error)
{
    struct speech_assets *speech = job->assets->speech;
    size_t row_floats = speech->mel.mels;
    struct image_record record = {.sound = 1,
                                  .tiles = 1,
                                  .width = speech->mel.mels,
                                  .height = speech->window_rows + 1,
                                  .span_tokens = 1,
                                  .token_count = 1,
                                  .scale = {1.0f, 1.0f, 1.0f}};
    enum result result = image_set_create(&record, 1, &speech->budget, &made->images);
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result != RESULT_OK) {
        (void)api_error_set(error, result, 429, "images_full",
                            "the audio of other requests fills this server's memory for it");
        error->retry_after_s = 1;
        return result;
    }
    float *rows = (float *)(void *)image_set_pixels(made->images, 0);
    uint32_t left = job->row_count - seek;
    uint32_t kept = left < speech->window_rows ? left : speech->window_rows;
    memset(rows, 0, (speech->window_rows + 1) * row_floats * sizeof *rows);
    memcpy(rows, job->rows + seek * row_floats, kept * row_floats * sizeof *rows);
    uint64_t content[2];
    keyed_hash_wide(&speech->hash_key, rows, (speech->window_rows + 1) * row_floats * sizeof *rows,
                    content);
    memcpy(image_set_record(made->images, 0)->content_hash, content, sizeof content);
    return RESULT_OK;
}

static void append(struct token_list *list, uint32_t token)
{
    must(list->count < list->capacity);
    list->ids[list->count++] = token;
}

#define PROMPT_END 4u /* tokens after the client's prompt, at most */

static enum result make_prompt(const struct speech_job *job, const struct speech_turn *turn,
                               struct token_list *prompt)
{
    const struct speech_assets *speech = job->assets->speech;
    bool conditioned = turn->round != SPEECH_LANGUAGE;
    prompt->capacity = job->prompt.count + PROMPT_END;
    prompt->ids = malloc(prompt->capacity * sizeof *prompt->ids);
    if (!prompt->ids)
        return RESULT_OUT_OF_MEMORY;
    for (size_t i = 0; i < job->prompt.count && conditioned; i++)
        append(prompt, job->prompt.ids[i]);
    append(prompt, speech->start);
    if (turn->round != SPEECH_WINDOW)
        return RESULT_OK;
    if (speech->multilingual) {
        append(prompt, turn->language);
        append(prompt, job->translates ? speech->translate : speech->transcribe);
    }
    if (!job->stamps)
        append(prompt, speech->no_timestamps);
    return RESULT_OK;
}

/* The first and the last language token; other tokens between them are barred. */
static void add_languages(const struct speech_assets *speech, struct speech_rules *rules)
{
    rules->first_from = UINT32_MAX;
    for (uint32_t i = 0; i < SPEECH_LANGUAGES; i++) {
        uint32_t id = speech->languages[i];
        if (id == SPEECH_NO_TOKEN)
            continue;
        rules->first_from = id < rules->first_from ? id : rules->first_from;
        rules->first_to = id + 1 > rules->first_to ? id + 1 : rules->first_to;
    }
}

static void add_rules(const struct speech_job *job, struct generation_request *request)
{
    const struct speech_assets *speech = job->assets->speech;
    struct speech_rules *rules = &request->speech;
    uint32_t stamps = speech->no_timestamps + 1;
    rules->blank = speech->blank == SPEECH_NO_TOKEN ? 0 : 1 + speech->blank;
    request->min_tokens = speech->end_not_first ? 1 : 0;
    if (!job->stamps)
        return;
    rules->timestamps = stamps;
    rules->end = speech->end;
    rules->first_from = stamps;
    rules->first_to = stamps + speech->first_stamp + 1;
    rules->first_to = rules->first_to < LIMIT_VOCAB_TOKENS ? rules->first_to : LIMIT_VOCAB_TOKENS;
}

static enum result add_suppressed(const struct speech_assets *speech,
                                  struct generation_request *request)
{
    request->logit_bias = malloc((speech->suppressed_count + 1) * sizeof *request->logit_bias);
    if (!request->logit_bias)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < speech->suppressed_count; i++)
        request->logit_bias[i] =
            (struct logit_bias_entry){.token = speech->suppressed[i], .bias = -INFINITY};
    request->logit_bias_count = speech->suppressed_count;
    return RESULT_OK;
}

static enum result force_silence(const struct speech_assets *speech,
                                 struct prepared_generation *made)
{
    made->forced.ids = malloc(sizeof *made->forced.ids);
    if (!made->forced.ids)
        return RESULT_OUT_OF_MEMORY;
    made->forced.ids[0] = speech->silence;
    made->forced.prefix_count = 1;
    return RESULT_OK;
}

enum result speech_job_turn(const struct speech_job *job, const struct speech_turn *turn,
                            struct prepared_generation *made, struct api_error *error)
{
    const struct speech_assets *speech = job->assets->speech;
    struct generation_request *request = &made->request;
    enum result result = make_prompt(job, turn, &made->prompt);
    request->thinking_budget = THINKING_BUDGET_NONE;
    request->sampling = sampling_params_default();
    request->sampling.seed = job->seed;
    request->no_speculation = true;
    request->stream = job->streams;
    request->logprobs = job->form == SPEECH_VERBOSE;
    made->max_new_tokens = 1;
    if (turn->round == SPEECH_LANGUAGE)
        add_languages(speech, &request->speech);
    if (result == RESULT_OK && turn->round == SPEECH_SILENCE)
        result = force_silence(speech, made);
    if (result == RESULT_OK && turn->round == SPEECH_WINDOW) {
        request->sampling.temperature = job->temperature;
        made->max_new_tokens = job->assets->context_tokens - (uint32_t)made->prompt.count;
        add_rules(job, request);
        result = add_suppressed(speech, request);
    }
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    request->max_new_tokens = made->max_new_tokens;
    return add_rows(job, turn->seek, made, error);
}
