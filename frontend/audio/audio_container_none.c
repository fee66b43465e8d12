/*
 * For programs without FFmpeg's libraries, as image/video_container_none.c.
 */
#include "frontend/audio/audio_container.h"

enum result audio_container_run(const uint8_t *bytes, size_t byte_count, enum audio_kind kind,
                                uint32_t rate, float *out, uint32_t most, uint32_t *samples,
                                struct error_text *error)
{
    (void)bytes;
    (void)byte_count;
    (void)kind;
    (void)rate;
    (void)out;
    (void)most;
    (void)samples;
    return error_set(error, RESULT_UNSUPPORTED, "this server was built without audio");
}
