/*
 * The line before SmolVLM's frames: numbers as num2words 0.5.14 writes them, durations as Python's timedelta.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "frontend/image/video_processor.h"

static void expect(const struct video_plan *plan, const char *words, const char *lasts)
{
    struct text_buffer text = {0};
    char line[256];
    snprintf(line, sizeof line,
             "You are provided the following series of %s frames from a %s [H:MM:SS] video.\n",
             words, lasts);
    video_intro_append(plan, &text);
    text_buffer_append(&text, "", 1);
    assert_string_equal(text.bytes, line);
    text_buffer_fini(&text);
}

static void numbers_are_words(void **state)
{
    (void)state;
    static const struct {
        uint32_t frames;
        const char *words;
    } rows[] = {{1, "one"},
                {13, "thirteen"},
                {20, "twenty"},
                {21, "twenty-one"},
                {64, "sixty-four"},
                {100, "one hundred"},
                {101, "one hundred and one"},
                {345, "three hundred and forty-five"},
                {768, "seven hundred and sixty-eight"}};
    static struct video_plan plan;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        plan = (struct video_plan){.frames = rows[i].frames, .source = 59, .rate = 1};
        expect(&plan, rows[i].words, "0:00:59");
    }
}

static void durations_are_whole_seconds(void **state)
{
    (void)state;
    static const struct {
        uint32_t frames;
        double rate;
        const char *lasts;
    } rows[] = {{1, 2, "0:00:00"},
                {1799, 30, "0:00:59"},
                {7323, 2, "1:01:01"},
                {86400, 1, "1 day, 0:00:00"},
                {90061, 1, "1 day, 1:01:01"},
                {86400, 0.5, "2 days, 0:00:00"}};
    static struct video_plan plan;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        plan = (struct video_plan){.frames = 2, .source = rows[i].frames, .rate = rows[i].rate};
        expect(&plan, "two", rows[i].lasts);
    }
    /* Of a list the time of its last frame. */
    plan = (struct video_plan){
        .frames = 3, .source = 3, .rate = 0.5, .chosen = true, .indices = {0, 1, 2}};
    expect(&plan, "three", "0:00:04");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_words),
        cmocka_unit_test(durations_are_whole_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
