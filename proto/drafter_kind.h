/*
 * Drafters that read a model's inner states: folders with weights of a few layers, and without a vocabulary of
 * their own. Both processes tell them from ordinary draft models by config.json.
 */
#ifndef SHOAL_PROTO_DRAFTER_KIND_H
#define SHOAL_PROTO_DRAFTER_KIND_H

#include "proto/json_value.h"

enum drafter_kind {
    DRAFTER_MODEL,    /* a model, or no folder at all */
    DRAFTER_EAGLE3,   /* one layer over three inner states (EAGLE-3) */
    DRAFTER_DFLASH,   /* a block of tokens in one pass (DFlash) */
    DRAFTER_ASSISTANT /* layers that attend over the model's keys and values (Gemma 4's assistant) */
};

enum drafter_kind drafter_kind_find(struct json_value config);
/* Of the folder or file at `path`. What cannot be read is a model, so that its reader states the error. */
enum drafter_kind drafter_kind_at(const char *path);
/* "EAGLE-3 head" and the like, for texts. */
const char *drafter_kind_name(enum drafter_kind kind);

#endif
