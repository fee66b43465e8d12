/* The methods of strings, lists, tuples and dictionaries, as tables. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_METHODS_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_METHODS_H

#include "frontend/prompt/jinja/jinja_string.h"

/* The method table of a value's kind, which ends with a NULL name; NULL if it has no methods. */
const struct jinja_signature *jinja_methods_of(struct jinja_value object);

/* True for Python's methods that change or encode the object: the immutable sandbox refuses
 * them. */
bool jinja_methods_are_unsafe(struct jinja_value object, const struct jinja_string *name);

/* --- shared with filters
 * --------------------------------------------------------------------------------------- */

enum jinja_side { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 };

/* strip(): removes blanks, or the characters of `chars` if it is not NULL. */
bool jinja_methods_strip(struct jinja_run *run, const struct jinja_string *string,
                         const struct jinja_string *chars, enum jinja_side side,
                         struct jinja_value *out) JINJA_CHECKED;

/* replace(); count < 0 replaces all. */
bool jinja_methods_replace(struct jinja_run *run, const struct jinja_string *string,
                           const struct jinja_string *old, const struct jinja_string *with,
                           int64_t count, struct jinja_value *out) JINJA_CHECKED;

/* splitlines() */
bool jinja_methods_split_lines(struct jinja_run *run, const struct jinja_string *string,
                               bool keep_ends, struct jinja_value *out) JINJA_CHECKED;

/* center() and similar: pads to `width` characters. */
bool jinja_methods_pad(struct jinja_run *run, const struct jinja_string *string, int64_t width,
                       const struct jinja_string *fill, enum jinja_side text_side,
                       struct jinja_value *out) JINJA_CHECKED;

enum jinja_casing { CASING_UPPER, CASING_LOWER, CASING_CAPITALIZE, CASING_TITLE, CASING_SWAP };

/* upper() and similar. The result is a caller's unless all of the string is the template's. */
bool jinja_methods_case(struct jinja_run *run, const struct jinja_string *string,
                        enum jinja_casing casing, struct jinja_value *out) JINJA_CHECKED;

/* isupper() (or islower()): at least one cased character, and none of the other case. */
bool jinja_methods_is_cased(const struct jinja_string *string, bool upper);

/* The table of jinja_methods_string.c. */
extern const struct jinja_signature jinja_methods_string[];

#endif
