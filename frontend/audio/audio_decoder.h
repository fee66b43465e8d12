/*
 * Decodes audio files to mono samples at a model's rate: WAV, FLAC, MP3, Ogg (Opus, Vorbis), AAC, and
 * the audio of MP4 and Matroska. The first bytes decide the kind. Runs in the media process.
 *
 * The headers of audio lie often (streams state no length, a few bytes of silence last an hour), so a
 * file is decoded twice: once to count its samples, and again, when they are wanted, to write them.
 *
 * Every failure has a text about the audio, for the client who sent it.
 */
#ifndef SHOAL_FRONTEND_AUDIO_AUDIO_DECODER_H
#define SHOAL_FRONTEND_AUDIO_AUDIO_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/audio/audio_header.h"
#include "proto/result.h"

/* Decodes without keeping a sample. `rate` passes audio_rate_is_valid(). RESULT_TOO_LARGE beyond
 * LIMIT_SOURCE_IMAGE_BYTES and LIMIT_AUDIO_*, RESULT_UNSUPPORTED for another kind of file or codec,
 * RESULT_INVALID for a broken file or one without samples, RESULT_OUT_OF_MEMORY. */
enum result audio_decoder_probe(const uint8_t *bytes, size_t byte_count, uint32_t rate,
                                struct audio_header *header,
                                struct error_text *error) RESULT_CHECKED;

/* Writes out[samples], full scale being 1, none beyond AUDIO_SAMPLE_MAX. `rate` is the one that
 * audio_decoder_probe() had for the same bytes, `samples` the number that it found; RESULT_INVALID if
 * there are others. */
enum result audio_decoder_run(const uint8_t *bytes, size_t byte_count, uint32_t rate,
                              uint32_t samples, float *out,
                              struct error_text *error) RESULT_CHECKED;

#endif
