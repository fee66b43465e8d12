/*
 * Format specifications: fill, alignment, sign, width, grouping, precision, type.
 *
 * Python's mini-language allows combinations that printf() lacks (thousands, centring, any fill):
 * digits first (by printf for floats, by hand for integers), then sign and prefix, then padding
 * around or between them. Padding and digits count as the template's own; text keeps its
 * provenance. Precisions over 300 digits are refused.
 */
#include "frontend/prompt/jinja/jinja_format_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_text.h"
#include "proto/utf8.h"

#define PRECISION_MAX 300
#define DIGITS_BYTES  1024

static char spec_char(const struct jinja_string *text, size_t at)
{
    return at < text->length ? text->bytes[at] : '\0';
}

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool spec_digits(struct jinja_run *run, const struct jinja_string *text, size_t *at,
                        int64_t *value)
{
    int64_t number = 0;
    size_t start = *at;
    for (; spec_char(text, *at) >= '0' && spec_char(text, *at) <= '9'; (*at)++) {
        number = number * 10 + (text->bytes[*at] - '0');
        if (number > INT32_MAX)
            return jinja_fail(run, "Too many decimal digits in format string");
    }
    if (*at > start)
        *value = number;
    return true;
}

static bool spec_fill(struct jinja_run *run, const struct jinja_string *text, size_t *at,
                      struct jinja_format_spec *spec)
{
    bool valid;
    size_t first = text->length == 0 ? 0 : utf8_scan(text->bytes, text->length, &valid);
    if (first > 0 && is_align(spec_char(text, first))) {
        struct jinja_value fill;
        if (!jinja_string_slice(run, text, 0, first, &fill))
            return false;
        spec->fill = fill.as.string;
        spec->align = text->bytes[first];
        *at = first + 1;
    } else if (is_align(spec_char(text, 0))) {
        spec->align = text->bytes[0];
        *at = 1;
    }
    return true;
}

bool jinja_format_spec_parse(struct jinja_run *run, const struct jinja_string *text,
                             struct jinja_format_spec *spec)
{
    static const struct jinja_string zero = {.bytes = "0", .length = 1, .trusted = true};
    size_t at = 0;
    *spec = (struct jinja_format_spec){.precision = -1};
    if (!spec_fill(run, text, &at, spec))
        return false;
    char c = spec_char(text, at);
    if (c == '+' || c == '-' || c == ' ') {
        spec->sign = c == '-' ? '\0' : c;
        at++;
    }
    if (spec_char(text, at) == '#') {
        spec->alternate = true;
        at++;
    }
    if (spec_char(text, at) == '0' && spec->fill == NULL) {
        spec->fill = &zero;
        spec->align = spec->align == '\0' ? '=' : spec->align;
        at++;
    }
    if (!spec_digits(run, text, &at, &spec->width))
        return false;
    if (spec_char(text, at) == ',' || spec_char(text, at) == '_')
        spec->grouping = text->bytes[at++];
    if (spec_char(text, at) == '.') {
        at++;
        size_t digits = at;
        if (!spec_digits(run, text, &at, &spec->precision))
            return false;
        if (at == digits)
            return jinja_fail(run, "Format specifier missing precision");
    }
    spec->type = spec_char(text, at);
    if (text->length > at + 1)
        return jinja_fail(run, "Invalid format specifier");
    return true;
}

static bool pad(struct jinja_run *run, struct jinja_builder *builder,
                const struct jinja_format_spec *spec, int64_t count)
{
    if (spec->fill == NULL)
        return jinja_builder_repeat(run, builder, ' ', count > 0 ? (size_t)count : 0);
    if (count > 0 && !jinja_builder_reserve(run, builder, (uint64_t)count))
        return false;
    for (; count > 0; count--)
        if (!jinja_builder_string(run, builder, spec->fill))
            return false;
    return true;
}

bool jinja_format_spec_text(struct jinja_run *run, struct jinja_builder *builder,
                            const struct jinja_format_spec *spec, const struct jinja_string *text)
{
    struct jinja_value cut = jinja_string(text);
    if (!jinja_run_scan(run, text->length))
        return false;
    if (spec->precision >= 0 &&
        !jinja_string_slice(run, text, 0, jinja_string_offset(text, (size_t)spec->precision), &cut))
        return false;
    int64_t missing = spec->width - (int64_t)jinja_string_chars(cut.as.string);
    if (missing < 0)
        missing = 0;
    int64_t left = spec->align == '>' ? missing : (spec->align == '^' ? missing / 2 : 0);
    return pad(run, builder, spec, left) && jinja_builder_string(run, builder, cut.as.string) &&
           pad(run, builder, spec, missing - left);
}

static void integer_digits(uint64_t magnitude, unsigned base, bool upper, char out[80])
{
    const char *alphabet = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[80];
    size_t count = 0;
    do {
        reversed[count++] = alphabet[magnitude % base];
        magnitude /= base;
    } while (magnitude > 0);
    for (size_t i = 0; i < count; i++)
        out[i] = reversed[count - 1 - i];
    out[count] = '\0';
}

static bool real_digits(struct jinja_run *run, const struct jinja_format_spec *spec, double real,
                        char out[DIGITS_BYTES])
{
    char format[8] = {'%', '.', '*', 'g', '\0'};
    double magnitude = fabs(real);
    int64_t precision = spec->precision;
    if (!jinja_run_step(run, 2 * JINJA_STEPS_OF_DIGITS))
        return false;
    char type = spec->type;
    if (type == '\0' && precision < 0) {
        jinja_text_float(magnitude, out);
        return true;
    }
    if (precision > PRECISION_MAX)
        return jinja_fail(run, "precision too big");
    if (type == '%')
        magnitude *= 100;
    if (type == 'e' || type == 'E' || type == 'f' || type == 'F' || type == 'G')
        format[3] = type;
    else if (type == '%')
        format[3] = 'f';
    if (precision < 0)
        precision = 6;
    (void)snprintf(out, DIGITS_BYTES - 1, format, (int)precision, magnitude);
    if (type == '%')
        (void)strcat(out, "%");
    /* Without a type, Python writes at least one digit after the point. */
    if (type == '\0' && strpbrk(out, ".en") == NULL)
        (void)strcat(out, ".0");
    return true;
}

/* Separators between groups of digits, up to the point. A number of 310 digits fits with its
 * separators. */
static void group(char digits[DIGITS_BYTES], char separator, size_t size)
{
    size_t length = strlen(digits);
    size_t whole = strspn(digits, "0123456789abcdefABCDEF");
    size_t separators = whole == 0 ? 0 : (whole - 1) / size;
    if (length + separators >= DIGITS_BYTES)
        return;
    memmove(digits + whole + separators, digits + whole, length - whole + 1);
    for (size_t i = whole; separators > 0; i--) {
        digits[i - 1 + separators] = digits[i - 1];
        if ((whole - i + 1) % size == 0) {
            separators--;
            digits[i - 1 + separators] = separator;
        }
    }
}

static bool number_digits(struct jinja_run *run, const struct jinja_format_spec *spec,
                          struct jinja_value value, char digits[DIGITS_BYTES], const char **prefix,
                          bool *negative)
{
    int64_t integer = 0;
    double real = 0;
    bool whole = jinja_value_integer(value, &integer);
    bool as_real = !whole || (spec->type != '\0' && strchr("eEfFgG%", spec->type) != NULL);
    (void)jinja_value_real(value, &real);
    *prefix = "";
    if (as_real) {
        if (spec->type != '\0' && strchr("eEfFgG%n", spec->type) == NULL)
            return jinja_fail(run, "Unknown format code '%c' for object of type '%s'", spec->type,
                              jinja_value_type(value));
        *negative = signbit(real) != 0;
        return real_digits(run, spec, real, digits);
    }
    if (spec->precision >= 0)
        return jinja_fail(run, "Precision not allowed in integer format specifier");
    unsigned base = 10;
    switch (spec->type) {
    case '\0':
    case 'd':
    case 'n': break;
    case 'b':
        base = 2;
        *prefix = "0b";
        break;
    case 'o':
        base = 8;
        *prefix = "0o";
        break;
    case 'x':
        base = 16;
        *prefix = "0x";
        break;
    case 'X':
        base = 16;
        *prefix = "0X";
        break;
    default:
        return jinja_fail(run, "Unknown format code '%c' for object of type 'int'", spec->type);
    }
    if (!spec->alternate)
        *prefix = "";
    *negative = integer < 0;
    uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    integer_digits(magnitude, base, spec->type == 'X', digits);
    return true;
}

bool jinja_format_spec_number(struct jinja_run *run, struct jinja_builder *builder,
                              const struct jinja_format_spec *spec, struct jinja_value value)
{
    char digits[DIGITS_BYTES];
    const char *prefix;
    bool negative = false;
    if (!number_digits(run, spec, value, digits, &prefix, &negative))
        return false;
    if (spec->grouping != '\0')
        group(digits, spec->grouping,
              spec->type == 'x' || spec->type == 'X' || spec->type == 'b' || spec->type == 'o' ? 4
                                                                                               : 3);
    char sign[2] = {negative ? '-' : spec->sign, '\0'};
    int64_t missing = spec->width - (int64_t)(strlen(sign) + strlen(prefix) + strlen(digits));
    if (missing < 0)
        missing = 0;
    char align = spec->align == '\0' ? '>' : spec->align;
    int64_t left = align == '>' ? missing : (align == '^' ? missing / 2 : 0);
    int64_t inside = align == '=' ? missing : 0;
    return pad(run, builder, spec, left) && jinja_builder_text(run, builder, sign) &&
           jinja_builder_text(run, builder, prefix) && pad(run, builder, spec, inside) &&
           jinja_builder_text(run, builder, digits) &&
           pad(run, builder, spec, missing - left - inside);
}
