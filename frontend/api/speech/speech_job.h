/*
 * A request to transcribe or translate speech: what was asked, the mel rows of the whole audio, and the rounds
 * by which a model answers. Each round is a request to a worker (struct prepared_generation):
 *
 *   LANGUAGE  <|startoftranscript|>, one token: the language; only if none is given
 *   SILENCE   the same with <|nospeech|> forced after it, whose log-probability is wanted
 *   TEXT      [<|startofprev|> prompt] <|startoftranscript|> [language task] [<|notimestamps|>], the text of a window
 *
 * A window is as many mel rows as the encoder takes (30 s), zeros after the audio's end.
 *
 * Source: transformers, generation_whisper.py.
 */
#ifndef SHOAL_FRONTEND_API_SPEECH_SPEECH_JOB_H
#define SHOAL_FRONTEND_API_SPEECH_SPEECH_JOB_H

#include <stdatomic.h>

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/assets/model_assets.h"
#include "frontend/assets/speech_assets.h"
#include "frontend/base/api_error.h"

enum speech_form { SPEECH_JSON, SPEECH_TEXT, SPEECH_SRT, SPEECH_VTT, SPEECH_VERBOSE };
enum speech_round { SPEECH_LANGUAGE, SPEECH_SILENCE, SPEECH_WINDOW };

/* Immutable once it is prepared, but for its references. */
struct speech_job {
    atomic_uint references;
    const struct model_assets *assets;
    bool translates;
    bool streams;
    bool stamps; /* timestamps are drawn: the audio has several windows, or the form has segments */
    enum speech_form form;
    uint32_t language; /* index in speech_languages; SPEECH_LANGUAGES: to be found */
    float temperature;
    uint64_t seed;
    struct token_list prompt; /* with <|startofprev|>; or empty */
    const char *file;         /* [file_bytes] inside the body, until it is prepared */
    size_t file_bytes;
    float *rows;            /* [row_count][mels], at least a window; owned */
    uint64_t charged_bytes; /* to the budget, for rows */
    uint32_t row_count;
    uint32_t heard_rows; /* of the audio; more than 0 */
    double duration_s;
};

struct speech_job *speech_job_create(const struct model_assets *assets);
struct speech_job *speech_job_share(struct speech_job *job);
void speech_job_release(void *job);

/* Reads and decodes the file and computes its rows; on a preparation thread for images. */
struct parse_context; /* frontend/api/generation/parse_context.h */
enum result speech_job_hear(struct speech_job *job, const struct parse_context *context,
                            struct api_error *error) RESULT_CHECKED;

enum speech_round speech_job_first_round(const struct speech_job *job);
/* Mel rows of audio in the window that begins at row `seek` < heard_rows. */
uint32_t speech_job_window_rows(const struct speech_job *job, uint32_t seek);
double speech_job_row_seconds(const struct speech_job *job);

/* Makes the request of a round for the window at `seek`; `language`: the token, or SPEECH_NO_TOKEN. Its salt, and
 * `own`, are the caller's to set. */
struct speech_turn {
    enum speech_round round;
    uint32_t seek;
    uint32_t language;
};
enum result speech_job_turn(const struct speech_job *job, const struct speech_turn *turn,
                            struct prepared_generation *made,
                            struct api_error *error) RESULT_CHECKED;

#endif
