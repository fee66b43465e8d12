/*
 * Case, classes of characters, and padding.
 *
 * One character may become three (U+FB03), a sigma at a word's end has its own form, and title case
 * starts after any character that is not a letter: one loop over characters that remembers whether
 * the previous one had case. Changed text is a caller's unless every byte of the original was the
 * template's; padding keeps the provenance of bytes.
 */
#include "frontend/prompt/jinja/jinja_methods_case.h"

#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_methods.h"
#include "frontend/prompt/jinja/jinja_unicode.h"
#include "proto/utf8.h"

#define SIGMA       0x3a3u
#define FINAL_SIGMA 0x3c2u

static bool is_cased(uint32_t code_point)
{
    return jinja_unicode_is_lower(code_point) || jinja_unicode_is_upper(code_point) ||
           jinja_unicode_is_titlecase(code_point);
}

static uint32_t peek_char(const struct jinja_string *string, size_t at)
{
    uint32_t code_point = 0;
    if (at < string->length)
        (void)utf8_decode(string->bytes + at, string->length - at, &code_point);
    return code_point;
}

static enum jinja_case case_of(enum jinja_casing casing, bool first, bool after_cased,
                               uint32_t code_point)
{
    switch (casing) {
    case CASING_UPPER: return JINJA_CASE_UPPER;
    case CASING_LOWER: return JINJA_CASE_LOWER;
    case CASING_CAPITALIZE: return first ? JINJA_CASE_TITLE : JINJA_CASE_LOWER;
    case CASING_TITLE: return after_cased ? JINJA_CASE_LOWER : JINJA_CASE_TITLE;
    default: return jinja_unicode_is_upper(code_point) ? JINJA_CASE_LOWER : JINJA_CASE_UPPER;
    }
}

bool jinja_methods_case(struct jinja_run *run, const struct jinja_string *string,
                        enum jinja_casing casing, struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    bool trusted = jinja_string_is_trusted(string);
    bool after_cased = false;
    for (size_t at = 0; at < string->length;) {
        uint32_t code_point;
        uint32_t images[3];
        bool first = at == 0;
        at += utf8_decode(string->bytes + at, string->length - at, &code_point);
        if (code_point >= 0x80 && !jinja_run_step(run, 4))
            return false;
        enum jinja_case to = case_of(casing, first, after_cased, code_point);
        size_t count = jinja_unicode_convert(to, code_point, images);
        if (to == JINJA_CASE_LOWER && code_point == SIGMA && after_cased &&
            !is_cased(peek_char(string, at)))
            images[0] = FINAL_SIGMA;
        for (size_t i = 0; i < count; i++)
            if (!jinja_builder_char(run, &builder, images[i], trusted))
                return false;
        after_cased = is_cased(code_point);
    }
    return jinja_builder_finish(run, &builder, out);
}

#define DEFINE_CASE(name, casing)                                                                  \
    bool jinja_method_##name(struct jinja_run *run, const struct jinja_call *call,                 \
                             struct jinja_value *out)                                              \
    {                                                                                              \
        return jinja_methods_case(run, call->self.as.string, casing, out);                         \
    }
DEFINE_CASE(upper, CASING_UPPER)
DEFINE_CASE(lower, CASING_LOWER)
DEFINE_CASE(capitalize, CASING_CAPITALIZE)
DEFINE_CASE(title, CASING_TITLE)
DEFINE_CASE(swapcase, CASING_SWAP)

/* True if the string has characters and all are of the class. */
static bool all_are(struct jinja_run *run, const struct jinja_string *string,
                    bool (*belongs)(uint32_t), bool empty, struct jinja_value *out)
{
    bool all = true;
    for (size_t at = 0; all && at < string->length;) {
        uint32_t code_point;
        at += utf8_decode(string->bytes + at, string->length - at, &code_point);
        all = belongs(code_point);
    }
    *out = jinja_bool(string->length == 0 ? empty : all);
    return jinja_run_scan(run, string->length * 4);
}

static bool is_ascii(uint32_t code_point)
{
    return code_point < 0x80;
}

static bool is_printable(uint32_t code_point)
{
    return !jinja_unicode_is_unprintable(code_point);
}

static bool is_identifier_part(uint32_t code_point)
{
    return code_point == '_' || jinja_unicode_is_alpha(code_point) ||
           jinja_unicode_is_decimal(code_point);
}

#define DEFINE_CLASS(name, belongs, empty)                                                         \
    bool jinja_method_##name(struct jinja_run *run, const struct jinja_call *call,                 \
                             struct jinja_value *out)                                              \
    {                                                                                              \
        return all_are(run, call->self.as.string, belongs, empty, out);                            \
    }
DEFINE_CLASS(isalpha, jinja_unicode_is_alpha, false)
DEFINE_CLASS(isalnum, jinja_unicode_is_alnum, false)
DEFINE_CLASS(isdigit, jinja_unicode_is_digit, false)
DEFINE_CLASS(isdecimal, jinja_unicode_is_decimal, false)
DEFINE_CLASS(isnumeric, jinja_unicode_is_numeric, false)
DEFINE_CLASS(isspace, jinja_unicode_is_space, false)
DEFINE_CLASS(isascii, is_ascii, true)
DEFINE_CLASS(isprintable, is_printable, true)

bool jinja_method_isidentifier(struct jinja_run *run, const struct jinja_call *call,
                               struct jinja_value *out)
{
    if (!all_are(run, call->self.as.string, is_identifier_part, false, out))
        return false;
    if (jinja_unicode_is_decimal(peek_char(call->self.as.string, 0)))
        *out = jinja_bool(false);
    return true;
}

bool jinja_methods_is_cased(const struct jinja_string *string, bool upper)
{
    bool any = false;
    for (size_t at = 0; at < string->length;) {
        uint32_t code_point;
        at += utf8_decode(string->bytes + at, string->length - at, &code_point);
        if (upper ? jinja_unicode_is_upper(code_point) : jinja_unicode_is_lower(code_point))
            any = true;
        else if (is_cased(code_point))
            return false;
    }
    return any;
}

bool jinja_method_isupper(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    *out = jinja_bool(jinja_methods_is_cased(call->self.as.string, true));
    return jinja_run_scan(run, call->self.as.string->length * 4);
}

bool jinja_method_islower(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    *out = jinja_bool(jinja_methods_is_cased(call->self.as.string, false));
    return jinja_run_scan(run, call->self.as.string->length * 4);
}

bool jinja_method_istitle(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    bool any = false;
    bool title = true;
    bool after_cased = false;
    for (size_t at = 0; title && at < string->length;) {
        uint32_t code_point;
        at += utf8_decode(string->bytes + at, string->length - at, &code_point);
        bool up = jinja_unicode_is_upper(code_point) || jinja_unicode_is_titlecase(code_point);
        bool down = jinja_unicode_is_lower(code_point);
        title = !(up && after_cased) && !(down && !after_cased);
        after_cased = up || down;
        any = any || after_cased;
    }
    *out = jinja_bool(any && title);
    return jinja_run_scan(run, string->length * 4);
}

static bool repeat_fill(struct jinja_run *run, struct jinja_builder *builder,
                        const struct jinja_string *fill, int64_t count)
{
    if (count > 0 && !jinja_builder_reserve(run, builder, (uint64_t)count))
        return false;
    for (; count > 0; count--)
        if (!jinja_builder_string(run, builder, fill))
            return false;
    return true;
}

bool jinja_methods_pad(struct jinja_run *run, const struct jinja_string *string, int64_t width,
                       const struct jinja_string *fill, enum jinja_side text_side,
                       struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    if (!jinja_run_scan(run, string->length))
        return false;
    int64_t padding = width - (int64_t)jinja_string_chars(string);
    if (padding < 0)
        padding = 0;
    int64_t left = text_side == JINJA_LEFT ? 0 : padding;
    if (text_side == JINJA_BOTH) /* the odd blank goes left only if the width is odd, too */
        left = padding / 2 + (padding & width & 1);
    return repeat_fill(run, &builder, fill, left) && jinja_builder_string(run, &builder, string) &&
           repeat_fill(run, &builder, fill, padding - left) &&
           jinja_builder_finish(run, &builder, out);
}

static bool pad_with(struct jinja_run *run, const struct jinja_call *call,
                     enum jinja_side text_side, struct jinja_value *out)
{
    static const struct jinja_string blank = {.bytes = " ", .length = 1, .trusted = true};
    const struct jinja_string *fill = &blank;
    int64_t width = 0;
    if (!jinja_call_integer(run, call->values[0], &width) ||
        !jinja_call_string(run, call->values[1], &fill))
        return false;
    if (fill->length > UTF8_MAX_CHAR_BYTES || jinja_string_chars(fill) != 1)
        return jinja_fail(run, "The fill character must be exactly one character long");
    return jinja_methods_pad(run, call->self.as.string, width, fill, text_side, out);
}

bool jinja_method_center(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    return pad_with(run, call, JINJA_BOTH, out);
}

bool jinja_method_ljust(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    return pad_with(run, call, JINJA_LEFT, out);
}

bool jinja_method_rjust(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    return pad_with(run, call, JINJA_RIGHT, out);
}

bool jinja_method_zfill(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    static const struct jinja_string zero = {.bytes = "0", .length = 1, .trusted = true};
    const struct jinja_string *string = call->self.as.string;
    int64_t width = 0;
    if (!jinja_call_integer(run, call->values[0], &width))
        return false;
    size_t sign =
        string->length > 0 && (string->bytes[0] == '-' || string->bytes[0] == '+') ? 1 : 0;
    struct jinja_value head;
    struct jinja_value tail;
    return jinja_string_slice(run, string, 0, sign, &head) &&
           jinja_string_slice(run, string, sign, string->length, &tail) &&
           jinja_methods_pad(run, tail.as.string, width - (int64_t)sign, &zero, JINJA_RIGHT,
                             &tail) &&
           jinja_string_concat(run, head.as.string, tail.as.string, out);
}

bool jinja_method_expandtabs(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    struct jinja_builder builder = {0};
    int64_t size = 8;
    int64_t column = 0;
    if (!jinja_call_integer(run, call->values[0], &size))
        return false;
    for (size_t at = 0; at < string->length;) {
        bool valid;
        size_t bytes = utf8_scan(string->bytes + at, string->length - at, &valid);
        char c = string->bytes[at];
        struct jinja_value piece;
        if (!jinja_string_slice(run, string, at, at + bytes, &piece))
            return false;
        at += bytes;
        int64_t blanks = c == '\t' && size > 0 ? size - column % size : 0;
        column = c == '\n' || c == '\r' ? 0 : column + (c == '\t' ? blanks : 1);
        if (c == '\t' ? !jinja_builder_repeat(run, &builder, ' ', (size_t)blanks)
                      : !jinja_builder_string(run, &builder, piece.as.string))
            return false;
    }
    return jinja_builder_finish(run, &builder, out);
}
