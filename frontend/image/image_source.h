/*
 * From what a client names as a picture to the bytes of its file.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_SOURCE_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_SOURCE_H

#include "frontend/image/data_uri.h"
#include "frontend/image/media_policy.h"

/* How a picture is named. */
enum image_naming {
    IMAGE_NAMED_BY_URI = 1, /* data:, file:, http: or https: */
    IMAGE_NAMED_BY_BASE64   /* the bytes themselves */
};

/* May take as long as the policy lets a fetch take. RESULT_UNSUPPORTED: another scheme, or one that
 * the operator did not open. Else as data_uri.h, media_folder.h and image_fetch.h say. On failure
 * *file is empty and the words, of which "it" is the picture, fit behind its place. */
enum result image_source_read(const struct media_policy *policy, enum image_naming naming,
                              const char *name, struct file_bytes *file,
                              struct error_text *error) RESULT_CHECKED;
/* Whether reading it asks the network. */
bool image_source_is_remote(enum image_naming naming, const char *name);

#endif
