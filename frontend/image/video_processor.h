/*
 * A video processor: the preparation of a video for a checkpoint's vision tower, as in Hugging Face's
 * video processors and Qwen's own qwen-vl-utils. It decides which frames are shown and their size, the
 * number of tokens, the text that replaces the marker that the chat template wrote, and the positions
 * in time.
 *
 *   video_processor_plan -> video_processor_expand   (before anything is decoded)
 *   video_processor_fit                              (one frame after the other)
 *   video_processor_hash                             (the frames of one temporal patch)
 *
 * The frames of a patch are one image_record (proto/image_record.h); a last frame without a partner is shown
 * twice. An open processor is immutable, so threads share it.
 */
#ifndef SHOAL_FRONTEND_IMAGE_VIDEO_PROCESSOR_H
#define SHOAL_FRONTEND_IMAGE_VIDEO_PROCESSOR_H

#include "frontend/image/image_processor.h"

#define VIDEO_PATCH_FRAMES 2u /* of most rules; gemma4: 1 */

struct video_processor {
    enum video_rule rule;
    uint32_t factor;     /* pixels of a feature's side */
    uint32_t min_pixels; /* of a resized frame; qwen3_vl: of all together */
    uint32_t max_pixels;
    bool caps;           /* max_tokens holds */
    uint32_t max_tokens; /* of all temporal patches; qwen3_vl: of a frame */
    float rate;          /* frames a second that are sampled */
    uint32_t patch_frames;
    uint32_t min_frames;
    /* gemma4: that are sampled of a file, unless a rate is asked for; smolvlm: the most of them */
    uint32_t num_frames;
    uint32_t max_seconds; /* glm4v: of longer videos frames are sampled as of one so long */
    uint32_t max_frames;  /* <= LIMIT_VIDEO_FRAMES */
    float time_scale;     /* qwen2_5_vl and qwen2_5_omni: positions a second */
    enum image_filter filter;
    enum image_arithmetic arithmetic;
    float scale[IMAGE_CHANNELS];
    float bias[IMAGE_CHANNELS];
    struct image_processor frame;          /* gemma4, smolvlm: of a frame's size */
    char marker[LIMIT_IMAGE_MARKER_BYTES]; /* the template writes it once for a video */
    char soft[LIMIT_IMAGE_MARKER_BYTES];   /* a placeholder */
    /* Around the placeholders of a patch that has a time as text; smolvlm's beginning is two tokens. */
    char begin[2 * LIMIT_IMAGE_MARKER_BYTES];
    char end[LIMIT_IMAGE_MARKER_BYTES];
    struct keyed_hash_key hash_key;
};

/* Reads the settings of a checkpoint's folder whose image processor is open. VIDEO_RULE_NONE and
 * RESULT_OK if its family takes no videos here. RESULT_UNSUPPORTED or RESULT_INVALID for a setting
 * that is not implemented or out of range; the text names it. */
enum result video_processor_open_folder(int folder_fd, const struct image_processor *images,
                                        struct video_processor *video,
                                        struct error_text *error) RESULT_CHECKED;
/* The published settings of the family, for GGUF models. */
void video_processor_open_published(const struct image_processor *images,
                                    struct video_processor *video);

/* A video as its headers describe it. */
struct video_clip {
    uint32_t width; /* 1..LIMIT_SOURCE_IMAGE_SIDE */
    uint32_t height;
    uint32_t frames; /* 1..LIMIT_VIDEO_SOURCE_FRAMES */
    double rate;     /* frames a second, above 0 */
    bool chosen;     /* a list of frames: all are shown */
};

/* A request's settings for one video; zeroed: none. */
struct video_request {
    double rate;         /* instead of the processor's */
    uint32_t max_frames; /* likewise, if less */
};

struct video_plan {
    double rate;     /* of the source */
    double asked;    /* frames a second that were to be shown */
    uint32_t source; /* frames */
    uint32_t width;  /* of a resized frame */
    uint32_t height;
    uint32_t scaled_width; /* smolvlm: that it is resized to first; else 0 */
    uint32_t scaled_height;
    uint32_t frames;                      /* that are shown */
    uint32_t indices[LIMIT_VIDEO_FRAMES]; /* [frames] ascending */
    uint32_t patches;                     /* temporal ones */
    uint32_t patch_frames;                /* of each */
    bool chosen;                          /* a list of frames */
    uint32_t patch_tokens;
    size_t frame_bytes; /* of a resized frame */
};

/* RESULT_INVALID for a shape that the processor rejects, RESULT_TOO_LARGE for more than
 * LIMIT_VIDEO_* or LIMIT_IMAGE_* or a time beyond LIMIT_VIDEO_TIME. */
enum result video_processor_plan(const struct video_processor *processor,
                                 const struct video_clip *clip, const struct video_request *request,
                                 struct video_plan *plan, struct error_text *error) RESULT_CHECKED;

/* The position in time of a temporal patch after the first one; 0 if the patches are not joined. */
uint32_t video_plan_time(const struct video_processor *processor, const struct video_plan *plan,
                         uint32_t patch);
/* Whether patches continue the positions of the one before (image_record.joined). */
bool video_processor_joins(const struct video_processor *processor);

/* Appends the text that replaces the marker, with plan->patches * plan->patch_tokens placeholders. */
void video_processor_expand(const struct video_processor *processor, const struct video_plan *plan,
                            struct text_buffer *text);

/* Resizes a decoded frame, of its full size or of scaled_width x scaled_height, into out[plan->frame_bytes].
 * RESULT_OUT_OF_MEMORY. */
enum result video_processor_fit(const struct video_processor *processor,
                                const struct video_plan *plan, const struct image_pixels *frame,
                                uint8_t *out, struct error_text *error) RESULT_CHECKED;

/* The hash of the frames of a temporal patch, as image_processor_run() makes it. */
void video_processor_hash(const struct video_processor *processor, const struct video_plan *plan,
                          const uint8_t *frames, uint8_t hash[IMAGE_HASH_BYTES]);

/* Further rules of frames that are shown (video_sampling.c): sets plan->frames and its indices, at most
 * max_frames. */
void video_sampling_glm4v(const struct video_processor *p, double rate, uint32_t max_frames,
                          const struct video_clip *clip, struct video_plan *plan);
void video_sampling_gemma4(const struct video_processor *p, double rate, uint32_t max_frames,
                           const struct video_clip *clip, struct video_plan *plan);
void video_sampling_smolvlm(const struct video_processor *p, double rate, uint32_t max_frames,
                            const struct video_clip *clip, struct video_plan *plan);

/* The first line of smolvlm's text (video_intro.c). */
void video_intro_append(const struct video_plan *plan, struct text_buffer *text);

#endif
