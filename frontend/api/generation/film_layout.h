/*
 * The order of a video and its sound in a prompt, as Qwen2.5-Omni's processor has it: pieces of equal time,
 * of each the temporal patches, then the piece of the sound. Both begin at one position; a patch and a piece
 * have the position of their time after it.
 *
 * Source: transformers, processing_qwen2_5_omni.py (replace_video_with_audio_token) and
 * modeling_qwen2_5_omni.py (get_rope_index).
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_FILM_LAYOUT_H
#define SHOAL_FRONTEND_API_GENERATION_FILM_LAYOUT_H

#include "frontend/audio/audio_processor.h"
#include "frontend/image/video_processor.h"

/* What it is made of; all outlive the call. */
struct film_parts {
    const struct video_processor *video;
    const struct video_plan *video_plan;
    const struct audio_processor *audio;
    const struct audio_plan *audio_plan;
};

struct film_layout {
    uint32_t count;                          /* of records: patches and pieces */
    uint32_t patches[LIMIT_REQUEST_RECORDS]; /* [video_plan->patches] their numbers in that order */
    uint32_t pieces[LIMIT_REQUEST_RECORDS];  /* [audio_plan->pieces] */
};

/* RESULT_UNSUPPORTED if the model's pieces of a sound are not those of a video, RESULT_INVALID if a temporal
 * patch is longer than a piece, RESULT_TOO_LARGE for more than LIMIT_REQUEST_RECORDS. */
enum result film_layout_make(const struct film_parts *parts, struct film_layout *layout,
                             struct error_text *error) RESULT_CHECKED;
/* Appends the text that replaces the video's marker. */
void film_layout_expand(const struct film_parts *parts, const struct film_layout *layout,
                        struct text_buffer *text);
/* Sets the records' places in time, once they are filled as those of the video and of the sound. */
void film_layout_records(const struct film_parts *parts, const struct film_layout *layout,
                         struct image_record *records);

#endif
