/*
 * Both decoders are driven by one loop: the output grows by doubling up to one byte more than the
 * limit, so that memory follows what was unpacked and a body beyond the limit is noticed. Several
 * members (gzip) or frames (zstd) in a row are one body, as the formats say.
 */
#include "frontend/base/body_coding.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#if __has_include(<zstd.h>)
#include <zstd.h>
#define HAS_ZSTD 1
#endif

#define FIRST_BYTES     (64u << 10)
#define STEP_BYTES      (1u << 20) /* of output between two looks at `cancelled` */
#define GZIP_ONLY       16         /* added to zlib's window bits */
#define ZSTD_WINDOW_LOG 23         /* 8 MB: what RFC 8878 recommends to accept */

#ifdef HAS_ZSTD
const char body_coding_names[] = "gzip, zstd";
#else
const char body_coding_names[] = "gzip";
#endif

struct unpacking {
    const char *packed;
    size_t packed_bytes;
    size_t taken;
    char *body;
    size_t body_bytes;
    size_t capacity;
    bool between; /* a member or frame is complete, and none has begun */
    z_stream gzip;
#ifdef HAS_ZSTD
    ZSTD_DStream *zstd;
#endif
};

enum result body_coding_find(const char *header, enum body_coding *coding)
{
    *coding = BODY_PLAIN;
    if (!header || !*header || strcasecmp(header, "identity") == 0)
        return RESULT_OK;
    if (strcasecmp(header, "gzip") == 0 || strcasecmp(header, "x-gzip") == 0) {
        *coding = BODY_GZIP;
        return RESULT_OK;
    }
#ifdef HAS_ZSTD
    if (strcasecmp(header, "zstd") == 0) {
        *coding = BODY_ZSTD;
        return RESULT_OK;
    }
#endif
    return RESULT_UNSUPPORTED;
}

/* Takes input and gives up to `room` bytes of output. RESULT_INVALID: the input is broken. */
static enum result gzip_step(struct unpacking *work, char *out, size_t room, size_t *given)
{
    z_stream *stream = &work->gzip;
    if (work->between && inflateReset(stream) != Z_OK)
        return RESULT_INVALID;
    size_t left = work->packed_bytes - work->taken;
    stream->next_in = (unsigned char *)(uintptr_t)(work->packed + work->taken);
    stream->avail_in = left < UINT_MAX ? (unsigned)left : UINT_MAX;
    unsigned offered = stream->avail_in;
    stream->next_out = (unsigned char *)out;
    stream->avail_out = (unsigned)room;
    int status = inflate(stream, Z_NO_FLUSH);
    work->taken += offered - stream->avail_in;
    *given = room - stream->avail_out;
    work->between = status == Z_STREAM_END;
    if (status == Z_MEM_ERROR)
        return RESULT_OUT_OF_MEMORY;
    return status == Z_OK || status == Z_STREAM_END ? RESULT_OK : RESULT_INVALID;
}

#ifdef HAS_ZSTD
static enum result zstd_step(struct unpacking *work, char *out, size_t room, size_t *given)
{
    ZSTD_inBuffer input = {work->packed, work->packed_bytes, work->taken};
    ZSTD_outBuffer output = {out, room, 0};
    size_t status = ZSTD_decompressStream(work->zstd, &output, &input);
    bool moved = input.pos > work->taken || output.pos > 0;
    work->taken = input.pos;
    *given = output.pos;
    work->between = status == 0;
    return ZSTD_isError(status) || !moved ? RESULT_INVALID : RESULT_OK;
}
#endif

static enum result step(struct unpacking *work, enum body_coding coding, char *out, size_t room,
                        size_t *given)
{
#ifdef HAS_ZSTD
    if (coding == BODY_ZSTD)
        return zstd_step(work, out, room, given);
#endif
    (void)coding;
    return gzip_step(work, out, room, given);
}

/* Makes room for output, and for a NUL after it. */
static enum result room_make(struct unpacking *work, size_t most_bytes)
{
    if (work->body_bytes > most_bytes)
        return RESULT_TOO_LARGE;
    if (work->body_bytes + 1 < work->capacity)
        return RESULT_OK;
    size_t wanted = work->capacity ? 2 * work->capacity : FIRST_BYTES;
    if (wanted > most_bytes + 2)
        wanted = most_bytes + 2;
    char *grown = realloc(work->body, wanted);
    if (!grown)
        return RESULT_OUT_OF_MEMORY;
    work->body = grown;
    work->capacity = wanted;
    return RESULT_OK;
}

static enum result unpack(struct unpacking *work, enum body_coding coding, size_t most_bytes,
                          const atomic_bool *cancelled)
{
    while (work->taken < work->packed_bytes || !work->between) {
        if (cancelled && atomic_load_explicit(cancelled, memory_order_relaxed))
            return RESULT_CANCELLED;
        enum result result = room_make(work, most_bytes);
        if (result != RESULT_OK)
            return result;
        size_t room = work->capacity - 1 - work->body_bytes, given = 0;
        if (room > STEP_BYTES)
            room = STEP_BYTES;
        result = step(work, coding, work->body + work->body_bytes, room, &given);
        if (result != RESULT_OK)
            return result;
        work->body_bytes += given;
    }
    return work->body_bytes > most_bytes ? RESULT_TOO_LARGE : RESULT_OK;
}

static bool decoder_open(struct unpacking *work, enum body_coding coding)
{
#ifdef HAS_ZSTD
    if (coding == BODY_ZSTD) {
        work->zstd = ZSTD_createDStream();
        return work->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(work->zstd, ZSTD_d_windowLogMax,
                                                                  ZSTD_WINDOW_LOG));
    }
#endif
    return coding == BODY_GZIP && inflateInit2(&work->gzip, MAX_WBITS + GZIP_ONLY) == Z_OK;
}

static void decoder_close(struct unpacking *work, enum body_coding coding)
{
#ifdef HAS_ZSTD
    (void)ZSTD_freeDStream(work->zstd);
#endif
    if (coding == BODY_GZIP)
        (void)inflateEnd(&work->gzip);
}

enum result body_coding_unpack(enum body_coding coding, const char *packed, size_t packed_bytes,
                               size_t most_bytes, const atomic_bool *cancelled, char **body,
                               size_t *body_bytes)
{
    struct unpacking work = {.packed = packed, .packed_bytes = packed_bytes};
    enum result result = RESULT_OUT_OF_MEMORY;
    if (decoder_open(&work, coding))
        result = unpack(&work, coding, most_bytes, cancelled);
    decoder_close(&work, coding);
    if (result != RESULT_OK) {
        free(work.body);
        return result;
    }
    work.body[work.body_bytes] = '\0';
    *body = work.body;
    *body_bytes = work.body_bytes;
    return RESULT_OK;
}

size_t body_coding_packed_bytes(const char *text, size_t bytes)
{
    uLongf packed = compressBound((uLong)bytes);
    unsigned char *room = malloc(packed);
    bool good = room && compress(room, &packed, (const unsigned char *)text, (uLong)bytes) == Z_OK;
    free(room);
    return good ? (size_t)packed : 0;
}
