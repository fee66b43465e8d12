/*
 * Subtitles follow openai-whisper's writers: hours in vtt only if there are any.
 *
 * Source: openai-whisper, utils.py; OpenAI's API reference, "The transcription object".
 */
#include "frontend/api/speech/speech_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/body_coding.h"
#include "proto/must.h"

void transcript_fini(struct transcript *transcript)
{
    text_buffer_fini(&transcript->text);
    token_list_fini(&transcript->tokens);
    free(transcript->segments);
}

struct transcript_segment *transcript_add(struct transcript *transcript)
{
    if (transcript->count == transcript->capacity) {
        transcript->capacity = transcript->capacity ? 2 * transcript->capacity : 16;
        transcript->segments =
            realloc(transcript->segments, transcript->capacity * sizeof *transcript->segments);
        must(transcript->segments != NULL);
    }
    struct transcript_segment *segment = &transcript->segments[transcript->count++];
    *segment = (struct transcript_segment){0};
    return segment;
}

struct piece {
    const char *bytes;
    size_t length;
};

/* Text [first, end) without blanks around it. */
static struct piece trimmed(const struct transcript *transcript, size_t first, size_t end)
{
    const char *bytes = transcript->text.bytes;
    while (first < end && strchr(" \t\r\n", bytes[first]))
        first++;
    while (end > first && strchr(" \t\r\n", bytes[end - 1]))
        end--;
    return (struct piece){bytes ? bytes + first : "", end - first};
}

void speech_writer_write_text(const struct transcript *transcript, struct text_buffer *out)
{
    struct piece piece = trimmed(transcript, 0, transcript->text.length);
    text_buffer_append_json_string(out, piece.bytes, piece.length);
}

void speech_writer_write_usage(const struct speech_job *job, struct text_buffer *out)
{
    text_buffer_append_format(out, ",\"usage\":{\"type\":\"duration\",\"seconds\":%.0f}",
                              ceil(job->duration_s));
}

static void write_time(double seconds, bool hours, char point, struct text_buffer *out)
{
    uint64_t ms = (uint64_t)llround(seconds * 1000);
    if (hours || ms >= 3600000)
        text_buffer_append_format(out, "%02u:", (unsigned)(ms / 3600000));
    text_buffer_append_format(out, "%02u:%02u%c%03u", (unsigned)(ms / 60000 % 60),
                              (unsigned)(ms / 1000 % 60), point, (unsigned)(ms % 1000));
}

static void write_subtitles(const struct speech_job *job, const struct transcript *transcript,
                            struct text_buffer *out)
{
    bool srt = job->form == SPEECH_SRT;
    if (!srt)
        text_buffer_append_text(out, "WEBVTT\n\n");
    for (uint32_t i = 0; i < transcript->count; i++) {
        const struct transcript_segment *segment = &transcript->segments[i];
        struct piece piece = trimmed(transcript, segment->first_byte, segment->end_byte);
        if (srt)
            text_buffer_append_format(out, "%u\n", i + 1);
        write_time(segment->start_s, srt, srt ? ',' : '.', out);
        text_buffer_append_text(out, " --> ");
        write_time(segment->end_s, srt, srt ? ',' : '.', out);
        text_buffer_append_text(out, "\n");
        for (size_t at = 0; at < piece.length; at++) { /* an arrow would begin another cue */
            bool arrow = at + 3 <= piece.length && memcmp(piece.bytes + at, "-->", 3) == 0;
            text_buffer_append(out, arrow ? "->" : piece.bytes + at, arrow ? 2 : 1);
            at += arrow ? 2 : 0;
        }
        text_buffer_append_text(out, "\n\n");
    }
}

static void write_segment(const struct speech_job *job, const struct transcript *transcript,
                          uint32_t index, struct text_buffer *out)
{
    const struct transcript_segment *segment = &transcript->segments[index];
    const char *text = transcript->text.bytes + segment->first_byte;
    size_t bytes = segment->end_byte - segment->first_byte;
    size_t packed = body_coding_packed_bytes(text, bytes);
    text_buffer_append_format(
        out, "%s{\"id\":%u,\"seek\":%u,\"start\":%.3f,\"end\":%.3f,\"text\":", index > 0 ? "," : "",
        index, segment->seek, segment->start_s, segment->end_s);
    text_buffer_append_json_string(out, text, bytes);
    text_buffer_append_text(out, ",\"tokens\":[");
    for (uint32_t i = segment->first_token; i < segment->end_token; i++)
        text_buffer_append_format(out, "%s%u", i > segment->first_token ? "," : "",
                                  transcript->tokens.ids[i]);
    text_buffer_append_format(out,
                              "],\"temperature\":%.4g,\"avg_logprob\":%.9g,"
                              "\"compression_ratio\":%.6g,\"no_speech_prob\":%.9g}",
                              (double)job->temperature, segment->logprob,
                              packed > 0 ? (double)bytes / (double)packed : 0.0, segment->silence);
}

static void write_verbose(const struct speech_job *job, const struct transcript *transcript,
                          struct text_buffer *out)
{
    const char *name = transcript->language < SPEECH_LANGUAGES
                           ? speech_languages[transcript->language].name
                           : "english";
    text_buffer_append_format(
        out, "{\"task\":\"%s\",\"language\":", job->translates ? "translate" : "transcribe");
    text_buffer_append_json_string(out, name, strlen(name));
    text_buffer_append_format(out, ",\"duration\":%.3f,\"text\":", job->duration_s);
    speech_writer_write_text(transcript, out);
    text_buffer_append_text(out, ",\"segments\":[");
    for (uint32_t i = 0; i < transcript->count; i++)
        write_segment(job, transcript, i, out);
    text_buffer_append_text(out, "]");
    speech_writer_write_usage(job, out);
    text_buffer_append_text(out, "}");
}

void speech_writer_write(const struct speech_job *job, const struct transcript *transcript,
                         struct text_buffer *out)
{
    struct piece piece = trimmed(transcript, 0, transcript->text.length);
    switch (job->form) {
    case SPEECH_TEXT:
        text_buffer_append(out, piece.bytes, piece.length);
        text_buffer_append_text(out, "\n");
        return;
    case SPEECH_SRT:
    case SPEECH_VTT: write_subtitles(job, transcript, out); return;
    case SPEECH_VERBOSE: write_verbose(job, transcript, out); return;
    case SPEECH_JSON: break;
    }
    text_buffer_append_text(out, "{\"text\":");
    text_buffer_append_json_string(out, piece.bytes, piece.length);
    speech_writer_write_usage(job, out);
    text_buffer_append_text(out, "}");
}

const char *speech_writer_type(const struct speech_job *job)
{
    static const char *const types[] = {
        [SPEECH_JSON] = "application/json",
        [SPEECH_TEXT] = "text/plain; charset=utf-8",
        [SPEECH_SRT] = "application/x-subrip; charset=utf-8",
        [SPEECH_VTT] = "text/vtt; charset=utf-8",
        [SPEECH_VERBOSE] = "application/json",
    };
    return types[job->form];
}
