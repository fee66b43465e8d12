/*
 * Which frames of a file are shown to GLM-4V, Gemma 4 and SmolVLM, as in transformers 5.24: Glm4vVideoProcessor.sample_frames(),
 * default_sample_indices_fn() and SmolVLMVideoProcessor.sample_frames().
 *
 * They differ in one case: of a video with fewer frames than Gemma 4 wants all are shown, where the original
 * fails.
 */
#include <math.h>

#include "frontend/image/video_processor.h"

/* A frame that was shown is not shown again. */
static void add_frame(double index, const struct video_clip *clip, struct video_plan *plan)
{
    uint32_t last = clip->frames - 1, at = index < last ? (uint32_t)index : last;
    if (plan->frames == 0 || plan->indices[plan->frames - 1] < at)
        plan->indices[plan->frames++] = at;
}

/* The first frame that begins at or after each sampled time. */
void video_sampling_glm4v(const struct video_processor *p, double rate, uint32_t max_frames,
                          const struct video_clip *clip, struct video_plan *plan)
{
    double seconds = clip->frames / clip->rate;
    bool cut = seconds > p->max_seconds;
    double wanted = floor((cut ? p->max_seconds : seconds) * rate);
    plan->frames = 0;
    if (wanted > max_frames) { /* a bound of this server or the request: fewer a second */
        rate *= max_frames / wanted;
        wanted = max_frames;
    }
    uint32_t count = wanted > 1 ? (uint32_t)wanted : 1;
    double step = count > 1 ? seconds / (count - 1) : 0;
    for (uint32_t i = 0; i < count; i++) {
        double at = cut ? (i + 1 < count ? i * step : seconds) * clip->rate : i * clip->rate / rate;
        add_frame(cut && count >= clip->frames ? i : ceil(at), clip, plan);
    }
}

/* A number of frames, or those that a rate gives, at equal distances. */
void video_sampling_gemma4(const struct video_processor *p, double rate, uint32_t max_frames,
                           const struct video_clip *clip, struct video_plan *plan)
{
    double wanted = p->num_frames;
    if (rate > 0)
        wanted = fmax(1, trunc(clip->frames / clip->rate * rate));
    wanted = fmin(fmin(wanted, max_frames), clip->frames);
    plan->frames = (uint32_t)wanted;
    for (uint32_t i = 0; i < plan->frames; i++)
        plan->indices[i] = (uint32_t)((uint64_t)i * clip->frames / plan->frames);
}

#define SKIPPED_SECONDS 1

/* From the first frame to the last, or of long videos from one second after the start to one before the end:
 * numpy.linspace(first, last, number), cut to whole numbers. */
void video_sampling_smolvlm(const struct video_processor *p, double rate, uint32_t max_frames,
                            const struct video_clip *clip, struct video_plan *plan)
{
    double seconds = clip->frames / clip->rate, last = clip->frames - 1;
    double most = fmin(p->num_frames, max_frames), first = 0, end = last;
    double wanted = fmax(1, fmin(rint(rate * seconds), most));
    if (seconds - 2 * SKIPPED_SECONDS > most * rate) {
        first = trunc(SKIPPED_SECONDS * clip->rate);
        end = fmin(trunc(clip->frames - SKIPPED_SECONDS * clip->rate), last);
    }
    if (first >= end) {
        first = 0;
        end = last;
    }
    uint32_t count = (uint32_t)wanted;
    double step = count > 1 ? (end - first) / (count - 1) : 0;
    plan->frames = 0;
    for (uint32_t i = 0; i < count; i++)
        add_frame(i > 0 && i + 1 == count ? end : floor(i * step + first), clip, plan);
}
