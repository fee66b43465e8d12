/*
 * Plans of videos are those of transformers' processors with the published settings
 * (scripts/golden/video_plans.py): frames shown, size and tokens. Times and texts follow the rule of each
 * family; what is too large is refused before anything is decoded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/image/video_processor.h"
#include "proto/limits.h"
#include "proto/must.h"

static struct video_processor processor_of(enum video_rule rule)
{
    struct video_processor video;
    bool gemma = rule == VIDEO_RULE_GEMMA4;
    struct image_processor images = {.family = gemma ? IMAGE_FAMILY_GEMMA4 : IMAGE_FAMILY_QWEN,
                                     .video_rule = rule,
                                     .patch = rule == VIDEO_RULE_QWEN3 || gemma ? 16 : 14,
                                     .most_side = 10240,
                                     .side = 364,
                                     .longest_edge = 364,
                                     .merge = gemma ? 3 : 2};
    video_processor_open_published(&images, &video);
    return video;
}

static void plans_are_those_of_transformers(void **state)
{
    unsigned rule, shown, tokens, count = 0, refused = 0;
    unsigned long long weighted;
    struct video_clip clip = {0};
    static struct video_plan plan;
    const struct video_request none = {0};
    FILE *file = fopen("tests/golden/videos/plans.txt", "r");
    (void)state;
    must(file != NULL);
    for (; fscanf(file, "%u %u %lf %u %u %u %llu %u", &rule, &clip.frames, &clip.rate, &clip.width,
                  &clip.height, &shown, &weighted, &tokens) == 8;
         count++) {
        static const enum video_rule rules[] = {VIDEO_RULE_QWEN2, VIDEO_RULE_QWEN3,
                                                VIDEO_RULE_GLM4V, VIDEO_RULE_GEMMA4,
                                                VIDEO_RULE_SMOLVLM};
        must(rule >= 2 && rule < 7);
        struct video_processor video = processor_of(rules[rule - 2]);
        struct error_text error = {""};
        enum result result = video_processor_plan(&video, &clip, &none, &plan, &error);
        uint64_t found = 0;
        for (uint32_t i = 0; i < plan.frames; i++)
            found += (uint64_t)(i + 1) * plan.indices[i];
        assert_int_equal(plan.frames, shown);
        assert_int_equal(found, weighted);
        if (result == RESULT_TOO_LARGE) { /* longer than this server's bound */
            assert_true((uint64_t)tokens * video.factor * video.factor * VIDEO_PATCH_FRAMES >
                        LIMIT_VIDEO_PIXELS);
            refused++;
            continue;
        }
        assert_int_equal(result, RESULT_OK);
        assert_int_equal(plan.patches * plan.patch_tokens, tokens);
    }
    fclose(file);
    assert_int_equal(count, 750);
    assert_true(refused < 200);
}

static void plan(const struct video_processor *video, const struct video_clip *clip,
                 struct video_plan *made)
{
    struct error_text error = {""};
    const struct video_request none = {0};
    if (video_processor_plan(video, clip, &none, made, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

/* 16 frames in four seconds: eight are shown, half a second apart. */
static void times_follow_the_family(void **state)
{
    static struct video_plan made;
    const struct video_clip clip = {.width = 64, .height = 64, .frames = 16, .rate = 4};
    (void)state;
    struct video_processor video = processor_of(VIDEO_RULE_QWEN2);
    plan(&video, &clip, &made);
    assert_int_equal(made.frames, 8);
    assert_int_equal(video_plan_time(&video, &made, 3), 3);
    assert_true(video_processor_joins(&video));
    video = processor_of(VIDEO_RULE_QWEN2_5); /* a second a patch, two positions a second */
    plan(&video, &clip, &made);
    assert_int_equal(video_plan_time(&video, &made, 3), 6);
    video.time_scale = 2.5f;
    assert_int_equal(video_plan_time(&video, &made, 3), 7);
    video = processor_of(VIDEO_RULE_OMNI); /* of the rate that is asked for, whichever is shown */
    plan(&video, &clip, &made);
    assert_int_equal(video_plan_time(&video, &made, 3), 75);
    const struct video_request slow = {.rate = 0.7};
    must(video_processor_plan(&video, &clip, &slow, &made, &(struct error_text){""}) == RESULT_OK);
    assert_int_equal(video_plan_time(&video, &made, 1), 71);
    video = processor_of(VIDEO_RULE_QWEN3);
    plan(&video, &clip, &made);
    assert_false(video_processor_joins(&video));
    assert_int_equal(video_plan_time(&video, &made, 3), 0);
    struct text_buffer text = {0};
    made.patch_tokens = 1;
    video_processor_expand(&video, &made, &text);
    text_buffer_append(&text, "", 1);
    /* frames 0, 2, 4, 6, 9, 11, 13, 15 of numpy.linspace(0, 15, 8).round() */
    static const char expected[] = "<0.2 seconds><|vision_start|><|video_pad|><|vision_end|>"
                                   "<1.2 seconds><|vision_start|><|video_pad|><|vision_end|>"
                                   "<2.5 seconds><|vision_start|><|video_pad|><|vision_end|>"
                                   "<3.5 seconds><|vision_start|><|video_pad|><|vision_end|>";
    assert_string_equal(text.bytes, expected);
    text_buffer_fini(&text);
}

static void refuse(const struct video_clip *clip, const struct video_request *request,
                   enum result expected, const char *words)
{
    static struct video_plan made;
    struct error_text error = {""};
    const struct video_processor video = processor_of(VIDEO_RULE_QWEN2_5);
    assert_int_equal(video_processor_plan(&video, clip, request, &made, &error), expected);
    assert_non_null(strstr(error.text, words));
}

static void what_is_too_large_is_refused(void **state)
{
    const struct video_request none = {0}, few = {.max_frames = 3};
    struct video_clip list = {.width = 640, .height = 480, .frames = 4, .rate = 2, .chosen = true};
    (void)state;
    refuse(&list, &few, RESULT_TOO_LARGE, "4 frames is more than 3");
    list.frames = LIMIT_VIDEO_FRAMES + 1;
    refuse(&list, &none, RESULT_TOO_LARGE, "769 frames is more than 768");
    list.frames = 4;
    list.rate = 1e-5;
    refuse(&list, &none, RESULT_TOO_LARGE, "lasts too long");
    const struct video_clip thin = {.width = 3000, .height = 10, .frames = 4, .rate = 2};
    refuse(&thin, &none, RESULT_INVALID, "too thin");
    const struct video_clip large = {
        .width = 4096, .height = 4096, .frames = LIMIT_VIDEO_SOURCE_FRAMES, .rate = 30};
    refuse(&large, &none, RESULT_TOO_LARGE, "max_frames shows fewer");
}

/* The hash of a patch depends on each of its frames, and on what is not in its pixels. */
static void hashes_know_every_frame(void **state)
{
    static struct video_plan made;
    struct video_processor video = processor_of(VIDEO_RULE_QWEN2);
    const struct video_clip clip = {.width = 64, .height = 64, .frames = 4, .rate = 2};
    uint8_t hashes[4][IMAGE_HASH_BYTES];
    (void)state;
    plan(&video, &clip, &made);
    size_t bytes = made.frame_bytes * VIDEO_PATCH_FRAMES;
    uint8_t *frames = must_alloc(bytes, 1);
    video_processor_hash(&video, &made, frames, hashes[0]);
    frames[0] = 1;
    video_processor_hash(&video, &made, frames, hashes[1]);
    frames[0] = 0;
    frames[bytes - 1] = 1;
    video_processor_hash(&video, &made, frames, hashes[2]);
    frames[bytes - 1] = 0;
    video.scale[1] += 0.5f;
    video_processor_hash(&video, &made, frames, hashes[3]);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_memory_not_equal(hashes[i], hashes[j], IMAGE_HASH_BYTES);
    free(frames);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_those_of_transformers),
        cmocka_unit_test(times_follow_the_family),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(hashes_know_every_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
