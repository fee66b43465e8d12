/*
 * Finds a checkpoint's settings for videos: video_preprocessor_config.json, or, saved by newer
 * programs, the member video_processor of processor_config.json, which has precedence. A setting that
 * is absent or null has the value that the family was published with. Those of a folder that has
 * neither are not taken from its image processor, as transformers does: Qwen2-VL's publisher resizes
 * frames with qwen-vl-utils first.
 *
 * Without image_mean, image_std and rescale_factor of its own a video is normalized like an image.
 */
#include <stdio.h>
#include <string.h>

#include "frontend/image/video_processor.h"
#include "proto/hf_config.h"
#include "proto/mapped_file.h"
#include "proto/must.h"

#define RATE         2.0f
#define SMOLVLM_SIDE 4096u /* its processor makes no larger frames */
#define FILES        4u

/* State of the reading; the first failure is kept. */
struct video_settings {
    struct json_value object;
    struct error_text *error;
    enum result result;
};

static void fail(struct video_settings *s, enum result result, const char *name, const char *words)
{
    if (s->result == RESULT_OK)
        s->result = error_set(s->error, result, "videos: %s: %s", name, words);
}

static uint32_t read_u32(struct video_settings *s, struct json_value object, const char *name,
                         uint32_t most, uint32_t fallback)
{
    uint32_t value = fallback;
    enum result result = json_value_u32(json_value_member(object, name), &value);
    if (result == RESULT_INVALID || (result == RESULT_OK && (value < 1 || value > most))) {
        fail(s, RESULT_INVALID, name, "not a number, or out of range");
        return fallback;
    }
    return value;
}

static bool read_bool(struct video_settings *s, const char *name, bool fallback)
{
    bool value = fallback;
    if (json_value_bool(json_value_member(s->object, name), &value) == RESULT_INVALID)
        fail(s, RESULT_INVALID, name, "neither true nor false");
    return value;
}

static void set_text(char text[LIMIT_IMAGE_MARKER_BYTES], const char *words)
{
    must(strlen(words) < LIMIT_IMAGE_MARKER_BYTES);
    memcpy(text, words, strlen(words) + 1);
}

/* Placeholders are those of images. */
static void publish_glm4v(const struct image_processor *images, struct video_processor *video)
{
    video->min_pixels = 112 * 112;
    video->max_pixels = 28 * 28 * 2 * 30000;
    video->caps = false;
    video->max_seconds = 300;
    set_text(video->soft, images->tokens.soft);
    set_text(video->marker, "<|video|>");
    set_text(video->begin, "<|begin_of_image|>");
    set_text(video->end, "<|end_of_image|>");
}

static void publish_gemma4(const struct image_processor *images, struct video_processor *video)
{
    video->patch_frames = 1;
    video->num_frames = 32;
    video->frame = *images;
    video->frame.max_tokens = 70;
    set_text(video->soft, "<|video|>");
    set_text(video->marker, "<|video|>");
    set_text(video->begin, images->tokens.begin);
    set_text(video->end, images->tokens.end);
}

/* A frame is an image that is not split. */
static void publish_smolvlm(const struct image_processor *images, struct video_processor *video)
{
    video->patch_frames = 1;
    video->rate = 1;
    video->num_frames = 64;
    video->arithmetic = IMAGE_ARITHMETIC_TORCH;
    video->frame = *images;
    set_text(video->soft, images->tokens.soft);
    set_text(video->marker, "<video>");
    int length = snprintf(video->begin, sizeof video->begin, "%s%s", images->tokens.begin,
                          images->tokens.whole);
    must(length >= 0 && (size_t)length < sizeof video->begin);
    set_text(video->end, images->tokens.begin);
}

void video_processor_open_published(const struct image_processor *images,
                                    struct video_processor *video)
{
    *video = (struct video_processor){
        .rule = images->video_rule,
        .factor = images->patch * images->merge,
        .min_pixels = 128 * 28 * 28,
        .max_pixels = 768 * 28 * 28,
        .caps = true,
        .max_tokens = 128000,
        .rate = RATE,
        .patch_frames = VIDEO_PATCH_FRAMES,
        .min_frames = 4,
        .max_frames = LIMIT_VIDEO_FRAMES,
        .time_scale = 2,
        .filter = images->filter,
        .arithmetic = images->arithmetic,
        .hash_key = images->hash_key,
    };
    memcpy(video->scale, images->scale, sizeof video->scale);
    memcpy(video->bias, images->bias, sizeof video->bias);
    set_text(video->soft, "<|video_pad|>");
    set_text(video->marker, "<|video_pad|>");
    if (video->rule == VIDEO_RULE_OMNI) {
        set_text(video->soft, "<|VIDEO|>");
        set_text(video->marker, "<|VIDEO|>");
        video->time_scale = 25;
    }
    if (video->rule == VIDEO_RULE_GLM4V)
        publish_glm4v(images, video);
    if (video->rule == VIDEO_RULE_GEMMA4)
        publish_gemma4(images, video);
    if (video->rule == VIDEO_RULE_SMOLVLM)
        publish_smolvlm(images, video);
    if (video->rule != VIDEO_RULE_QWEN3)
        return;
    video->min_pixels = 4096;
    video->max_pixels = 24576 * 32 * 32;
    video->max_tokens = 768;
    set_text(video->begin, "<|vision_start|>");
    set_text(video->end, "<|vision_end|>");
}

/* One number for all channels, or three. */
static void read_channels(struct video_settings *s, const char *name, float out[IMAGE_CHANNELS])
{
    struct json_value list = json_value_member(s->object, name), element;
    uint32_t count = 0;
    bool good = true;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element); count++)
        good = good && count < IMAGE_CHANNELS && json_value_f32(element, &out[count]) == RESULT_OK;
    if (!good || count != IMAGE_CHANNELS)
        fail(s, RESULT_INVALID, name, "not three numbers");
}

/* Takes the video's own normalization if it states one. */
static void read_normalization(struct video_settings *s, struct video_processor *video)
{
    float rescale = 1.0f / 255.0f, mean[IMAGE_CHANNELS] = {0}, deviation[IMAGE_CHANNELS] = {0};
    if (json_value_type(json_value_member(s->object, "image_mean")) == JSON_ABSENT)
        return;
    if (json_value_f32(json_value_member(s->object, "rescale_factor"), &rescale) == RESULT_INVALID)
        fail(s, RESULT_INVALID, "rescale_factor", "not a number");
    read_channels(s, "image_mean", mean);
    read_channels(s, "image_std", deviation);
    for (uint32_t c = 0; c < IMAGE_CHANNELS && s->result == RESULT_OK; c++) {
        float scale = rescale / deviation[c], bias = -mean[c] / deviation[c];
        if (!(scale > 0 && scale <= IMAGE_SCALE_MAX && bias >= -IMAGE_SCALE_MAX &&
              bias <= IMAGE_SCALE_MAX))
            fail(s, RESULT_INVALID, "image_std or image_mean", "out of range");
        video->scale[c] = scale;
        video->bias[c] = bias;
    }
}

/* Fails for a step that is always done here and is turned off, and for another filter. */
static void check_steps(struct video_settings *s, const struct video_processor *video)
{
    static const char *const steps[] = {"do_resize", "do_convert_rgb", "do_rescale",
                                        "do_normalize"};
    /* gemma4's normalization changes nothing */
    size_t count = sizeof steps / sizeof steps[0] - (video->rule == VIDEO_RULE_GEMMA4 ? 1 : 0);
    uint32_t filter = video->filter == IMAGE_FILTER_LANCZOS ? 1 : 3; /* PIL's numbers */
    uint32_t wanted = filter;
    for (size_t i = 0; i < count; i++) {
        if (!read_bool(s, steps[i], true))
            fail(s, RESULT_UNSUPPORTED, steps[i], "only true is done");
    }
    if (json_value_u32(json_value_member(s->object, "resample"), &filter) == RESULT_INVALID ||
        filter != wanted)
        fail(s, RESULT_UNSUPPORTED, "resample", "this filter is not done");
    if (read_u32(s, s->object, "temporal_patch_size", UINT32_MAX, VIDEO_PATCH_FRAMES) !=
        VIDEO_PATCH_FRAMES)
        fail(s, RESULT_UNSUPPORTED, "temporal_patch_size", "only 2 is done");
}

static void read_gemma4(struct video_settings *s, struct video_processor *video)
{
    struct image_processor *frame = &video->frame;
    static const uint32_t counts[] = {70, 140, 280, 560, 1120};
    bool known = false;
    video->num_frames = read_u32(s, s->object, "num_frames", LIMIT_VIDEO_FRAMES, video->num_frames);
    frame->max_tokens =
        read_u32(s, s->object, "max_soft_tokens", LIMIT_IMAGE_TOKENS, frame->max_tokens);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        known = known || counts[i] == frame->max_tokens;
    if (!known)
        fail(s, RESULT_INVALID, "max_soft_tokens", "not 70, 140, 280, 560 or 1120");
    if (read_u32(s, s->object, "patch_size", UINT32_MAX, frame->patch) != frame->patch ||
        read_u32(s, s->object, "pooling_kernel_size", UINT32_MAX, frame->merge) != frame->merge)
        fail(s, RESULT_INVALID, "patch_size or pooling_kernel_size", "not those of images");
    if (json_value_type(json_value_member(s->object, "fps")) == JSON_NUMBER)
        fail(s, RESULT_UNSUPPORTED, "fps", "only null is done");
}

/* A size of its own has precedence over that of video_sampling, as in the publisher's code. */
static void read_smolvlm(struct video_settings *s, struct video_processor *video)
{
    struct json_value object = s->object, sampling = json_value_member(object, "video_sampling");
    struct image_processor *frame = &video->frame;
    if (json_value_type(sampling) != JSON_OBJECT)
        sampling = object;
    video->num_frames = read_u32(s, object, "num_frames", LIMIT_VIDEO_FRAMES, video->num_frames);
    video->num_frames = read_u32(s, sampling, "max_frames", LIMIT_VIDEO_FRAMES, video->num_frames);
    if (json_value_f32(json_value_member(sampling, "fps"), &video->rate) == RESULT_INVALID ||
        !(video->rate > 0 && video->rate <= 1000))
        fail(s, RESULT_INVALID, "fps", "not a number, or out of range");
    frame->longest_edge = read_u32(s, json_value_member(sampling, "video_size"), "longest_edge",
                                   SMOLVLM_SIDE, frame->longest_edge);
    frame->longest_edge = read_u32(s, json_value_member(object, "size"), "longest_edge",
                                   SMOLVLM_SIDE, frame->longest_edge);
    if (read_u32(s, json_value_member(object, "max_image_size"), "longest_edge", LIMIT_IMAGE_SIDE,
                 frame->side) != frame->side)
        fail(s, RESULT_INVALID, "max_image_size", "not that of images");
}

static void read_settings(struct video_settings *s, struct video_processor *video)
{
    struct json_value size = json_value_member(s->object, "size"), object = s->object;
    check_steps(s, video);
    if (video->rule == VIDEO_RULE_GEMMA4 || video->rule == VIDEO_RULE_SMOLVLM) {
        if (video->rule == VIDEO_RULE_GEMMA4)
            read_gemma4(s, video);
        else
            read_smolvlm(s, video);
        return;
    }
    video->max_seconds = read_u32(s, object, "max_duration", UINT32_MAX, video->max_seconds);
    video->min_pixels = read_u32(s, size, "shortest_edge", UINT32_MAX, video->min_pixels);
    video->max_pixels = read_u32(s, size, "longest_edge", UINT32_MAX, video->max_pixels);
    video->min_pixels = read_u32(s, object, "min_pixels", UINT32_MAX, video->min_pixels);
    video->max_pixels = read_u32(s, object, "max_pixels", UINT32_MAX, video->max_pixels);
    video->min_frames = read_u32(s, object, "min_frames", LIMIT_VIDEO_FRAMES, video->min_frames);
    video->max_frames = read_u32(s, object, "max_frames", UINT32_MAX, video->max_frames);
    video->max_tokens = read_u32(s, object, "max_video_tokens", UINT32_MAX, video->max_tokens);
    video->caps = read_bool(s, "cap_pixels_per_frame", video->caps);
    if (video->max_frames > LIMIT_VIDEO_FRAMES)
        video->max_frames = LIMIT_VIDEO_FRAMES;
    if (video->min_pixels > video->max_pixels)
        fail(s, RESULT_INVALID, "size", "the least is more than the most");
    if (json_value_f32(json_value_member(object, "fps"), &video->rate) == RESULT_INVALID ||
        !(video->rate > 0 && video->rate <= 1000))
        fail(s, RESULT_INVALID, "fps", "not a number, or out of range");
    read_normalization(s, video);
}

/* Positions a second are Qwen2.5-VL's setting; the default of its class is 4, published are 2. Qwen2.5-Omni has
 * them outside vision_config. */
static void read_time_scale(struct video_settings *s, struct json_value config,
                            struct video_processor *video)
{
    struct json_value vision = json_value_member(config, "vision_config");
    if (video->rule == VIDEO_RULE_OMNI)
        video->time_scale =
            (float)read_u32(s, hf_config_main(config), "position_id_per_seconds", 1000, 25);
    else
        video->time_scale = (float)read_u32(s, vision, "tokens_per_second", 1000, 4);
}

enum result video_processor_open_folder(int folder_fd, const struct image_processor *images,
                                        struct video_processor *video, struct error_text *error)
{
    struct json_value values[FILES] = {{0}};
    struct mapped_file files[FILES] = {{0}};
    static const char *const names[] = {"config.json", "video_preprocessor_config.json",
                                        "processor_config.json", "preprocessor_config.json"};
    struct error_text reason;
    enum result result = RESULT_OK;
    video_processor_open_published(images, video);
    if (video->rule == VIDEO_RULE_NONE)
        return RESULT_OK;
    for (size_t i = 0; i < FILES && result == RESULT_OK; i++) {
        result = mapped_file_open(folder_fd, names[i], &files[i], &reason);
        if (result == RESULT_OK)
            result = json_value_open(files[i].bytes, files[i].byte_count, LIMIT_JSON_FILE_BYTES,
                                     &values[i], &reason);
        else if (result == RESULT_NOT_FOUND && i > 0)
            result = RESULT_OK;
        if (result != RESULT_OK)
            result = error_set(error, result, "%s: %.180s", names[i], reason.text);
    }
    struct video_settings s = {json_value_member(values[2], "video_processor"), error, result};
    if (json_value_type(s.object) != JSON_OBJECT)
        s.object = values[1];
    if (json_value_type(s.object) != JSON_OBJECT && video->rule == VIDEO_RULE_SMOLVLM)
        s.object = values[3]; /* where its publisher has video_sampling */
    if (result == RESULT_OK) {
        read_settings(&s, video);
        read_time_scale(&s, values[0], video);
    }
    for (size_t i = 0; i < FILES; i++)
        mapped_file_close(&files[i]);
    return s.result;
}
