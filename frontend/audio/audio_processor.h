/*
 * An audio processor: the preparation of a sound for a checkpoint's audio tower, as in Hugging Face's
 * feature extractors and processors. It decides how many mel rows are sent and how many placeholder
 * tokens stand for them.
 *
 *   audio_decoder_probe -> audio_processor_plan   (samples counted: reject, count tokens)
 *   audio_processor_expand                        (the prompt)
 *   audio_decoder_run   -> audio_processor_run    (rows for the image_records of a sound)
 *   audio_processor_hash                          (of each piece)
 *
 * An open processor is immutable, so threads share it.
 */
#ifndef SHOAL_FRONTEND_AUDIO_AUDIO_PROCESSOR_H
#define SHOAL_FRONTEND_AUDIO_AUDIO_PROCESSOR_H

#include "frontend/audio/log_mel.h"
#include "frontend/base/text_buffer.h"
#include "proto/image_record.h"
#include "proto/json_value.h"
#include "proto/keyed_hash.h"

enum audio_family {
    AUDIO_FAMILY_NONE,         /* the checkpoint has no audio part */
    AUDIO_FAMILY_QWEN2_AUDIO,  /* one sound of at most 30 s, a token for each 40 ms */
    AUDIO_FAMILY_QWEN2_5_OMNI, /* likewise, but longer and in pieces that are encoded apart */
    AUDIO_FAMILY_GEMMA3N,      /* one sound of at most 30 s, which always has as many tokens */
    AUDIO_FAMILY_GEMMA4        /* one sound of at most 30 s, a token for each begun 40 ms */
};

struct audio_processor {
    enum audio_family family;
    struct log_mel_settings mel;
    uint32_t
        tower_rows; /* of the longest sound or piece; each stands for two mel rows, of Gemma's for four */
    uint32_t fixed_tokens; /* of every sound; 0: as many as its rows */
    /* Of models that hear videos: positions a second, and those of a piece of a video and its sound;
     * 0: they do not, or their pieces are none of sounds. */
    uint32_t time_scale;
    uint32_t piece_time;
    char begin[LIMIT_IMAGE_MARKER_BYTES]; /* around the placeholders of a video with its sound */
    char end[LIMIT_IMAGE_MARKER_BYTES];
    char marker[LIMIT_IMAGE_MARKER_BYTES]; /* the template writes it once for a sound */
    char soft[LIMIT_IMAGE_MARKER_BYTES];   /* a placeholder: a feature row replaces it */
    char before
        [LIMIT_IMAGE_MARKER_BYTES]; /* text that the processor writes around the placeholders of a sound */
    char after[LIMIT_IMAGE_MARKER_BYTES];
    struct keyed_hash_key hash_key;
};

/* The JSON of a checkpoint; all but `config` may be absent. */
struct audio_processor_files {
    struct json_value config;       /* config.json */
    struct json_value preprocessor; /* preprocessor_config.json */
    struct json_value processor; /* processor_config.json; its feature_extractor has precedence */
};

/* The settings of the feature extractor; absent if no file has any. */
struct json_value audio_processor_extractor(const struct audio_processor_files *files);

/* AUDIO_FAMILY_NONE and RESULT_OK if config.json has no audio part, or one of a family that is served
 * without audio. RESULT_INVALID or RESULT_UNSUPPORTED for a setting that is out of range or contradicts
 * config.json; the error names it. */
enum result audio_processor_open(const struct audio_processor_files *files,
                                 struct audio_processor *processor,
                                 struct error_text *error) RESULT_CHECKED;
/* audio_processor_gemma.c, for the function above: of a config.json with an audio_config. */
enum result audio_processor_open_gemma3n(const struct audio_processor_files *files,
                                         struct audio_processor *processor,
                                         struct error_text *error) RESULT_CHECKED;
enum result audio_processor_open_gemma4(const struct audio_processor_files *files,
                                        struct audio_processor *processor,
                                        struct error_text *error) RESULT_CHECKED;
/* The same from a directory with these files. */
enum result audio_processor_open_folder(int folder_fd, struct audio_processor *processor,
                                        struct error_text *error) RESULT_CHECKED;
/* As image_processor_set_key(). */
void audio_processor_set_key(struct audio_processor *processor, const struct keyed_hash_key *key);

struct audio_plan {
    uint32_t samples;
    uint32_t rows;         /* mel rows that are sent */
    uint32_t tokens;       /* placeholders, at least one */
    uint32_t pieces;       /* records of the sound */
    uint32_t piece_rows;   /* mel rows of all pieces but the last */
    uint32_t piece_tokens; /* likewise */
};

/* Mel rows and placeholders of a piece. */
uint32_t audio_plan_piece_rows(const struct audio_plan *plan, uint32_t piece);
uint32_t audio_plan_piece_tokens(const struct audio_plan *plan, uint32_t piece);

/* RESULT_TOO_LARGE for a sound longer than the model takes, RESULT_INVALID for one that is too short
 * for one token. */
enum result audio_processor_plan(const struct audio_processor *processor, uint32_t samples,
                                 struct audio_plan *plan, struct error_text *error) RESULT_CHECKED;

/* Appends the text in place of the marker. */
void audio_processor_expand(const struct audio_processor *processor, const struct audio_plan *plan,
                            struct text_buffer *text);

/* Sets the sizes of a piece's record, as far as they follow from the plan. */
void audio_processor_record(const struct audio_processor *processor, const struct audio_plan *plan,
                            uint32_t piece, struct image_record *record);

/* Writes rows[plan->rows][mels] of the samples. RESULT_OUT_OF_MEMORY. */
enum result audio_processor_run(const struct audio_processor *processor,
                                const struct audio_plan *plan, const float *samples, float *rows,
                                struct error_text *error) RESULT_CHECKED;
/* The hash of rows[count][mels], the content of a piece. */
void audio_processor_hash(const struct audio_processor *processor, const float *rows,
                          uint32_t count, uint8_t hash[IMAGE_HASH_BYTES]);

#endif
