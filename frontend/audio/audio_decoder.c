/*
 * The first bytes choose the container; the libraries probe nothing else.
 */
#include "frontend/audio/audio_decoder.h"

#include <string.h>

#include "frontend/audio/audio_container.h"
#include "proto/limits.h"
#include "proto/must.h"

#define UNKNOWN_KIND                                                                               \
    "this is no audio that is supported: WAV, FLAC, MP3, Ogg (Opus, Vorbis), AAC, MP4, Matroska"
#define MAGIC_BYTES 12u

/* MPEG audio frames begin with eleven ones; bits 1 and 2 of the second byte are the layer, 0 in ADTS. */
static enum audio_kind frame_kind(const uint8_t *bytes)
{
    if (bytes[0] != 0xff || (bytes[1] & 0xe0) != 0xe0)
        return AUDIO_KINDS;
    if ((bytes[1] & 0xf6) == 0xf0)
        return AUDIO_AAC;
    return (bytes[1] & 0x06) == 0x02 ? AUDIO_MP3 : AUDIO_KINDS;
}

static enum audio_kind find_kind(const uint8_t *bytes, size_t byte_count)
{
    static const struct {
        enum audio_kind kind;
        size_t at;
        const char *magic;
    } magics[] = {
        {AUDIO_WAV, 8, "WAVE"},
        {AUDIO_FLAC, 0, "fLaC"},
        {AUDIO_OGG, 0, "OggS"},
        {AUDIO_MP3, 0, "ID3"},
        {AUDIO_MP4, 4, "ftyp"},
        {AUDIO_MP4, 4, "moov"},
        {AUDIO_MATROSKA, 0, "\x1a\x45\xdf\xa3"},
    };
    if (byte_count < MAGIC_BYTES)
        return AUDIO_KINDS;
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (memcmp(bytes + magics[i].at, magics[i].magic, strlen(magics[i].magic)) == 0)
            return magics[i].kind;
    }
    return frame_kind(bytes);
}

static enum result decode(const uint8_t *bytes, size_t byte_count, struct audio_header *header,
                          float *out, uint32_t most, struct error_text *error)
{
    must(audio_rate_is_valid(header->rate));
    if (byte_count > LIMIT_SOURCE_IMAGE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "the file has %zu bytes; the most is %u",
                         byte_count, LIMIT_SOURCE_IMAGE_BYTES);
    header->kind = find_kind(bytes, byte_count);
    if (header->kind == AUDIO_KINDS)
        return error_set(error, RESULT_UNSUPPORTED, UNKNOWN_KIND);
    return audio_container_run(bytes, byte_count, header->kind, header->rate, out, most,
                               &header->samples, error);
}

enum result audio_decoder_probe(const uint8_t *bytes, size_t byte_count, uint32_t rate,
                                struct audio_header *header, struct error_text *error)
{
    *header = (struct audio_header){.rate = rate};
    enum result result = decode(bytes, byte_count, header, NULL, 0, error);
    if (result == RESULT_OK && header->samples == 0)
        result = error_set(error, RESULT_INVALID, "the audio has no samples");
    return result;
}

enum result audio_decoder_run(const uint8_t *bytes, size_t byte_count, uint32_t rate,
                              uint32_t samples, float *out, struct error_text *error)
{
    struct audio_header header = {.rate = rate};
    enum result result = decode(bytes, byte_count, &header, out, samples, error);
    if (result == RESULT_OK && samples != header.samples)
        result = error_set(error, RESULT_INVALID, "the audio has other samples than before");
    return result;
}
