/*
 * Samples live only from decoding to the mel rows made of them: half an hour has 115 MB.
 */
#include "frontend/api/generation/audio_prepare.h"

#include <stdlib.h>

#include "proto/must.h"

struct audio_work {
    struct audio_plan plan;
    struct audio_header header;
    struct file_bytes file;
};

enum result audio_prepare_read(const struct video_means *means,
                               const struct audio_processor *processor,
                               const struct request_image *named, struct image_costs *costs,
                               struct audio_work **work, struct error_text *why)
{
    struct audio_work *made = calloc(1, sizeof *made);
    if (!made)
        return RESULT_OUT_OF_MEMORY;
    enum result result = image_source_read(means->media, named->naming, named->name,
                                           means->cancelled, &made->file, why);
    if (result == RESULT_OK)
        result = image_costs_add_file(costs, made->file.count, why);
    const struct image_input input = {made->file.bytes, made->file.count, means->cancelled};
    if (result == RESULT_OK)
        result = means->reader->probe_audio(means->reader->context, &input, processor->mel.rate,
                                            &made->header, why);
    if (result == RESULT_OK)
        result = audio_processor_plan(processor, made->header.samples, &made->plan, why);
    if (result == RESULT_OK)
        *work = made;
    else
        audio_prepare_end(made);
    return result;
}

void audio_prepare_end(struct audio_work *work)
{
    if (work)
        file_bytes_fini(&work->file);
    free(work);
}

const struct audio_plan *audio_prepare_plan(const struct audio_work *work)
{
    return &work->plan;
}

enum result audio_prepare_decode(const struct video_means *means,
                                 const struct audio_processor *processor, struct audio_work *work,
                                 struct image_set *set, uint32_t at, struct error_text *why)
{
    float *samples = calloc(work->header.samples, sizeof *samples);
    const struct image_input input = {work->file.bytes, work->file.count, means->cancelled};
    if (!samples)
        return RESULT_OUT_OF_MEMORY;
    enum result result =
        means->reader->decode_audio(means->reader->context, &input, &work->header, samples, why);
    if (result == RESULT_OK)
        result = audio_processor_run(processor, &work->plan, samples,
                                     (float *)(void *)image_set_pixels(set, at),
                                     image_set_record(set, at)->content_hash, why);
    free(samples);
    file_bytes_fini(&work->file);
    return result;
}
