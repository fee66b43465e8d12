/* Generated tables of jinja_unicode.c; see the opening comment of jinja_unicode_table.c. All tables
 * are sorted. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_UNICODE_TABLE_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_UNICODE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct jinja_unicode_run {
    uint32_t first;
    uint32_t last; /* inclusive */
    uint32_t stride;
};

struct jinja_unicode_shift {
    uint32_t first;
    uint32_t last; /* inclusive */
    uint32_t stride;
    int32_t delta; /* image minus character */
};

struct jinja_unicode_expansion {
    uint32_t from;
    uint32_t to[3]; /* 0 ends */
};

#define JINJA_UNICODE_SETS(X)                                                                      \
    X(alpha) X(decimal) X(digit) X(numeric) X(lower) X(upper) X(unprintable)
#define JINJA_UNICODE_DECLARE_SET(name)                                                            \
    extern const struct jinja_unicode_run jinja_unicode_##name[];                                  \
    extern const size_t jinja_unicode_##name##_count;
JINJA_UNICODE_SETS(JINJA_UNICODE_DECLARE_SET)
#undef JINJA_UNICODE_DECLARE_SET

extern const struct jinja_unicode_shift jinja_unicode_to_upper[];
extern const size_t jinja_unicode_to_upper_count;
extern const struct jinja_unicode_shift jinja_unicode_to_lower[];
extern const size_t jinja_unicode_to_lower_count;
extern const struct jinja_unicode_shift jinja_unicode_to_title[];
extern const size_t jinja_unicode_to_title_count;
extern const struct jinja_unicode_expansion jinja_unicode_long_upper[];
extern const size_t jinja_unicode_long_upper_count;
extern const struct jinja_unicode_expansion jinja_unicode_long_title[];
extern const size_t jinja_unicode_long_title_count;

#endif
