/*
 * From the tokens of a window to segments of text with times, and to where the next window begins, as in
 * transformers' WhisperGenerationMixin._retrieve_segment. Pure.
 */
#ifndef SHOAL_FRONTEND_API_SPEECH_SPEECH_SEGMENTS_H
#define SHOAL_FRONTEND_API_SPEECH_SPEECH_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

struct speech_segment {
    uint32_t first; /* tokens [first, end) of the window, timestamps included */
    uint32_t end;
    uint32_t start_stamp; /* of 0.02 s, from the window's begin */
    uint32_t end_stamp;
};

struct speech_window_tokens {
    const uint32_t *ids; /* [count] without the end of the text */
    uint32_t count;
    uint32_t first_stamp; /* the token of 0 s */
    uint32_t rows;        /* mel rows of the audio in the window; a timestamp is two */
};

/* Writes at most `count` + 1 segments; returns their number. *advance: mel rows to the next window, 1 to rows. */
uint32_t speech_segments_find(const struct speech_window_tokens *window,
                              struct speech_segment *segments, uint32_t *advance);

#endif
