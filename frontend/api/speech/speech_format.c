/*
 * A reply is a sequence of rounds (speech_job.h). Tokens of a window are kept until it is over; then its segments
 * are appended to the transcript and the next window begins where they end.
 *
 * In a stream, text of audio with one window and without timestamps is sent as it comes; otherwise a segment is sent
 * when its window is over, since the last one may be dropped.
 */
#include "frontend/api/speech/speech_format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/speech/speech_request.h"
#include "frontend/api/speech/speech_segments.h"
#include "frontend/api/speech/speech_writer.h"
#include "frontend/base/utf8_stream.h"
#include "proto/must.h"

struct api_reply {
    struct speech_job *job;
    struct cache_salt salt;
    struct speech_turn turn;
    uint32_t *ids; /* [count] of the window, without the end */
    uint32_t count;
    uint32_t capacity;
    double logprobs; /* sum of the window's tokens, */
    uint32_t drawn;  /* of which so many were drawn, with the end */
    double silence;
    struct utf8_stream utf8;
    struct transcript transcript;
    size_t sent_bytes; /* of the transcript's text */
};

static struct api_reply *create(const struct reply_config *config)
{
    struct api_reply *reply = must_alloc(1, sizeof *reply);
    const struct generation_request *request = &config->prepared->request;
    reply->job = speech_job_share(request->own.state);
    reply->salt = request->cache_salt;
    reply->transcript.language = reply->job->language;
    reply->turn.round = speech_job_first_round(reply->job);
    reply->turn.language = reply->job->language < SPEECH_LANGUAGES
                               ? config->assets->speech->languages[reply->job->language]
                               : SPEECH_NO_TOKEN;
    return reply;
}

static void destroy(struct api_reply *reply)
{
    speech_job_release(reply->job);
    transcript_fini(&reply->transcript);
    free(reply->ids);
    free(reply);
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    (void)reply;
    (void)out;
}

static void append_text(struct api_reply *reply, uint32_t id)
{
    const struct model_assets *assets = reply->job->assets;
    const char *bytes;
    size_t count;
    if (id >= assets->speech->end)
        return;
    tokenizer_token_bytes(assets->tokenizer, id, &bytes, &count);
    utf8_stream_push(&reply->utf8, bytes, count, &reply->transcript.text);
}

/* Sends the text that is not sent yet. */
static void send_delta(struct api_reply *reply, struct text_buffer *out)
{
    const struct text_buffer *text = &reply->transcript.text;
    if (!reply->job->streams || text->length == reply->sent_bytes)
        return;
    text_buffer_append_text(out, "data: {\"type\":\"transcript.text.delta\",\"delta\":");
    text_buffer_append_json_string(out, text->bytes + reply->sent_bytes,
                                   text->length - reply->sent_bytes);
    text_buffer_append_text(out, "}\n\n");
    reply->sent_bytes = text->length;
}

static void keep_token(struct api_reply *reply, const struct reply_token *token)
{
    reply->logprobs += (double)token->logprob;
    reply->drawn++;
    if (token->is_stop)
        return;
    if (reply->count == reply->capacity) {
        reply->capacity = reply->capacity ? 2 * reply->capacity : 64;
        reply->ids = realloc(reply->ids, reply->capacity * sizeof *reply->ids);
        must(reply->ids != NULL);
    }
    reply->ids[reply->count++] = token->id;
}

static bool on_token(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                     struct text_buffer *out)
{
    (void)choice;
    const struct speech_assets *speech = reply->job->assets->speech;
    switch (reply->turn.round) {
    case SPEECH_LANGUAGE:
        reply->turn.language = token->id;
        for (uint32_t i = 0; i < SPEECH_LANGUAGES; i++)
            if (speech->languages[i] == token->id)
                reply->transcript.language = i;
        break;
    case SPEECH_SILENCE: reply->silence = exp((double)token->logprob); break;
    case SPEECH_WINDOW:
        keep_token(reply, token);
        if (!reply->job->stamps && !token->is_stop) {
            append_text(reply, token->id);
            send_delta(reply, out);
        }
        break;
    }
    return false;
}

/* --- the end of a window ---------------------------------------------------------------------- */

static void append_tokens(struct api_reply *reply, const struct speech_segment *segment)
{
    struct token_list *tokens = &reply->transcript.tokens;
    size_t needed = tokens->count + (segment->end - segment->first);
    if (needed > tokens->capacity) {
        tokens->capacity = 2 * needed;
        tokens->ids = realloc(tokens->ids, tokens->capacity * sizeof *tokens->ids);
        must(tokens->ids != NULL);
    }
    for (uint32_t i = segment->first; i < segment->end; i++)
        tokens->ids[tokens->count++] = reply->ids[i];
}

static void append_segment(struct api_reply *reply, const struct speech_segment *found)
{
    double row_s = speech_job_row_seconds(reply->job);
    double begin_s = reply->turn.seek * row_s, stamp_s = 1.0 / SPEECH_STAMPS_SECOND;
    struct transcript *transcript = &reply->transcript;
    size_t first_byte = transcript->text.length, first_token = transcript->tokens.count;
    for (uint32_t i = found->first; i < found->end && reply->job->stamps; i++)
        append_text(reply, reply->ids[i]);
    utf8_stream_finish(&reply->utf8, &transcript->text);
    append_tokens(reply, found);
    *transcript_add(transcript) =
        (struct transcript_segment){.start_s = begin_s + found->start_stamp * stamp_s,
                                    .end_s = begin_s + found->end_stamp * stamp_s,
                                    .seek = reply->turn.seek,
                                    .first_byte = first_byte,
                                    .end_byte = transcript->text.length,
                                    .first_token = (uint32_t)first_token,
                                    .end_token = (uint32_t)transcript->tokens.count,
                                    .logprob = reply->logprobs / (reply->drawn ? reply->drawn : 1),
                                    .silence = reply->silence};
}

/* Returns the mel rows to the next window. */
static uint32_t end_window(struct api_reply *reply)
{
    const struct speech_window_tokens window = {
        .ids = reply->ids,
        .count = reply->count,
        .first_stamp = reply->job->assets->speech->no_timestamps + 1,
        .rows = speech_job_window_rows(reply->job, reply->turn.seek)};
    uint32_t advance, count;
    struct speech_segment *found = must_alloc(reply->count + 1, sizeof *found);
    if (reply->job->stamps) {
        count = speech_segments_find(&window, found, &advance);
    } else {
        found[0] = (struct speech_segment){0, reply->count, 0, window.rows / 2};
        count = 1;
        advance = window.rows;
    }
    for (uint32_t i = 0; i < count; i++)
        append_segment(reply, &found[i]);
    free(found);
    reply->count = reply->drawn = 0;
    reply->logprobs = 0;
    return advance;
}

static bool next(struct api_reply *reply, struct prepared_generation *made, struct text_buffer *out,
                 enum result *result, struct api_error *error)
{
    bool silence = reply->job->form == SPEECH_VERBOSE;
    *result = RESULT_OK;
    switch (reply->turn.round) {
    case SPEECH_LANGUAGE: reply->turn.round = silence ? SPEECH_SILENCE : SPEECH_WINDOW; break;
    case SPEECH_SILENCE: reply->turn.round = SPEECH_WINDOW; break;
    case SPEECH_WINDOW:
        reply->turn.seek += end_window(reply);
        send_delta(reply, out);
        reply->turn.round = silence ? SPEECH_SILENCE : SPEECH_WINDOW;
        if (reply->turn.seek >= reply->job->heard_rows)
            return false;
        break;
    }
    *result = speech_job_turn(reply->job, &reply->turn, made, error);
    made->request.cache_salt = reply->salt;
    if (*result != RESULT_OK)
        prepared_generation_fini(made);
    return true;
}

static void choice_end(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    (void)reply;
    (void)choice;
    (void)finish;
    (void)cached;
    (void)out;
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    if (!reply->job->streams) {
        speech_writer_write(reply->job, &reply->transcript, out);
        return;
    }
    text_buffer_append_text(out, "data: {\"type\":\"transcript.text.done\",\"text\":");
    speech_writer_write_text(&reply->transcript, out);
    speech_writer_write_usage(reply->job, out);
    text_buffer_append_text(out, "}\n\n");
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    (void)reply;
    api_error_write_event(error, out);
}

static const char *type(const struct api_reply *reply)
{
    return speech_writer_type(reply->job);
}

#define FORMAT(name, parser)                                                                       \
    const struct api_format name = {.id_prefix = "transcript-",                                    \
                                    .prompt_field = "prompt",                                      \
                                    .parse = parser,                                               \
                                    .prepare = speech_request_prepare,                             \
                                    .reply_create = create,                                        \
                                    .reply_destroy = destroy,                                      \
                                    .reply_begin = begin,                                          \
                                    .reply_token = on_token,                                       \
                                    .reply_next = next,                                            \
                                    .reply_choice_end = choice_end,                                \
                                    .reply_end = end,                                              \
                                    .reply_fail = fail,                                            \
                                    .reply_type = type}

FORMAT(transcription_format, speech_request_parse_transcription);
FORMAT(translation_format, speech_request_parse_translation);
