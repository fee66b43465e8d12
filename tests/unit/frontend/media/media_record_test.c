/*
 * A reply is accepted only as a whole: each rule of media_record.h, broken alone, refuses it under
 * the rule's name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/media/media_record.h"
#include "proto/limits.h"

#define ID 7

static struct media_reply header_reply(void)
{
    return (struct media_reply){.id = ID,
                                .result = RESULT_OK,
                                .kind = IMAGE_JPEG,
                                .width = 640,
                                .height = 480,
                                .orientation = 6,
                                .scans = 10};
}

static struct media_reply failed_reply(void)
{
    return (struct media_reply){.id = ID, .result = RESULT_INVALID, .text = "the JPEG is cut off"};
}

static void accept(const struct media_reply *reply, enum media_action action)
{
    struct error_text error = {""};
    if (media_reply_check(reply, sizeof *reply, ID, action, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

static void refuse(const struct media_reply *reply, enum media_action action, const char *rule)
{
    struct error_text error = {""};
    assert_int_equal(media_reply_check(reply, sizeof *reply, ID, action, &error), RESULT_CORRUPT);
    if (strncmp(error.text, rule, 2) != 0)
        fail_msg("%s instead of %s", error.text, rule);
}

static void valid_replies_are_accepted(void **state)
{
    (void)state;
    const struct media_reply probed = header_reply(), failed = failed_reply();
    const struct media_reply decoded = {.id = ID, .result = RESULT_OK};
    accept(&probed, MEDIA_PROBE);
    accept(&decoded, MEDIA_DECODE);
    accept(&failed, MEDIA_PROBE);
    accept(&failed, MEDIA_DECODE);
    const struct image_header header = media_reply_header(&probed);
    assert_true(header.kind == IMAGE_JPEG && header.width == 640 && header.height == 480);
    assert_true(header.orientation == 6 && header.scans == 10);
}

static void messages_of_another_size_or_request_are_refused(void **state)
{
    (void)state;
    struct error_text error;
    const struct media_reply reply = header_reply();
    static const size_t sizes[] = {0, 1, sizeof reply - 1, sizeof reply + 1, 65536};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_int_equal(media_reply_check(&reply, sizes[i], ID, MEDIA_PROBE, &error),
                         RESULT_CORRUPT);
    assert_int_equal(media_reply_check(&reply, sizeof reply, ID + 1, MEDIA_PROBE, &error),
                     RESULT_CORRUPT);
}

static void unknown_results_are_refused(void **state)
{
    (void)state;
    static const uint32_t results[] = {RESULT_FULL,      RESULT_CORRUPT, RESULT_PEER_GONE,
                                       RESULT_CANCELLED, RESULT_COUNT,   UINT32_MAX};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        struct media_reply reply = failed_reply();
        reply.result = results[i];
        refuse(&reply, MEDIA_PROBE, "R2");
    }
}

static void headers_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint32_t value;
    } rows[] = {
        {offsetof(struct media_reply, kind), IMAGE_KINDS},
        {offsetof(struct media_reply, kind), UINT32_MAX},
        {offsetof(struct media_reply, kind), IMAGE_PNG}, /* of 10 scans */
        {offsetof(struct media_reply, width), 0},
        {offsetof(struct media_reply, width), LIMIT_SOURCE_IMAGE_SIDE + 1},
        {offsetof(struct media_reply, width), UINT32_MAX},
        {offsetof(struct media_reply, height), 0},
        {offsetof(struct media_reply, height), LIMIT_SOURCE_IMAGE_SIDE + 1},
        {offsetof(struct media_reply, orientation), 0},
        {offsetof(struct media_reply, orientation), 9},
        {offsetof(struct media_reply, orientation), 257}, /* 1 in eight bits */
        {offsetof(struct media_reply, scans), 0},
        {offsetof(struct media_reply, scans), LIMIT_JPEG_SCANS + 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct media_reply reply = header_reply();
        memcpy((char *)&reply + rows[i].offset, &rows[i].value, sizeof rows[i].value);
        refuse(&reply, MEDIA_PROBE, "R4");
    }
    struct media_reply large = header_reply();
    large.width = large.height = LIMIT_SOURCE_IMAGE_SIDE; /* each side alone is allowed */
    refuse(&large, MEDIA_PROBE, "R4");
}

static void a_header_comes_only_with_a_probe(void **state)
{
    (void)state;
    struct media_reply reply = header_reply();
    refuse(&reply, MEDIA_DECODE, "R4");
    reply = (struct media_reply){.id = ID, .result = RESULT_OK};
    refuse(&reply, MEDIA_PROBE, "R4");
    reply = failed_reply();
    reply.width = 1;
    refuse(&reply, MEDIA_PROBE, "R4");
}

static void texts_must_be_bounded_and_printable(void **state)
{
    (void)state;
    struct media_reply reply = failed_reply();
    memset(reply.text, 'a', sizeof reply.text);
    refuse(&reply, MEDIA_DECODE, "R6");
    reply.text[sizeof reply.text - 1] = '\0';
    accept(&reply, MEDIA_DECODE);
    static const char bytes[] = {'\n', '\x1b', '\x7f', '\x80', '\xff'};
    for (size_t i = 0; i < sizeof bytes; i++) {
        reply.text[100] = bytes[i];
        refuse(&reply, MEDIA_DECODE, "R6");
    }
    reply = failed_reply();
    reply.text[0] = '\0';
    refuse(&reply, MEDIA_DECODE, "R6");
    reply = (struct media_reply){.id = ID, .result = RESULT_OK, .text = "fine"};
    refuse(&reply, MEDIA_DECODE, "R6");
}

static void reserved_bytes_are_zero(void **state)
{
    (void)state;
    for (size_t at = offsetof(struct media_reply, reserved);
         at < offsetof(struct media_reply, text); at++) {
        struct media_reply reply = header_reply();
        ((char *)&reply)[at] = 1;
        refuse(&reply, MEDIA_PROBE, "R5");
    }
    struct media_reply reply = header_reply();
    reply.sandbox = MEDIA_SANDBOX_SECCOMP;
    refuse(&reply, MEDIA_PROBE, "R3");
}

static struct media_reply audio_reply(void)
{
    return (struct media_reply){.id = ID, .result = RESULT_OK, .kind = AUDIO_OGG, .samples = 16000};
}

static void headers_of_audio_are_checked(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint32_t value;
    } rows[] = {
        {offsetof(struct media_reply, kind), AUDIO_KINDS},
        {offsetof(struct media_reply, samples), 0},
        {offsetof(struct media_reply, samples), LIMIT_AUDIO_SAMPLES + 1},
        {offsetof(struct media_reply, width), 1},
        {offsetof(struct media_reply, scans), 1},
        {offsetof(struct media_reply, frames), 1},
    };
    struct media_reply reply = audio_reply();
    accept(&reply, MEDIA_AUDIO_PROBE);
    const struct audio_header header = media_reply_audio(&reply, 24000);
    assert_true(header.kind == AUDIO_OGG && header.samples == 16000 && header.rate == 24000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reply = audio_reply();
        memcpy((char *)&reply + rows[i].offset, &rows[i].value, sizeof rows[i].value);
        refuse(&reply, MEDIA_AUDIO_PROBE, "R4");
    }
    reply = audio_reply();
    refuse(&reply, MEDIA_AUDIO_DECODE, "R4");
    refuse(&reply, MEDIA_VIDEO_PROBE, "R4");
    struct media_reply image = header_reply();
    image.samples = 1;
    refuse(&image, MEDIA_PROBE, "R4");
}

static void requests_of_audio_are_checked(void **state)
{
    (void)state;
    static const struct {
        uint32_t action, rate, samples;
        enum result result;
    } rows[] = {
        {MEDIA_AUDIO_PROBE, 16000, 0, RESULT_OK},
        {MEDIA_AUDIO_DECODE, 16000, LIMIT_AUDIO_SAMPLES, RESULT_OK},
        {MEDIA_AUDIO_PROBE, 16000, 1, RESULT_CORRUPT},
        {MEDIA_AUDIO_PROBE, 0, 0, RESULT_CORRUPT},
        {MEDIA_AUDIO_PROBE, LIMIT_AUDIO_RATE_MOST + 1, 0, RESULT_CORRUPT},
        {MEDIA_AUDIO_DECODE, 16000, 0, RESULT_CORRUPT},
        {MEDIA_AUDIO_DECODE, 16000, LIMIT_AUDIO_SAMPLES + 1, RESULT_CORRUPT},
        {MEDIA_PROBE, 16000, 0, RESULT_CORRUPT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error_text error;
        const struct media_request request = {.id = 1,
                                              .action = rows[i].action,
                                              .byte_count = 100,
                                              .rate = rows[i].rate,
                                              .samples = rows[i].samples};
        assert_int_equal(media_request_check(&request, sizeof request, &error), rows[i].result);
    }
}

static void a_greeting_is_no_answer(void **state)
{
    (void)state;
    struct error_text error;
    struct media_reply greeting = {.result = RESULT_OK, .sandbox = MEDIA_SANDBOX_ALL};
    assert_int_equal(media_greeting_check(&greeting, sizeof greeting, &error), RESULT_OK);
    refuse(&greeting, MEDIA_DECODE, "R1");
    greeting.sandbox = MEDIA_SANDBOX_ALL + 1;
    assert_int_equal(media_greeting_check(&greeting, sizeof greeting, &error), RESULT_CORRUPT);
    greeting = (struct media_reply){.id = 1, .result = RESULT_OK};
    assert_int_equal(media_greeting_check(&greeting, sizeof greeting, &error), RESULT_CORRUPT);
    greeting = (struct media_reply){.result = RESULT_INVALID, .text = "no"};
    assert_int_equal(media_greeting_check(&greeting, sizeof greeting, &error), RESULT_CORRUPT);
}

static struct media_reply video_reply(void)
{
    return (struct media_reply){.id = ID,
                                .result = RESULT_OK,
                                .kind = VIDEO_WEBP,
                                .width = 640,
                                .height = 480,
                                .frames = LIMIT_VIDEO_SOURCE_FRAMES,
                                .duration_us = LIMIT_VIDEO_US,
                                .work_pixels = LIMIT_VIDEO_SOURCE_PIXELS};
}

static void videos_have_headers_of_their_own(void **state)
{
    (void)state;
    struct media_reply reply = video_reply();
    accept(&reply, MEDIA_VIDEO_PROBE);
    refuse(&reply, MEDIA_PROBE, "R4");
    refuse(&reply, MEDIA_VIDEO_DECODE, "R4");
    refuse(&reply, MEDIA_DECODE, "R4");
    const struct video_header header = media_reply_video(&reply);
    assert_true(header.kind == VIDEO_WEBP && header.width == 640 && header.height == 480);
    assert_true(header.frames == LIMIT_VIDEO_SOURCE_FRAMES && header.duration_us == LIMIT_VIDEO_US);
#define REFUSE_VIDEO(field, value)                                                                 \
    do {                                                                                           \
        reply = video_reply();                                                                     \
        reply.field = value;                                                                       \
        refuse(&reply, MEDIA_VIDEO_PROBE, "R4");                                                   \
    } while (0)
    REFUSE_VIDEO(kind, VIDEO_KINDS);
    REFUSE_VIDEO(width, 0);
    REFUSE_VIDEO(height, LIMIT_SOURCE_IMAGE_SIDE + 1);
    REFUSE_VIDEO(width, LIMIT_VIDEO_FRAME_PIXELS / 480 + 1);
    REFUSE_VIDEO(frames, 0);
    REFUSE_VIDEO(frames, LIMIT_VIDEO_SOURCE_FRAMES + 1);
    REFUSE_VIDEO(duration_us, 0);
    REFUSE_VIDEO(duration_us, LIMIT_VIDEO_US + 1);
    REFUSE_VIDEO(work_pixels, LIMIT_VIDEO_SOURCE_PIXELS + 1);
    REFUSE_VIDEO(orientation, 1);
    REFUSE_VIDEO(scans, 1);
#undef REFUSE_VIDEO
    reply = header_reply();
    reply.frames = 1;
    refuse(&reply, MEDIA_PROBE, "R4");
}

static void requests_for_frames_are_checked(void **state)
{
    struct error_text error;
    const struct media_request good = {.id = 1,
                                       .action = MEDIA_VIDEO_DECODE,
                                       .byte_count = 9,
                                       .width = LIMIT_VIDEO_PIXELS / LIMIT_VIDEO_FRAMES / 100,
                                       .height = 100,
                                       .frame_count = LIMIT_VIDEO_FRAMES,
                                       .filter = IMAGE_FILTER_BICUBIC,
                                       .arithmetic = IMAGE_ARITHMETIC_TORCH};
    (void)state;
    assert_int_equal(media_request_check(&good, sizeof good, &error), RESULT_OK);
    const struct media_request probe = {.id = 1, .action = MEDIA_VIDEO_PROBE, .byte_count = 9};
    assert_int_equal(media_request_check(&probe, sizeof probe, &error), RESULT_OK);
    struct media_request bad[6];
    for (size_t i = 0; i < 6; i++)
        bad[i] = good;
    bad[0].frame_count = 0;
    bad[1].frame_count = LIMIT_VIDEO_FRAMES + 1;
    bad[2].width += 1;
    bad[3].filter = IMAGE_FILTERS;
    bad[4].arithmetic = IMAGE_ARITHMETIC_TORCH + 1;
    bad[5].action = MEDIA_DECODE;
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(media_request_check(&bad[i], sizeof bad[i], &error), RESULT_CORRUPT);
}

static void requests_of_no_frontend_are_refused(void **state)
{
    (void)state;
    struct error_text error;
    const struct media_request probe = {.id = 1, .action = MEDIA_PROBE, .byte_count = 100};
    const struct media_request decode = {
        .id = 2, .action = MEDIA_DECODE, .byte_count = 100, .width = 4, .height = 3};
    assert_int_equal(media_request_check(&probe, sizeof probe, &error), RESULT_OK);
    assert_int_equal(media_request_check(&decode, sizeof decode, &error), RESULT_OK);
    assert_int_equal(media_request_check(&decode, sizeof decode - 1, &error), RESULT_CORRUPT);
    struct media_request other = decode;
    other.byte_count = LIMIT_SOURCE_IMAGE_BYTES + 1;
    assert_int_equal(media_request_check(&other, sizeof other, &error), RESULT_CORRUPT);
    other = decode;
    other.height = 0;
    assert_int_equal(media_request_check(&other, sizeof other, &error), RESULT_CORRUPT);
    other = decode;
    other.action = MEDIA_PROBE; /* with a size */
    assert_int_equal(media_request_check(&other, sizeof other, &error), RESULT_CORRUPT);
    other.action = MEDIA_VIDEO_DECODE + 1;
    assert_int_equal(media_request_check(&other, sizeof other, &error), RESULT_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_replies_are_accepted),
        cmocka_unit_test(messages_of_another_size_or_request_are_refused),
        cmocka_unit_test(unknown_results_are_refused),
        cmocka_unit_test(headers_out_of_range_are_refused),
        cmocka_unit_test(a_header_comes_only_with_a_probe),
        cmocka_unit_test(texts_must_be_bounded_and_printable),
        cmocka_unit_test(reserved_bytes_are_zero),
        cmocka_unit_test(headers_of_audio_are_checked),
        cmocka_unit_test(requests_of_audio_are_checked),
        cmocka_unit_test(a_greeting_is_no_answer),
        cmocka_unit_test(requests_of_no_frontend_are_refused),
        cmocka_unit_test(videos_have_headers_of_their_own),
        cmocka_unit_test(requests_for_frames_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
