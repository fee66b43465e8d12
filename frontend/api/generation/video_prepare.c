/*
 * A list of frames is a list of images: each is decoded like one, in a media process, and resized
 * here. A file is decoded and its frames are resized in the media process, because all frames at full
 * size would be gigabytes.
 */
#include "frontend/api/generation/video_prepare.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/cancel_flag.h"
#include "proto/must.h"

#define LIST_RATE                                                                                  \
    2.0 /* frames a second of a list, if the request does not say; as in qwen-vl-utils */

struct video_work {
    struct video_plan plan;
    struct video_header header; /* of a file; width 0: the frames are a list */
    uint32_t file_count;
    struct {
        struct file_bytes file;
        struct image_header header; /* of a frame */
    } files[];                      /* [file_count] of frames, or the one of all frames */
};

static enum result frame_read(const struct video_means *means, const struct video_frame_name *frame,
                              struct video_work *work, uint32_t at, struct image_costs *costs,
                              struct error_text *why)
{
    struct file_bytes *file = &work->files[at].file;
    if (cancel_flag_is_set(means->cancelled))
        return error_set(why, RESULT_CANCELLED, "the request was cancelled");
    enum result result =
        image_source_read(means->media, frame->naming, frame->name, means->cancelled, file, why);
    if (result == RESULT_OK)
        result = image_costs_add_file(costs, file->count, why);
    const struct image_input input = {file->bytes, file->count, means->cancelled};
    if (result == RESULT_OK)
        result = means->reader->probe(means->reader->context, &input, &work->files[at].header, why);
    if (result == RESULT_OK)
        result = image_costs_add_image(costs, &work->files[at].header, why);
    return result;
}

static enum result frames_read(const struct video_means *means, const struct request_video *video,
                               struct video_work *work, struct image_costs *costs,
                               struct error_text *why)
{
    for (uint32_t i = 0; i < video->frame_count; i++) {
        struct error_text words = {""};
        enum result result = frame_read(means, &video->frames[i], work, i, costs, &words);
        if (result != RESULT_OK)
            return error_set(why, result, "frame %u: %.200s", i, words.text);
        const struct image_header *first = &work->files[0].header, *here = &work->files[i].header;
        if (here->width != first->width || here->height != first->height)
            return error_set(why, RESULT_INVALID,
                             "frame %u has %u x %u pixels, the first one %u x %u", i, here->width,
                             here->height, first->width, first->height);
    }
    return RESULT_OK;
}

static enum result list_plan(const struct video_means *means, const struct request_video *video,
                             struct video_work *work, struct image_costs *costs,
                             struct error_text *why)
{
    enum result result = frames_read(means, video, work, costs, why);
    const struct video_clip clip = {.width = work->files[0].header.width,
                                    .height = work->files[0].header.height,
                                    .frames = video->frame_count,
                                    .rate = video->rate > 0 ? video->rate : LIST_RATE,
                                    .chosen = true};
    if (result != RESULT_OK)
        return result;
    return video_processor_plan(means->processor, &clip, &video->wanted, &work->plan, why);
}

static enum result file_plan(const struct video_means *means, const struct request_image *named,
                             struct video_work *work, struct image_costs *costs,
                             struct error_text *why)
{
    struct file_bytes *file = &work->files[0].file;
    struct video_header *header = &work->header;
    enum result result =
        image_source_read(means->media, named->naming, named->name, means->cancelled, file, why);
    if (result == RESULT_OK)
        result = image_costs_add_file(costs, file->count, why);
    const struct image_input input = {file->bytes, file->count, means->cancelled};
    if (result == RESULT_OK)
        result = means->reader->probe_video(means->reader->context, &input, header, why);
    if (result != RESULT_OK)
        return result;
    const struct video_clip clip = {.width = header->width,
                                    .height = header->height,
                                    .frames = header->frames,
                                    .rate = header->frames * 1e6 / (double)header->duration_us};
    result = video_processor_plan(means->processor, &clip, &named->video->wanted, &work->plan, why);
    if (result == RESULT_OK)
        result = image_costs_add_video(costs, header, work->plan.frames, why);
    return result;
}

enum result video_prepare_read(const struct video_means *means, const struct request_image *named,
                               struct image_costs *costs, struct video_work **work,
                               struct error_text *why)
{
    const struct request_video *video = named->video;
    uint32_t files = video->frame_count > 0 ? video->frame_count : 1;
    struct video_work *made = calloc(1, sizeof *made + files * sizeof made->files[0]);
    if (!made)
        return RESULT_OUT_OF_MEMORY;
    made->file_count = files;
    enum result result = video->frame_count > 0 ? list_plan(means, video, made, costs, why)
                                                : file_plan(means, named, made, costs, why);
    if (result == RESULT_OK)
        *work = made;
    else
        video_prepare_end(made);
    return result;
}

void video_prepare_end(struct video_work *work)
{
    for (uint32_t i = 0; work && i < work->file_count; i++)
        file_bytes_fini(&work->files[i].file);
    free(work);
}

const struct video_plan *video_prepare_plan(const struct video_work *work)
{
    return &work->plan;
}

const struct file_bytes *video_prepare_file(const struct video_work *work)
{
    return work->header.width > 0 ? &work->files[0].file : NULL;
}

void video_prepare_records(const struct video_means *means, const struct video_work *work,
                           const uint32_t *places, struct image_record *records)
{
    const struct video_processor *processor = means->processor;
    for (uint32_t patch = 0; patch < work->plan.patches; patch++) {
        struct image_record *record = &records[places ? places[patch] : patch];
        record->token_count = work->plan.patch_tokens;
        record->width = work->plan.width;
        record->height = work->plan.height;
        record->tiles = 1;
        record->frames = work->plan.patch_frames > 1 ? work->plan.patch_frames : 0;
        record->joined = patch > 0 && video_processor_joins(processor);
        record->time = video_plan_time(processor, &work->plan, patch);
        memcpy(record->scale, processor->scale, sizeof record->scale);
        memcpy(record->bias, processor->bias, sizeof record->bias);
    }
}

/* --- pixels ----------------------------------------------------------------------------------- */

/* Records of the set that the patches are: first + places[patch], or first + patch. */
struct patch_places {
    struct image_set *set;
    uint32_t first;
    const uint32_t *places;
};

static uint32_t patch_place(const struct patch_places *to, uint32_t patch)
{
    return to->first + (to->places ? to->places[patch] : patch);
}

/* Where frame `at` of the video goes. */
static uint8_t *frame_place(const struct video_work *work, const struct patch_places *to,
                            uint32_t at)
{
    return image_set_pixels(to->set, patch_place(to, at / work->plan.patch_frames)) +
           at % work->plan.patch_frames * work->plan.frame_bytes;
}

static enum result frame_decode(const struct video_means *means, struct video_work *work,
                                uint32_t at, uint8_t *out, struct error_text *why)
{
    struct image_pixels pixels = {0};
    struct file_bytes *file = &work->files[at].file;
    const struct image_input input = {file->bytes, file->count, means->cancelled};
    enum result result =
        means->reader->decode(means->reader->context, &input, &work->files[at].header,
                              work->plan.width, work->plan.height, &pixels, why);
    if (result == RESULT_OK)
        result = video_processor_fit(means->processor, &work->plan, &pixels, out, why);
    image_pixels_fini(&pixels);
    file_bytes_fini(file);
    return result;
}

/* Fills the frames that are repeated, and hashes the patches. */
static void patches_finish(const struct video_means *means, const struct video_work *work,
                           const struct patch_places *to)
{
    const struct video_plan *plan = &work->plan;
    for (uint32_t at = plan->frames; at < plan->patches * plan->patch_frames; at++)
        memcpy(frame_place(work, to, at), frame_place(work, to, plan->frames - 1),
               plan->frame_bytes);
    for (uint32_t patch = 0; patch < plan->patches; patch++)
        video_processor_hash(means->processor, plan,
                             image_set_pixels(to->set, patch_place(to, patch)),
                             image_set_record(to->set, patch_place(to, patch))->content_hash);
}

static enum result list_decode(const struct video_means *means, struct video_work *work,
                               const struct patch_places *to, struct error_text *why)
{
    for (uint32_t at = 0; at < work->plan.frames; at++) {
        struct error_text words = {""};
        enum result result = frame_decode(means, work, at, frame_place(work, to, at), &words);
        if (result != RESULT_OK)
            return error_set(why, result, "frame %u: %.200s", at, words.text);
    }
    return RESULT_OK;
}

/* Decodes the shown frames, resized to width x height, into these places. */
static enum result frames_decode(const struct video_means *means, const struct video_work *work,
                                 uint32_t width, uint32_t height, uint8_t *const *places,
                                 struct error_text *why)
{
    const struct file_bytes *file = &work->files[0].file;
    const struct image_input input = {file->bytes, file->count, means->cancelled};
    const struct video_order order = {.indices = work->plan.indices,
                                      .count = work->plan.frames,
                                      .width = width,
                                      .height = height,
                                      .filter = means->processor->filter,
                                      .arithmetic = means->processor->arithmetic};
    return means->reader->decode_video(means->reader->context, &input, &work->header, &order,
                                       places, why);
}

/* The same of frames that are resized twice, through memory for all of them: `places` are overwritten. */
static enum result frames_decode_twice(const struct video_means *means,
                                       const struct video_work *work, const struct patch_places *to,
                                       uint8_t **places, struct error_text *why)
{
    const struct video_plan *plan = &work->plan;
    struct image_pixels scaled = {.width = plan->scaled_width, .height = plan->scaled_height};
    size_t bytes = (size_t)scaled.width * scaled.height * IMAGE_CHANNELS;
    uint8_t *frames = malloc(bytes * plan->frames);
    if (!frames)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t at = 0; at < plan->frames; at++)
        places[at] = frames + at * bytes;
    enum result result = frames_decode(means, work, scaled.width, scaled.height, places, why);
    for (uint32_t at = 0; at < plan->frames && result == RESULT_OK; at++) {
        scaled.rgb = places[at];
        result =
            video_processor_fit(means->processor, plan, &scaled, frame_place(work, to, at), why);
    }
    free(frames);
    return result;
}

static enum result file_decode(const struct video_means *means, struct video_work *work,
                               const struct patch_places *to, struct error_text *why)
{
    const struct video_plan *plan = &work->plan;
    uint8_t **places = calloc(plan->frames, sizeof *places);
    if (!places)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t at = 0; at < plan->frames; at++)
        places[at] = frame_place(work, to, at);
    enum result result = plan->scaled_width > 0
                             ? frames_decode_twice(means, work, to, places, why)
                             : frames_decode(means, work, plan->width, plan->height, places, why);
    free(places);
    file_bytes_fini(&work->files[0].file);
    return result;
}

enum result video_prepare_decode(const struct video_means *means, struct video_work *work,
                                 const uint32_t *places, struct image_set *set, uint32_t first,
                                 struct error_text *why)
{
    const struct patch_places to = {set, first, places};
    enum result result = work->header.width > 0 ? file_decode(means, work, &to, why)
                                                : list_decode(means, work, &to, why);
    if (result == RESULT_OK)
        patches_finish(means, work, &to);
    return result;
}
