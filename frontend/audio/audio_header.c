#include "frontend/audio/audio_header.h"

#include "proto/limits.h"

bool audio_rate_is_valid(uint32_t rate)
{
    return rate >= LIMIT_AUDIO_RATE_LEAST && rate <= LIMIT_AUDIO_RATE_MOST;
}

bool audio_header_is_valid(const struct audio_header *header)
{
    return (uint32_t)header->kind < AUDIO_KINDS && audio_rate_is_valid(header->rate) &&
           header->samples >= 1 && header->samples <= LIMIT_AUDIO_SAMPLES;
}
