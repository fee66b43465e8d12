/*
 * The line before SmolVLM's frames: their number in words and how long the video lasts, as num2words and
 * timedelta of Python write them.
 *
 * Source: transformers, processing_smolvlm.py.
 */
#include "frontend/image/video_processor.h"
#include "proto/must.h"

#define DAY_SECONDS 86400u

/* A number below a thousand. */
static void append_words(uint32_t number, struct text_buffer *text)
{
    static const char *const small[] = {"zero",    "one",     "two",       "three",    "four",
                                        "five",    "six",     "seven",     "eight",    "nine",
                                        "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                        "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
    static const char *const tens[] = {"twenty", "thirty",  "forty",  "fifty",
                                       "sixty",  "seventy", "eighty", "ninety"};
    must(number < 1000);
    if (number >= 100) {
        text_buffer_append_format(text, "%s hundred%s", small[number / 100],
                                  number % 100 > 0 ? " and " : "");
        number %= 100;
        if (number == 0)
            return;
    }
    if (number < 20) {
        text_buffer_append_text(text, small[number]);
        return;
    }
    text_buffer_append_text(text, tens[number / 10 - 2]);
    if (number % 10 > 0)
        text_buffer_append_format(text, "-%s", small[number % 10]);
}

/* Of a list of frames the time of the last one. */
static uint32_t whole_seconds(const struct video_plan *plan)
{
    uint32_t frames = plan->chosen ? plan->indices[plan->frames - 1] : plan->source;
    return (uint32_t)(frames / plan->rate);
}

void video_intro_append(const struct video_plan *plan, struct text_buffer *text)
{
    uint32_t seconds = whole_seconds(plan), days = seconds / DAY_SECONDS;
    text_buffer_append_text(text, "You are provided the following series of ");
    append_words(plan->frames, text);
    text_buffer_append_text(text, " frames from a ");
    if (days > 0)
        text_buffer_append_format(text, "%u day%s, ", days, days > 1 ? "s" : "");
    seconds %= DAY_SECONDS;
    text_buffer_append_format(text, "%u:%02u:%02u [H:MM:SS] video.\n", seconds / 3600,
                              seconds / 60 % 60, seconds % 60);
}
