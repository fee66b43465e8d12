/*
 * Python's two ways to format values into a text.
 *
 * `'%s: %5.2f' % (a, b)` and `'{}: {:>5}'.format(a, b)` have different languages, and the text may
 * come from a caller like the values. One reader per language copies text up to the next field and
 * passes the value with its specification to jinja_format_spec.h. Attributes follow the sandbox's
 * rules. Fields inside the specification of a field are refused.
 */
#include "frontend/prompt/jinja/jinja_format.h"

#include <math.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_format_spec.h"
#include "frontend/prompt/jinja/jinja_member.h"
#include "frontend/prompt/jinja/jinja_text.h"
#include "proto/utf8.h"

static bool copy_text(struct jinja_run *run, struct jinja_builder *builder,
                      const struct jinja_string *text, size_t start, size_t end)
{
    struct jinja_value part;
    return start == end || (jinja_string_slice(run, text, start, end, &part) &&
                            jinja_builder_string(run, builder, part.as.string));
}

/* --- percent fields --------------------------------------------------------------------------- */

struct percent {
    struct jinja_run *run;
    const struct jinja_string *text;
    size_t at;
    struct jinja_value values;
    size_t next; /* the next value of the tuple, or the single value */
    struct jinja_builder builder;
};

static char percent_char(const struct percent *percent)
{
    return percent->at < percent->text->length ? percent->text->bytes[percent->at] : '\0';
}

static bool is_mapping(struct jinja_value value)
{
    return value.kind == JINJA_DICT || value.kind == JINJA_LIST || value.kind == JINJA_UNDEFINED ||
           value.kind == JINJA_RANGE;
}

static bool next_value(struct percent *percent, struct jinja_value *out)
{
    bool tuple = percent->values.kind == JINJA_TUPLE;
    size_t count = tuple ? percent->values.as.list->count : 1;
    if (percent->next >= count)
        return jinja_fail(percent->run, "not enough arguments for format string");
    *out = tuple ? percent->values.as.list->items[percent->next] : percent->values;
    percent->next++;
    return true;
}

/* `(name)` after the percent sign: the value of that key. */
static bool named_value(struct percent *percent, struct jinja_value *out)
{
    size_t start = percent->at;
    unsigned open = 1;
    struct jinja_value key;
    for (; open > 0; percent->at++) {
        if (percent->at >= percent->text->length)
            return jinja_fail(percent->run, "incomplete format key");
        open += percent_char(percent) == '(' ? 1 : 0;
        open -= percent_char(percent) == ')' ? 1 : 0;
    }
    if (percent->values.kind != JINJA_DICT)
        return jinja_fail(percent->run, "format requires a mapping");
    *out = (struct jinja_value){0};
    if (!jinja_string_slice(percent->run, percent->text, start, percent->at - 1, &key) ||
        !jinja_dict_get(percent->run, percent->values.as.dict, key, out))
        return false;
    if (jinja_is_absent(*out))
        return jinja_fail(percent->run, "KeyError: no such format key");
    return true;
}

static bool percent_number(struct percent *percent, int64_t *number)
{
    struct jinja_value value;
    if (percent_char(percent) == '*') {
        percent->at++;
        if (!next_value(percent, &value))
            return false;
        if (!jinja_value_integer(value, number) || *number > INT32_MAX || *number < -INT32_MAX)
            return jinja_fail(percent->run, "* wants int");
        return true;
    }
    for (; percent_char(percent) >= '0' && percent_char(percent) <= '9'; percent->at++) {
        *number = *number * 10 + (percent_char(percent) - '0');
        if (*number > INT32_MAX)
            return jinja_fail(percent->run, "width too big");
    }
    return true;
}

static bool percent_spec(struct percent *percent, struct jinja_format_spec *spec)
{
    static const struct jinja_string zero = {.bytes = "0", .length = 1, .trusted = true};
    *spec = (struct jinja_format_spec){.precision = -1, .align = '>'};
    for (;; percent->at++) {
        char flag = percent_char(percent);
        if (flag == '-')
            spec->align = '<';
        else if (flag == '+' || (flag == ' ' && spec->sign == '\0'))
            spec->sign = flag;
        else if (flag == '#')
            spec->alternate = true;
        else if (flag == '0')
            spec->fill = &zero;
        else if (flag != ' ')
            break;
    }
    if (!percent_number(percent, &spec->width))
        return false;
    if (spec->width < 0) {
        spec->width = -spec->width;
        spec->align = '<';
    }
    if (percent_char(percent) == '.') {
        percent->at++;
        spec->precision = 0;
        if (!percent_number(percent, &spec->precision))
            return false;
    }
    while (percent_char(percent) == 'l' || percent_char(percent) == 'h' ||
           percent_char(percent) == 'L')
        percent->at++;
    spec->type = percent_char(percent);
    percent->at++;
    if (spec->align == '<')
        spec->fill = NULL;
    else if (spec->fill != NULL)
        spec->align = '=';
    return true;
}

static bool put_text(struct percent *percent, struct jinja_format_spec *spec,
                     struct jinja_value value)
{
    struct jinja_value text = value;
    spec->fill = NULL;
    if (spec->align == '=')
        spec->align = '>';
    bool shown = spec->type == 's' ? jinja_text_str(percent->run, value, &text)
                                   : jinja_text_repr(percent->run, value, &text);
    return shown && jinja_format_spec_text(percent->run, &percent->builder, spec, text.as.string);
}

/* %d and similar: precision is a minimum number of digits, like zero padding. */
static bool put_integer(struct percent *percent, struct jinja_format_spec *spec,
                        struct jinja_value value)
{
    bool decimal = spec->type == 'd' || spec->type == 'i' || spec->type == 'u';
    if (value.kind == JINJA_FLOAT && decimal && fabs(value.as.real) < 0x1p63)
        value = jinja_int((int64_t)value.as.real);
    if (value.kind != JINJA_INT && value.kind != JINJA_BOOL)
        return jinja_fail(percent->run, "%%%c format: a real number is required, not %s",
                          spec->type, jinja_value_type(value));
    spec->type = decimal ? 'd' : spec->type;
    if (spec->precision > spec->width && spec->align != '<') {
        static const struct jinja_string zero = {.bytes = "0", .length = 1, .trusted = true};
        spec->width = spec->precision + (spec->sign != '\0' || value.as.integer < 0 ? 1 : 0);
        spec->fill = &zero;
        spec->align = '=';
    }
    spec->precision = -1;
    return jinja_format_spec_number(percent->run, &percent->builder, spec, value);
}

static bool put_char(struct percent *percent, struct jinja_format_spec *spec,
                     struct jinja_value value)
{
    struct jinja_builder builder = {0};
    bool letter = value.kind == JINJA_STRING && value.as.string->length <= UTF8_MAX_CHAR_BYTES &&
                  jinja_string_chars(value.as.string) == 1;
    bool code = value.kind == JINJA_INT && value.as.integer >= 0 && value.as.integer <= 0x10ffff &&
                !(value.as.integer >= 0xd800 && value.as.integer <= 0xdfff);
    if (!letter && !code)
        return jinja_fail(percent->run, "%%c requires int or char");
    if (code && (!jinja_builder_char(percent->run, &builder, (uint32_t)value.as.integer, true) ||
                 !jinja_builder_finish(percent->run, &builder, &value)))
        return false;
    spec->type = 's';
    return put_text(percent, spec, value);
}

static bool put_field(struct percent *percent)
{
    struct jinja_format_spec spec;
    struct jinja_value value = {0};
    if (percent_char(percent) == '(') {
        percent->at++;
        if (!named_value(percent, &value))
            return false;
    }
    if (!percent_spec(percent, &spec))
        return false;
    if (spec.type == '%')
        return jinja_builder_text(percent->run, &percent->builder, "%");
    if (spec.type == '\0')
        return jinja_fail(percent->run, "incomplete format");
    if (strchr("srdiuoxXeEfFgGc", spec.type) == NULL)
        return jinja_fail(percent->run, "unsupported format character");
    if (jinja_is_absent(value) && !next_value(percent, &value))
        return false;
    if (spec.type == 's' || spec.type == 'r')
        return put_text(percent, &spec, value);
    if (spec.type == 'c')
        return put_char(percent, &spec, value);
    if (strchr("diuoxX", spec.type) != NULL)
        return put_integer(percent, &spec, value);
    double real;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(percent->run, value);
    if (!jinja_value_real(value, &real))
        return jinja_fail(percent->run, "must be real number, not %s", jinja_value_type(value));
    return jinja_format_spec_number(percent->run, &percent->builder, &spec, value);
}

bool jinja_format_percent(struct jinja_run *run, const struct jinja_string *text,
                          struct jinja_value values, struct jinja_value *out)
{
    struct percent percent = {.run = run, .text = text, .values = values};
    while (percent.at < text->length) {
        const char *sign = memchr(text->bytes + percent.at, '%', text->length - percent.at);
        size_t end = sign == NULL ? text->length : (size_t)(sign - text->bytes);
        if (!copy_text(run, &percent.builder, text, percent.at, end))
            return false;
        percent.at = end + 1;
        if (sign != NULL && !put_field(&percent))
            return false;
    }
    size_t count = values.kind == JINJA_TUPLE ? values.as.list->count : 1;
    if (!is_mapping(values) && percent.next < count)
        return jinja_fail(run, "not all arguments converted during string formatting");
    return jinja_builder_finish(run, &percent.builder, out);
}

bool jinja_format_filter(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_value text;
    struct jinja_list list = {.items = call->values, .count = call->count};
    struct jinja_value values = {.kind = JINJA_TUPLE, .as.list = &list};
    struct jinja_dict *dict;
    if (call->count > 0 && call->named_count > 0)
        return jinja_fail(run, "can't handle positional and keyword arguments at the same time");
    if (!jinja_text_str(run, call->self, &text) || !jinja_dict_make(run, call->named_count, &dict))
        return false;
    for (size_t i = 0; i < call->named_count; i++)
        if (!jinja_dict_set(run, dict, call->named[i].name, call->named[i].value))
            return false;
    if (call->named_count > 0)
        values = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return jinja_format_percent(run, text.as.string, values, out);
}

/* --- braces
 * ---------------------------------------------------------------------------------------------------
 */

struct brace {
    struct jinja_run *run;
    const struct jinja_string *text;
    size_t at;
    const struct jinja_call *call;
    size_t next;     /* the next automatic number */
    bool automatic;  /* {} occurred */
    bool by_numbers; /* {0} occurred */
    struct jinja_builder builder;
};

static char brace_char(const struct brace *brace)
{
    return brace->at < brace->text->length ? brace->text->bytes[brace->at] : '\0';
}

static bool all_digits(const struct jinja_string *text, int64_t *number)
{
    *number = 0;
    if (text->length == 0 || text->length > 9)
        return false;
    for (size_t at = 0; at < text->length; at++) {
        if (text->bytes[at] < '0' || text->bytes[at] > '9')
            return false;
        *number = *number * 10 + (text->bytes[at] - '0');
    }
    return true;
}

/* The argument named by the field's first part, by position or keyword. */
static bool brace_argument(struct brace *brace, const struct jinja_string *name,
                           struct jinja_value *out)
{
    int64_t position = (int64_t)brace->next;
    bool numbered = all_digits(name, &position);
    if (name->length > 0 && !numbered) {
        for (size_t i = 0; i < brace->call->named_count; i++) {
            const struct jinja_string *key = brace->call->named[i].name.as.string;
            if (key->length == name->length && memcmp(key->bytes, name->bytes, key->length) == 0) {
                *out = brace->call->named[i].value;
                return true;
            }
        }
        return jinja_fail(brace->run, "KeyError: no such format field");
    }
    brace->automatic = brace->automatic || !numbered;
    brace->by_numbers = brace->by_numbers || numbered;
    if (brace->automatic && brace->by_numbers)
        return jinja_fail(brace->run, "cannot switch between automatic and manual field numbering");
    if (!numbered)
        position = (int64_t)brace->next++;
    if ((uint64_t)position >= brace->call->count)
        return jinja_fail(brace->run,
                          "Replacement index %lld out of range for positional args tuple",
                          (long long)position);
    *out = brace->call->values[position];
    return true;
}

/* The name up to one of the given delimiters. */
static bool brace_word(struct brace *brace, const char *ends, struct jinja_value *out)
{
    size_t start = brace->at;
    while (brace->at < brace->text->length &&
           (brace_char(brace) == '\0' || strchr(ends, brace_char(brace)) == NULL))
        brace->at++;
    if (brace->at == brace->text->length)
        return jinja_fail(brace->run, "expected '}' before end of string");
    return jinja_string_slice(brace->run, brace->text, start, brace->at, out);
}

static bool brace_value(struct brace *brace, struct jinja_value *out)
{
    struct jinja_value word;
    if (!brace_word(brace, ".[!:}{", &word) || !brace_argument(brace, word.as.string, out))
        return false;
    for (;;) {
        char c = brace_char(brace);
        int64_t index;
        if (c == '.') {
            brace->at++;
            if (!brace_word(brace, ".[!:}{", &word) ||
                !jinja_member_get(brace->run, *out, word, out))
                return false;
        } else if (c == '[') {
            brace->at++;
            if (!brace_word(brace, "]", &word))
                return false;
            brace->at++;
            if (all_digits(word.as.string, &index))
                word = jinja_int(index);
            if (!jinja_member_index(brace->run, *out, word, out))
                return false;
        } else {
            return true;
        }
    }
}

static bool brace_put(struct brace *brace, struct jinja_value value,
                      const struct jinja_string *spec_text)
{
    struct jinja_format_spec spec;
    bool number = value.kind == JINJA_INT || value.kind == JINJA_FLOAT || value.kind == JINJA_BOOL;
    if (spec_text->length == 0 || value.kind == JINJA_UNDEFINED)
        return jinja_text_append(brace->run, &brace->builder, value);
    if (!number && value.kind != JINJA_STRING)
        return jinja_fail(brace->run, "unsupported format string passed to %s.__format__",
                          jinja_value_type(value));
    if (!jinja_format_spec_parse(brace->run, spec_text, &spec))
        return false;
    if (number)
        return jinja_format_spec_number(brace->run, &brace->builder, &spec, value);
    if (spec.sign != '\0' || spec.align == '=' || (spec.type != 's' && spec.type != '\0'))
        return jinja_fail(brace->run, "Invalid format specifier for object of type 'str'");
    return jinja_format_spec_text(brace->run, &brace->builder, &spec, value.as.string);
}

static bool brace_field(struct brace *brace)
{
    struct jinja_value value;
    struct jinja_value spec;
    if (!brace_value(brace, &value))
        return false;
    if (brace_char(brace) == '!') {
        brace->at++;
        char conversion = brace_char(brace);
        brace->at++;
        if (conversion != 's' && conversion != 'r')
            return jinja_fail(brace->run, "Unknown conversion specifier");
        if (conversion == 's' ? !jinja_text_str(brace->run, value, &value)
                              : !jinja_text_repr(brace->run, value, &value))
            return false;
    }
    if (brace_char(brace) == ':')
        brace->at++;
    else if (brace_char(brace) != '}')
        return jinja_fail(brace->run, "expected ':' after conversion specifier");
    if (!brace_word(brace, "{}", &spec))
        return false;
    if (brace_char(brace) != '}')
        return jinja_fail(brace->run, "nested fields are not supported");
    brace->at++;
    return brace_put(brace, value, spec.as.string);
}

bool jinja_format_method(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    const struct jinja_string *text = call->self.as.string;
    struct brace brace = {.run = run, .text = text, .call = call};
    while (brace.at < text->length) {
        size_t start = brace.at;
        while (brace.at < text->length && brace_char(&brace) != '{' && brace_char(&brace) != '}')
            brace.at++;
        char c = brace_char(&brace);
        bool twice = brace.at + 1 < text->length && text->bytes[brace.at + 1] == c;
        bool end = brace.at == text->length;
        if (!copy_text(run, &brace.builder, text, start, brace.at + (!end && twice ? 1 : 0)))
            return false;
        if (end)
            break;
        brace.at += twice ? 2 : 1;
        if (twice)
            continue;
        if (c == '}')
            return jinja_fail(run, "Single '}' encountered in format string");
        if (!brace_field(&brace))
            return false;
    }
    return jinja_builder_finish(run, &brace.builder, out);
}
