/*
 * Writes a finished transcript in the form that was asked for.
 */
#ifndef SHOAL_FRONTEND_API_SPEECH_SPEECH_WRITER_H
#define SHOAL_FRONTEND_API_SPEECH_SPEECH_WRITER_H

#include "frontend/api/speech/speech_job.h"
#include "frontend/base/text_buffer.h"

struct transcript_segment {
    double start_s;
    double end_s;
    uint32_t seek;     /* first mel row of its window */
    size_t first_byte; /* of its text in the transcript's */
    size_t end_byte;
    uint32_t first_token; /* of its tokens among the transcript's */
    uint32_t end_token;
    double logprob; /* mean of the window's tokens, the end included */
    double silence; /* probability that the window has no speech */
};

struct transcript {
    struct text_buffer text; /* valid UTF-8 */
    struct token_list tokens;
    struct transcript_segment *segments; /* [count] owned */
    uint32_t count;
    uint32_t capacity;
    uint32_t language; /* index in speech_languages; SPEECH_LANGUAGES: not known */
};
void transcript_fini(struct transcript *transcript);
/* A new zeroed segment. */
struct transcript_segment *transcript_add(struct transcript *transcript);

/* The whole body. */
void speech_writer_write(const struct speech_job *job, const struct transcript *transcript,
                         struct text_buffer *out);
/* Its content type; static. */
const char *speech_writer_type(const struct speech_job *job);
/* The text without blanks around it, as a JSON string. */
void speech_writer_write_text(const struct transcript *transcript, struct text_buffer *out);
/* `,"usage":…` */
void speech_writer_write_usage(const struct speech_job *job, struct text_buffer *out);

#endif
