/*
 * Audio files by FFmpeg's libraries. The program shoal-av has them (frontend/media/libav/), every
 * other program refuses audio (audio_container_none.c).
 */
#ifndef SHOAL_FRONTEND_AUDIO_AUDIO_CONTAINER_H
#define SHOAL_FRONTEND_AUDIO_AUDIO_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/audio/audio_header.h"
#include "proto/result.h"

/*
 * Decodes the file of a kind that the first bytes said, mixes its channels to one (their mean) and
 * resamples it to `rate`. *samples becomes their number, at most LIMIT_AUDIO_SAMPLES; the first `most`
 * of them are written to out, which may be NULL if `most` is 0. RESULT_TOO_LARGE beyond
 * LIMIT_AUDIO_*, RESULT_INVALID for a broken file, RESULT_UNSUPPORTED for a codec that is not
 * supported or if this program has none, RESULT_OUT_OF_MEMORY.
 */
enum result audio_container_run(const uint8_t *bytes, size_t byte_count, enum audio_kind kind,
                                uint32_t rate, float *out, uint32_t most, uint32_t *samples,
                                struct error_text *error) RESULT_CHECKED;

#endif
