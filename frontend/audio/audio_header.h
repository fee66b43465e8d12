/*
 * What is known of an audio file once it was decoded for the first time, to be counted.
 */
#ifndef SHOAL_FRONTEND_AUDIO_AUDIO_HEADER_H
#define SHOAL_FRONTEND_AUDIO_AUDIO_HEADER_H

#include <stdbool.h>
#include <stdint.h>

enum audio_kind {
    AUDIO_WAV,
    AUDIO_FLAC,
    AUDIO_MP3,
    AUDIO_OGG,      /* Opus, Vorbis or FLAC */
    AUDIO_AAC,      /* ADTS */
    AUDIO_MP4,      /* MP4, M4A, MOV: the audio of a film too */
    AUDIO_MATROSKA, /* Matroska, WebM */
    AUDIO_KINDS
};

struct audio_header {
    enum audio_kind kind;
    uint32_t rate;    /* samples a second, those that were asked for: LIMIT_AUDIO_RATE_* */
    uint32_t samples; /* mono, at that rate: 1..LIMIT_AUDIO_SAMPLES */
};

/* True if every field is in its range. */
bool audio_header_is_valid(const struct audio_header *header);

/* True if a rate may be asked for. */
bool audio_rate_is_valid(uint32_t rate);

#endif
