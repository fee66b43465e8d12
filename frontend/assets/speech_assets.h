/*
 * What the frontend needs of a model that transcribes speech (whisper): the mel rows that its encoder hears
 * and the tokens with a meaning of their own.
 */
#ifndef SHOAL_FRONTEND_ASSETS_SPEECH_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_SPEECH_ASSETS_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/audio/log_mel.h"
#include "frontend/image/image_set.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/keyed_hash.h"
#include "proto/limits.h"

#define SPEECH_LANGUAGES     100u
#define SPEECH_SUPPRESS_MAX  512u
#define SPEECH_STAMPS_SECOND 50u /* a timestamp is 0.02 s */
#define SPEECH_NO_TOKEN      UINT32_MAX

struct speech_language {
    const char *code; /* "en" */
    const char *name; /* "english" */
};
extern const struct speech_language speech_languages[SPEECH_LANGUAGES];
/* By code or name, in any case; SPEECH_LANGUAGES: none. */
uint32_t speech_language_find(const char *text);

/* Immutable once open, but for the budget. */
struct speech_assets {
    struct log_mel_settings mel; /* most_samples: of a window */
    uint32_t window_rows;        /* mel rows that the encoder takes, an even number */
    struct keyed_hash_key hash_key;
    struct image_budget budget; /* of mel rows */
    uint32_t start;             /* <|startoftranscript|>, like the next ones */
    uint32_t end;               /* <|endoftext|>; text tokens are below it */
    uint32_t transcribe;        /* these two: SPEECH_NO_TOKEN in a model of English alone */
    uint32_t translate;
    uint32_t no_timestamps; /* timestamps follow it, to the vocabulary's end */
    uint32_t previous;      /* <|startofprev|>, or SPEECH_NO_TOKEN */
    uint32_t silence;       /* <|nospeech|> */
    bool multilingual;
    uint32_t languages[SPEECH_LANGUAGES]; /* their tokens, or SPEECH_NO_TOKEN */
    uint32_t suppressed[SPEECH_SUPPRESS_MAX];
    uint32_t suppressed_count;
    uint32_t blank;       /* not drawn first, or SPEECH_NO_TOKEN */
    bool end_not_first;   /* nor is the end */
    uint32_t first_stamp; /* the largest timestamp that may come first, counted from 0 */
};

/* Reads a model's directory; malloc'd. NULL and RESULT_OK: the model is no model of speech. RESULT_INVALID or
 * RESULT_UNSUPPORTED with the setting or token that is wrong. `key`: of hashes, or NULL for a random one. */
enum result speech_assets_open(const char *folder, const struct tokenizer *tokenizer,
                               const struct keyed_hash_key *key, struct speech_assets **speech,
                               struct error_text *error) RESULT_CHECKED;

#endif
