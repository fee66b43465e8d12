/*
 * The terminals of Lark's module `common`, as regular expressions.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_LARK_COMMON_H
#define SHOAL_FRONTEND_GRAMMAR_LARK_COMMON_H

#include <stddef.h>

/* A static pattern that matches a whole terminal; NULL: common has none of this name. */
const char *lark_common_find(const char *name, size_t length);

#endif
