/*
 * Reads the file of an image that a client names: a URI or base64.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_SOURCE_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_SOURCE_H

#include <stdatomic.h>

#include "frontend/image/data_uri.h"
#include "frontend/image/media_policy.h"

/* The form of an image's name. */
enum image_naming {
    IMAGE_NAMED_BY_URI = 1, /* data:, file:, http: or https: */
    IMAGE_NAMED_BY_BASE64   /* the bytes themselves */
};

/* May block for the policy's fetch time. RESULT_UNSUPPORTED: an unknown scheme, or one that the
 * operator did not enable. RESULT_CANCELLED once *cancelled (may be NULL) is true. Other results are those of data_uri.h, media_folder.h and image_fetch.h.
 * On failure *file is empty, and the text refers to the image as "it". */
enum result image_source_read(const struct media_policy *policy, enum image_naming naming,
                              const char *name, const atomic_bool *cancelled,
                              struct file_bytes *file, struct error_text *error) RESULT_CHECKED;
/* True if reading it uses the network. */
bool image_source_is_remote(enum image_naming naming, const char *name);

#endif
