/*
 * Insertion-ordered dictionaries. Filled when created, then only read (except a namespace's names).
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_DICT_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_DICT_H

#include "frontend/prompt/jinja/jinja_run.h"

/* Room for `capacity` entries; more may follow. */
bool jinja_dict_make(struct jinja_run *run, size_t capacity,
                     struct jinja_dict **dict) JINJA_CHECKED;

/* Fails on keys that Python calls unhashable. */
bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value value) JINJA_CHECKED;

/* *found is unchanged if there is no such key (so initialize it to JINJA_MISSING). */
bool jinja_dict_get(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value *found) JINJA_CHECKED;

/* The value under a string key, or NULL. */
const struct jinja_value *jinja_dict_find(const struct jinja_dict *dict, const char *name,
                                          size_t name_bytes);

uint64_t jinja_dict_hash_bytes(const char *bytes, size_t length);

#endif
