/*
 * Which frames of a video are shown, at which size and at which times.
 *
 * The rules are those of transformers' Qwen2VLVideoProcessor, Qwen3VLVideoProcessor, Glm4vVideoProcessor,
 * Gemma4VideoProcessor and SmolVLMVideoProcessor 5.24, with the cap of pixels that qwen-vl-utils has (cap_pixels_per_frame). Numbers are computed in the types of
 * the original, because a rounding decides which frame is shown: Python's floats are doubles, torch's
 * arange() is in float, and its int() cuts.
 *
 * A video of one frame is shown with that frame twice, where the original fails. It also fails where
 * torch's arange() is rounded to one frame more; that one is left out.
 */
#include "frontend/image/video_processor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define MOST_RATIO 200

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* --- frames ----------------------------------------------------------------------------------- */

static uint32_t even(double frames)
{
    return (uint32_t)(frames / VIDEO_PATCH_FRAMES) * VIDEO_PATCH_FRAMES;
}

/* An even number of frames, and the frame at i * all / number: torch.arange(0, all, all / number). */
static void sample_evenly(const struct video_processor *p, double rate, uint32_t max_frames,
                          const struct video_clip *clip, struct video_plan *plan)
{
    uint32_t bound = even(least(max_frames, clip->frames));
    double wanted = clip->frames / clip->rate * rate;
    wanted = least(least(most(wanted, p->min_frames), bound), clip->frames);
    plan->frames = even(wanted);
    if (plan->frames == 0)
        plan->frames = 1;
    double step = (double)clip->frames / plan->frames;
    for (uint32_t i = 0; i < plan->frames; i++) {
        uint32_t index = (uint32_t)(float)(i * step);
        plan->indices[i] = index < clip->frames ? index : clip->frames - 1;
    }
}

/* Frames from the first to the last, both included: numpy.linspace(0, all - 1, number).round(). */
static void sample_to_the_end(const struct video_processor *p, double rate, uint32_t max_frames,
                              const struct video_clip *clip, struct video_plan *plan)
{
    double wanted = trunc(least(clip->frames / clip->rate * rate, UINT32_MAX));
    wanted = least(least(most(wanted, p->min_frames), max_frames), clip->frames);
    plan->frames = (uint32_t)wanted;
    double step = plan->frames > 1 ? (double)(clip->frames - 1) / (plan->frames - 1) : 0;
    for (uint32_t i = 0; i < plan->frames; i++)
        plan->indices[i] =
            i > 0 && i == plan->frames - 1 ? clip->frames - 1 : (uint32_t)rint(i * step);
}

static enum result sample(const struct video_processor *p, const struct video_clip *clip,
                          const struct video_request *request, struct video_plan *plan,
                          struct error_text *error)
{
    uint32_t max_frames = p->max_frames;
    if (request->max_frames > 0 && request->max_frames < max_frames)
        max_frames = request->max_frames;
    if (clip->chosen) {
        if (clip->frames > max_frames)
            return error_set(error, RESULT_TOO_LARGE, "a video of %u frames is more than %u",
                             clip->frames, max_frames);
        plan->frames = clip->frames;
        for (uint32_t i = 0; i < plan->frames; i++)
            plan->indices[i] = i;
        return RESULT_OK;
    }
    double rate = request->rate > 0 ? request->rate : (double)p->rate;
    switch (p->rule) {
    case VIDEO_RULE_QWEN3: sample_to_the_end(p, rate, max_frames, clip, plan); break;
    case VIDEO_RULE_GLM4V: video_sampling_glm4v(p, rate, max_frames, clip, plan); break;
    case VIDEO_RULE_GEMMA4: /* without a rate of the request a number of frames */
        video_sampling_gemma4(p, request->rate, max_frames, clip, plan);
        break;
    case VIDEO_RULE_SMOLVLM: video_sampling_smolvlm(p, rate, max_frames, clip, plan); break;
    default: sample_evenly(p, rate, max_frames, clip, plan);
    }
    return RESULT_OK;
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* The most pixels of a frame, or of all together (qwen3_vl), as _preprocess() caps them. */
static double pixels_cap(const struct video_processor *p, uint32_t frames)
{
    double square = (double)p->factor * p->factor;
    double floor_pixels = trunc(p->min_pixels * 1.05);
    if (!p->caps)
        return p->max_pixels;
    if (p->rule == VIDEO_RULE_QWEN3)
        return most(least(p->max_tokens * square, floor((double)p->max_pixels / frames)),
                    floor_pixels) *
               frames;
    double all = trunc(p->max_tokens * square * 0.9);
    return most(least(p->max_pixels, floor(all * VIDEO_PATCH_FRAMES / frames)), floor_pixels);
}

/* smart_resize(): multiples of factor whose area, times `frames`, lies between the bounds. */
static enum result resize(const struct video_processor *p, const struct video_clip *clip,
                          struct video_plan *plan, struct error_text *error)
{
    bool together = p->rule == VIDEO_RULE_QWEN3 || p->rule == VIDEO_RULE_GLM4V;
    uint32_t shown = plan->frames > 1 ? plan->frames : VIDEO_PATCH_FRAMES;
    if (p->rule == VIDEO_RULE_GLM4V && !clip->chosen)
        shown += shown % VIDEO_PATCH_FRAMES; /* what is sampled has whole patches */
    double width = clip->width, height = clip->height, factor = p->factor;
    double frames = together ? shown : 1, max_pixels = pixels_cap(p, shown);
    double whole = together ? rint(frames / VIDEO_PATCH_FRAMES) * VIDEO_PATCH_FRAMES : 1;
    if (together && (height < factor || width < factor)) {
        double scale = most(factor / height, factor / width);
        height = trunc(height * scale);
        width = trunc(width * scale);
    }
    if (most(height, width) / least(height, width) > MOST_RATIO)
        return error_set(error, RESULT_INVALID,
                         "a video of %u x %u pixels is too thin for this model", clip->width,
                         clip->height);
    double h = rint(height / factor) * factor, w = rint(width / factor) * factor;
    if (whole * h * w > max_pixels) {
        double beta = sqrt(frames * height * width / max_pixels);
        h = most(factor, floor(height / beta / factor) * factor);
        w = most(factor, floor(width / beta / factor) * factor);
    } else if (whole * h * w < p->min_pixels) {
        double beta = sqrt(p->min_pixels / (frames * height * width));
        h = ceil(height * beta / factor) * factor;
        w = ceil(width * beta / factor) * factor;
    }
    if (!(h >= 1 && w >= 1 && h <= LIMIT_IMAGE_SIDE && w <= LIMIT_IMAGE_SIDE))
        return error_set(error, RESULT_TOO_LARGE,
                         "a video of %u x %u pixels becomes too large for this model", clip->width,
                         clip->height);
    plan->width = (uint32_t)w;
    plan->height = (uint32_t)h;
    return RESULT_OK;
}

/* As an image. */
static enum result resize_frame(const struct video_processor *p, const struct video_clip *clip,
                                struct video_plan *plan, struct error_text *error)
{
    const struct image_request none = {0};
    struct image_plan frame;
    enum result result =
        image_processor_plan(&p->frame, clip->width, clip->height, &none, &frame, error);
    plan->width = frame.tile_width;
    plan->height = frame.tile_height;
    return result;
}

/* The longer side is that of the processor, the other keeps the aspect and becomes even; then a square. */
static void resize_twice(const struct video_processor *p, const struct video_clip *clip,
                         struct video_plan *plan)
{
    double aspect = (double)clip->width / clip->height, longest = p->frame.longest_edge;
    bool wide = clip->width >= clip->height;
    uint32_t other = (uint32_t)(wide ? longest / aspect : longest * aspect);
    other += other % 2;
    other = other < 1 ? 1 : other;
    plan->scaled_width = wide ? p->frame.longest_edge : other;
    plan->scaled_height = wide ? other : p->frame.longest_edge;
    plan->width = plan->height = p->frame.side;
}

static enum result resize_by_rule(const struct video_processor *p, const struct video_clip *clip,
                                  struct video_plan *plan, struct error_text *error)
{
    switch (p->rule) {
    case VIDEO_RULE_GEMMA4: return resize_frame(p, clip, plan, error);
    case VIDEO_RULE_SMOLVLM: resize_twice(p, clip, plan); return RESULT_OK;
    default: return resize(p, clip, plan, error);
    }
}

static enum result check_bounds(const struct video_processor *p, struct video_plan *plan,
                                struct error_text *error)
{
    uint64_t pixels = (uint64_t)plan->width * plan->height;
    uint64_t tokens = pixels / ((uint64_t)p->factor * p->factor);
    uint64_t shown = (uint64_t)plan->patches * plan->patch_frames;
    uint64_t scaled = (uint64_t)plan->scaled_width * plan->scaled_height;
    if (pixels * plan->patch_frames > LIMIT_IMAGE_PIXELS || tokens > LIMIT_IMAGE_TOKENS ||
        (pixels > scaled ? pixels : scaled) * shown > LIMIT_VIDEO_PIXELS)
        return error_set(error, RESULT_TOO_LARGE,
                         "%u frames of %u x %u pixels are too large for this server: max_frames "
                         "shows fewer",
                         plan->frames, plan->width, plan->height);
    plan->patch_tokens = (uint32_t)tokens;
    plan->frame_bytes = (size_t)pixels * IMAGE_CHANNELS;
    if (video_plan_time(p, plan, plan->patches - 1) > LIMIT_VIDEO_TIME)
        return error_set(error, RESULT_TOO_LARGE, "it lasts too long for this model's positions");
    return RESULT_OK;
}

enum result video_processor_plan(const struct video_processor *processor,
                                 const struct video_clip *clip, const struct video_request *request,
                                 struct video_plan *plan, struct error_text *error)
{
    must(processor->rule != VIDEO_RULE_NONE && clip->frames >= 1 && clip->width >= 1 &&
         clip->height >= 1 && clip->rate > 0);
    *plan =
        (struct video_plan){.rate = clip->rate,
                            .asked = request->rate > 0 ? request->rate : (double)processor->rate,
                            .source = clip->frames};
    plan->chosen = clip->chosen;
    if (clip->chosen)
        plan->asked = clip->rate;
    enum result result = sample(processor, clip, request, plan, error);
    plan->patch_frames = processor->patch_frames;
    plan->patches = (plan->frames + plan->patch_frames - 1) / plan->patch_frames;
    if (result == RESULT_OK)
        result = resize_by_rule(processor, clip, plan, error);
    return result == RESULT_OK ? check_bounds(processor, plan, error) : result;
}

/* --- time ------------------------------------------------------------------------------------- */

bool video_processor_joins(const struct video_processor *processor)
{
    return processor->rule != VIDEO_RULE_QWEN3 && processor->rule != VIDEO_RULE_GLM4V &&
           processor->rule != VIDEO_RULE_GEMMA4 && processor->rule != VIDEO_RULE_SMOLVLM;
}

uint32_t video_plan_time(const struct video_processor *processor, const struct video_plan *plan,
                         uint32_t patch)
{
    if (!video_processor_joins(processor))
        return 0;
    if (processor->rule == VIDEO_RULE_QWEN2)
        return patch;
    if (processor->rule == VIDEO_RULE_OMNI) { /* the rate that was asked for */
        float second = (float)patch * (float)(VIDEO_PATCH_FRAMES / plan->asked);
        float at = second * processor->time_scale;
        return at < (float)UINT32_MAX ? (uint32_t)at : UINT32_MAX;
    }
    /* second_per_grid_ts, a tensor of floats, times tokens_per_second */
    double sampled = (double)plan->frames / plan->source * plan->rate;
    float each = (float)(VIDEO_PATCH_FRAMES / sampled) * processor->time_scale;
    float time = (float)patch * each;
    return time < (float)UINT32_MAX ? (uint32_t)time : UINT32_MAX;
}

/* The mean time of a patch's first and last frame, in seconds. */
static double seconds_of(const struct video_plan *plan, uint32_t patch)
{
    uint32_t first = patch * VIDEO_PATCH_FRAMES, last = first + VIDEO_PATCH_FRAMES - 1;
    last = last < plan->frames ? last : plan->frames - 1;
    return (plan->indices[first] / plan->rate + plan->indices[last] / plan->rate) / 2;
}

/* The time of a patch's first frame, cut to whole seconds. */
static uint32_t begun_seconds(const struct video_plan *plan, uint32_t patch)
{
    return (uint32_t)(plan->indices[patch * plan->patch_frames] / plan->rate);
}

void video_processor_expand(const struct video_processor *processor, const struct video_plan *plan,
                            struct text_buffer *text)
{
    if (processor->rule == VIDEO_RULE_SMOLVLM)
        video_intro_append(plan, text);
    for (uint32_t patch = 0; patch < plan->patches; patch++) {
        uint32_t begun = begun_seconds(plan, patch);
        if (processor->rule == VIDEO_RULE_SMOLVLM)
            text_buffer_append_format(text, "\nFrame from %02u:%02u:", begun / 60, begun % 60);
        if (processor->rule == VIDEO_RULE_QWEN3)
            text_buffer_append_format(text, "<%.1f seconds>", seconds_of(plan, patch));
        if (processor->rule == VIDEO_RULE_GEMMA4)
            text_buffer_append_format(text, "%s%02u:%02u ", patch > 0 ? " " : "", begun / 60,
                                      begun % 60);
        text_buffer_append_text(text, processor->begin);
        for (uint32_t i = 0; i < plan->patch_tokens; i++)
            text_buffer_append_text(text, processor->soft);
        text_buffer_append_text(text, processor->end);
        if (processor->rule == VIDEO_RULE_GLM4V)
            text_buffer_append_format(text, "%u", begun);
    }
    if (processor->rule == VIDEO_RULE_SMOLVLM)
        text_buffer_append_text(text, "\n\n");
}

/* --- pixels ----------------------------------------------------------------------------------- */

/* One step, or none if the frame has the size already. */
static enum result fit_once(const struct video_processor *processor,
                            const struct image_pixels *frame, uint32_t width, uint32_t height,
                            uint8_t *out, struct error_text *error)
{
    if (frame->width == width && frame->height == height) {
        memcpy(out, frame->rgb, (size_t)width * height * IMAGE_CHANNELS);
        return RESULT_OK;
    }
    return image_resizer_run(frame, width, height, processor->filter, processor->arithmetic, out,
                             error);
}

enum result video_processor_fit(const struct video_processor *processor,
                                const struct video_plan *plan, const struct image_pixels *frame,
                                uint8_t *out, struct error_text *error)
{
    if (plan->scaled_width == 0)
        return fit_once(processor, frame, plan->width, plan->height, out, error);
    struct image_pixels scaled = {.width = plan->scaled_width, .height = plan->scaled_height};
    scaled.rgb = malloc((size_t)scaled.width * scaled.height * IMAGE_CHANNELS);
    if (!scaled.rgb)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a frame");
    enum result result = fit_once(processor, frame, scaled.width, scaled.height, scaled.rgb, error);
    if (result == RESULT_OK)
        result = fit_once(processor, &scaled, plan->width, plan->height, out, error);
    free(scaled.rgb);
    return result;
}

void video_processor_hash(const struct video_processor *processor, const struct video_plan *plan,
                          const uint8_t *frames, uint8_t hash[IMAGE_HASH_BYTES])
{
    struct {
        char purpose[8];
        uint64_t content[2];
        uint32_t rule;
        uint32_t factor;
        uint32_t width;
        uint32_t height;
        float scale[IMAGE_CHANNELS];
        float bias[IMAGE_CHANNELS];
    } all = {"videos", {0, 0}, processor->rule, processor->factor, plan->width, plan->height,
             {0},      {0}};
    uint64_t content[2];
    _Static_assert(sizeof all == 40 + 8 * IMAGE_CHANNELS, "hashed as bytes: no padding");
    _Static_assert(sizeof content == IMAGE_HASH_BYTES, "the record's length");
    memcpy(all.scale, processor->scale, sizeof all.scale);
    memcpy(all.bias, processor->bias, sizeof all.bias);
    keyed_hash_wide(&processor->hash_key, frames, plan->frame_bytes * plan->patch_frames,
                    all.content);
    keyed_hash_wide(&processor->hash_key, &all, sizeof all, content);
    content[0] |= !content[0] && !content[1]; /* zero means none */
    memcpy(hash, content, sizeof content);
}
