/*
 * Rules of the format: in label values a backslash, a quote and a line feed are escaped, in help
 * texts a backslash and a line feed; buckets of a histogram are cumulative and end with +Inf; whole
 * numbers are written in full (a counter of 10^15 tokens keeps its last digit). Bounds are written
 * as Python's client writes them ("1.0", not "1"), because vLLM's series have that text as label
 * and dashboards ask for le="1.0".
 */
#include "frontend/serve/metrics/metric_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void append_escaped(struct text_buffer *out, const char *words, const char *special)
{
    for (; *words; words++) {
        if (*words == '\n')
            text_buffer_append_text(out, "\\n");
        else if (strchr(special, *words))
            text_buffer_append_format(out, "\\%c", *words);
        else
            text_buffer_append(out, words, 1);
    }
}

void metric_text_family(struct metric_text *text, const char *name, enum metric_type type,
                        const char *help)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    text->family = name;
    text_buffer_append_format(text->out, "# HELP %s ", name);
    append_escaped(text->out, help, "\\");
    text_buffer_append_format(text->out, "\n# TYPE %s %s\n", name, types[type]);
}

static void append_label(struct text_buffer *out, const struct metric_label *label, bool first)
{
    text_buffer_append_format(out, "%s%s=\"", first ? "{" : ",", label->name);
    append_escaped(out, label->value, "\\\"");
    text_buffer_append(out, "\"", 1);
}

static void append_value(struct text_buffer *out, double value)
{
    if (isnan(value))
        text_buffer_append_text(out, " NaN\n");
    else if (isinf(value))
        text_buffer_append_text(out, value > 0 ? " +Inf\n" : " -Inf\n");
    else if (value == floor(value) && fabs(value) < 1e15)
        text_buffer_append_format(out, " %.0f\n", value);
    else
        text_buffer_append_format(out, " %.17g\n", value);
}

static void append_sample(struct metric_text *text, const char *suffix,
                          const struct metric_label *labels, size_t count, double value)
{
    struct text_buffer *out = text->out;
    text_buffer_append_format(out, "%s%s", text->family, suffix);
    for (size_t i = 0; i < text->common_count; i++)
        append_label(out, &text->common[i], i == 0);
    for (size_t i = 0; i < count; i++)
        append_label(out, &labels[i], i + text->common_count == 0);
    if (count + text->common_count > 0)
        text_buffer_append(out, "}", 1);
    append_value(out, value);
}

void metric_text_sample(struct metric_text *text, const struct metric_label *labels, size_t count,
                        double value)
{
    append_sample(text, "", labels, count, value);
}

/* "0.025", "1.0", "1e+06" */
static void format_bound(double bound, char *words, size_t capacity)
{
    int length = snprintf(words, capacity, "%g", bound);
    if (!strpbrk(words, ".e"))
        snprintf(words + length, capacity - (size_t)length, ".0");
}

void metric_text_histogram(struct metric_text *text, const struct metric_histogram *histogram)
{
    uint64_t below = 0;
    char bound[32];
    struct metric_label le = {.name = "le", .value = bound};
    for (size_t i = 0; i < histogram->bound_count; i++) {
        below += histogram->counts[i];
        format_bound(histogram->bounds[i], bound, sizeof bound);
        append_sample(text, "_bucket", &le, 1, (double)below);
    }
    le.value = "+Inf";
    append_sample(text, "_bucket", &le, 1, (double)histogram->count);
    append_sample(text, "_sum", NULL, 0, histogram->sum);
    append_sample(text, "_count", NULL, 0, (double)histogram->count);
}

void metric_text_value(struct metric_text *text, const char *name, enum metric_type type,
                       const char *help, double value)
{
    metric_text_family(text, name, type, help);
    metric_text_sample(text, NULL, 0, value);
}
