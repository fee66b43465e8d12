/*
 * Dates for templates ("Today Date: 26 Jul 2024").
 *
 * The C library's strftime() follows a global locale and allows paddings of any width, so
 * directives are formatted here: those with a flag or a composite meaning by their own code, others
 * as a number with a width. Unknown directives are kept, as in glibc. Locales and time zones are
 * not supported.
 */
#include "frontend/prompt/jinja/jinja_strftime.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NAME_BYTES 16

static const char DAYS[7][NAME_BYTES] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                         "Thursday", "Friday", "Saturday"};
static const char MONTHS[12][NAME_BYTES] = {"January",   "February", "March",    "April",
                                            "May",       "June",     "July",     "August",
                                            "September", "October",  "November", "December"};

/* A composite directive, expanded to simple ones. */
static const char *composite(char directive)
{
    switch (directive) {
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'T':
    case 'X': return "%H:%M:%S";
    case 'R': return "%H:%M";
    case 'r': return "%I:%M:%S %p";
    default: return NULL;
    }
}

/* ISO 8601 week and the year that it belongs to. */
static int iso_week(const struct tm *when, int *year)
{
    int weekday = (when->tm_wday + 6) % 7; /* Monday is 0 */
    int week = (when->tm_yday - weekday + 10) / 7;
    *year = when->tm_year + 1900;
    int days_before = week < 1 ? *year - 1 : *year;
    bool leap = (days_before % 4 == 0 && days_before % 100 != 0) || days_before % 400 == 0;
    if (week < 1) { /* belongs to the last week of the year before */
        int yday = when->tm_yday + (leap ? 366 : 365);
        *year -= 1;
        return (yday - weekday + 10) / 7;
    }
    int thursday = when->tm_yday - weekday + 3;
    if (week == 53 && thursday >= (leap ? 366 : 365)) {
        *year += 1;
        return 1;
    }
    return week;
}

struct field {
    int64_t value;
    int width;
    char pad;
};

/* Numeric directives; false for others. */
static bool numeric_field(char directive, const struct tm *when, int64_t unix_s,
                          struct field *field)
{
    int iso_year;
    int week = iso_week(when, &iso_year);
    int hour12 = when->tm_hour % 12 == 0 ? 12 : when->tm_hour % 12;
    *field = (struct field){0, 2, '0'};
    switch (directive) {
    case 'Y': *field = (struct field){when->tm_year + 1900, 1, '0'}; return true;
    case 'C': field->value = (when->tm_year + 1900) / 100; return true;
    case 'y': field->value = (when->tm_year + 1900) % 100; return true;
    case 'm': field->value = when->tm_mon + 1; return true;
    case 'd': field->value = when->tm_mday; return true;
    case 'e': *field = (struct field){when->tm_mday, 2, ' '}; return true;
    case 'H': field->value = when->tm_hour; return true;
    case 'k': *field = (struct field){when->tm_hour, 2, ' '}; return true;
    case 'I': field->value = hour12; return true;
    case 'l': *field = (struct field){hour12, 2, ' '}; return true;
    case 'M': field->value = when->tm_min; return true;
    case 'S': field->value = when->tm_sec; return true;
    case 'j': *field = (struct field){when->tm_yday + 1, 3, '0'}; return true;
    case 'f': *field = (struct field){0, 6, '0'}; return true;
    case 'u': *field = (struct field){when->tm_wday == 0 ? 7 : when->tm_wday, 1, '0'}; return true;
    case 'w': *field = (struct field){when->tm_wday, 1, '0'}; return true;
    case 'U': field->value = (when->tm_yday + 7 - when->tm_wday) / 7; return true;
    case 'W': field->value = (when->tm_yday + 7 - (when->tm_wday + 6) % 7) / 7; return true;
    case 'V': field->value = week; return true;
    case 'G': *field = (struct field){iso_year, 1, '0'}; return true;
    case 'g': field->value = iso_year % 100; return true;
    case 's': *field = (struct field){unix_s, 1, '0'}; return true;
    default: return false;
    }
}

/* Names and single characters; NULL for unknown directives. */
static const char *text_field(char directive, const struct tm *when, char buffer[NAME_BYTES])
{
    const char *name = NULL;
    switch (directive) {
    case 'A': return DAYS[when->tm_wday];
    case 'B': return MONTHS[when->tm_mon];
    case 'a': name = DAYS[when->tm_wday]; break;
    case 'b':
    case 'h': name = MONTHS[when->tm_mon]; break;
    case 'p': return when->tm_hour < 12 ? "AM" : "PM";
    case 'P': return when->tm_hour < 12 ? "am" : "pm";
    case 'n': return "\n";
    case 't': return "\t";
    case '%': return "%";
    case 'z':
    case 'Z': return ""; /* a time without a zone, as datetime.now() is */
    default: return NULL;
    }
    (void)snprintf(buffer, NAME_BYTES, "%.3s", name);
    return buffer;
}

static bool append_field(struct jinja_run *run, struct jinja_builder *builder, struct field field,
                         char flag)
{
    char text[32];
    char pad = field.pad;
    if (flag == '_')
        pad = ' ';
    else if (flag == '0')
        pad = '0';
    if (flag == '-')
        (void)snprintf(text, sizeof(text), "%" PRId64, field.value);
    else if (pad == ' ')
        (void)snprintf(text, sizeof(text), "%*" PRId64, field.width, field.value);
    else
        (void)snprintf(text, sizeof(text), "%0*" PRId64, field.width, field.value);
    return jinja_builder_text(run, builder, text);
}

static bool append_upper(struct jinja_run *run, struct jinja_builder *builder, const char *text)
{
    char upper[NAME_BYTES] = "";
    for (size_t i = 0; text[i] != '\0' && i < NAME_BYTES - 1; i++)
        upper[i] = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
    return jinja_builder_text(run, builder, upper);
}

static bool append_format(struct jinja_run *run, struct jinja_builder *builder,
                          const struct jinja_string *format, const struct tm *when, int64_t unix_s)
{
    bool trusted = jinja_string_is_trusted(format);
    for (size_t at = 0; at < format->length;) {
        size_t start = at;
        char flag = '\0';
        char buffer[NAME_BYTES];
        struct field field;
        if (format->bytes[at++] != '%' || at == format->length) {
            if (!jinja_builder_bytes(run, builder, format->bytes + start, 1, trusted))
                return false;
            continue;
        }
        if (strchr("-_0^#", format->bytes[at]) != NULL && at + 1 < format->length)
            flag = format->bytes[at++];
        char directive = format->bytes[at++];
        const char *parts = composite(directive);
        const char *text = text_field(directive, when, buffer);
        struct jinja_string inner = {.bytes = parts, .trusted = true};
        bool appended;
        if (parts != NULL) {
            inner.length = strlen(parts);
            appended = append_format(run, builder, &inner, when, unix_s);
        } else if (text != NULL) {
            appended = flag == '^' ? append_upper(run, builder, text)
                                   : jinja_builder_text(run, builder, text);
        } else if (numeric_field(directive, when, unix_s, &field)) {
            appended = append_field(run, builder, field, flag);
        } else {
            appended =
                jinja_builder_bytes(run, builder, format->bytes + start, at - start, trusted);
        }
        if (!appended)
            return false;
    }
    return true;
}

bool jinja_strftime(struct jinja_run *run, const struct jinja_string *format, int64_t unix_s,
                    struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    struct tm when;
    time_t seconds = (time_t)unix_s;
    if (gmtime_r(&seconds, &when) == NULL)
        return jinja_fail(run, "the time is out of range");
    return append_format(run, &builder, format, &when, unix_s) &&
           jinja_builder_finish(run, &builder, out);
}
