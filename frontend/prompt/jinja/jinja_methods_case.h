/* String methods about case, classes of characters and width; listed in jinja_methods_string.c. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_METHODS_CASE_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_METHODS_CASE_H

#include "frontend/prompt/jinja/jinja_value.h"

jinja_builtin jinja_method_upper, jinja_method_lower, jinja_method_capitalize, jinja_method_title,
    jinja_method_swapcase;
jinja_builtin jinja_method_isupper, jinja_method_islower, jinja_method_istitle,
    jinja_method_isalpha, jinja_method_isalnum, jinja_method_isdigit, jinja_method_isdecimal,
    jinja_method_isnumeric, jinja_method_isspace, jinja_method_isascii, jinja_method_isprintable,
    jinja_method_isidentifier;
jinja_builtin jinja_method_center, jinja_method_ljust, jinja_method_rjust, jinja_method_zfill,
    jinja_method_expandtabs;

#endif
