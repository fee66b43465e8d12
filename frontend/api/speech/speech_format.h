/*
 * Answers of /v1/audio/transcriptions and /v1/audio/translations: json, text, srt, vtt and verbose_json, and the events
 * transcript.text.delta and transcript.text.done of a stream.
 */
#ifndef SHOAL_FRONTEND_API_SPEECH_SPEECH_FORMAT_H
#define SHOAL_FRONTEND_API_SPEECH_SPEECH_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format transcription_format;
extern const struct api_format translation_format;

#endif
