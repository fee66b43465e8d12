/*
 * Samples live only from decoding to the mel rows made of them: half an hour has 115 MB.
 */
#include "frontend/api/generation/audio_prepare.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

struct audio_work {
    struct audio_plan plan;
    struct audio_header header;
    struct file_bytes own;
    const struct file_bytes *file; /* `own`, or that of a video */
};

/* Counts the samples of work->file. */
static enum result plan_file(const struct video_means *means,
                             const struct audio_processor *processor, struct audio_work *work,
                             struct error_text *why)
{
    const struct image_input input = {work->file->bytes, work->file->count, means->cancelled};
    enum result result = means->reader->probe_audio(means->reader->context, &input,
                                                    processor->mel.rate, &work->header, why);
    return result == RESULT_OK
               ? audio_processor_plan(processor, work->header.samples, &work->plan, why)
               : result;
}

enum result audio_prepare_read(const struct video_means *means,
                               const struct audio_processor *processor,
                               const struct request_image *named, struct image_costs *costs,
                               struct audio_work **work, struct error_text *why)
{
    struct audio_work *made = calloc(1, sizeof *made);
    if (!made)
        return RESULT_OUT_OF_MEMORY;
    made->file = &made->own;
    enum result result = image_source_read(means->media, named->naming, named->name,
                                           means->cancelled, &made->own, why);
    if (result == RESULT_OK)
        result = image_costs_add_file(costs, made->own.count, why);
    if (result == RESULT_OK)
        result = plan_file(means, processor, made, why);
    if (result == RESULT_OK)
        *work = made;
    else
        audio_prepare_end(made);
    return result;
}

enum result audio_prepare_read_track(const struct video_means *means,
                                     const struct audio_processor *processor,
                                     const struct file_bytes *file, struct audio_work **work,
                                     struct error_text *why)
{
    struct audio_work *made = calloc(1, sizeof *made);
    if (!made)
        return RESULT_OUT_OF_MEMORY;
    made->file = file;
    enum result result = plan_file(means, processor, made, why);
    if (result == RESULT_OK)
        *work = made;
    else
        audio_prepare_end(made);
    return result;
}

void audio_prepare_end(struct audio_work *work)
{
    if (work)
        file_bytes_fini(&work->own);
    free(work);
}

const struct audio_plan *audio_prepare_plan(const struct audio_work *work)
{
    return &work->plan;
}

/* Cuts the mel rows into the records of pieces. */
static void fill_pieces(const struct audio_processor *processor, const struct audio_plan *plan,
                        const float *rows, struct image_set *set, uint32_t first,
                        const uint32_t *places)
{
    for (uint32_t piece = 0; piece < plan->pieces; piece++) {
        uint32_t at = first + (places ? places[piece] : piece);
        uint32_t count = audio_plan_piece_rows(plan, piece), mels = processor->mel.mels;
        memcpy(image_set_pixels(set, at), rows, (size_t)count * mels * sizeof *rows);
        audio_processor_hash(processor, rows, count, image_set_record(set, at)->content_hash);
        rows += (size_t)count * mels;
    }
}

enum result audio_prepare_decode(const struct video_means *means,
                                 const struct audio_processor *processor, struct audio_work *work,
                                 struct image_set *set, uint32_t first, const uint32_t *places,
                                 struct error_text *why)
{
    const struct audio_plan *plan = &work->plan;
    float *samples = calloc(work->header.samples, sizeof *samples);
    float *rows = calloc((size_t)plan->rows * processor->mel.mels, sizeof *rows);
    const struct image_input input = {work->file->bytes, work->file->count, means->cancelled};
    enum result result = samples && rows ? RESULT_OK : RESULT_OUT_OF_MEMORY;
    if (result == RESULT_OK)
        result = means->reader->decode_audio(means->reader->context, &input, &work->header, samples,
                                             why);
    if (result == RESULT_OK)
        result = audio_processor_run(processor, plan, samples, rows, why);
    if (result == RESULT_OK)
        fill_pieces(processor, plan, rows, set, first, places);
    free(rows);
    free(samples);
    file_bytes_fini(&work->own);
    return result;
}
