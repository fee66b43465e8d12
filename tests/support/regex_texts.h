/*
 * Short names for regular expressions over bytes (proto/grammar_regex.h), for tests.
 */
#ifndef SHOAL_TESTS_SUPPORT_REGEX_TEXTS_H
#define SHOAL_TESTS_SUPPORT_REGEX_TEXTS_H

#include "proto/grammar_regex.h"

/* One of these bytes; the string ends with its 0. */
uint32_t regex_texts_set(struct regex_store *store, const char *bytes);
/* These bytes one after the other. */
uint32_t regex_texts_all(struct regex_store *store, const char *bytes);

#endif
