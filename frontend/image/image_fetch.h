/*
 * Fetches one image file over HTTP or HTTPS from a host that the operator named (media_policy.h).
 * Blocks until the file is complete or the policy's time is over: never call it on the event loop.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_FETCH_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_FETCH_H

#include <stdatomic.h>

#include "frontend/image/data_uri.h"
#include "frontend/image/media_policy.h"

/* Call once in a process, before any thread fetches. */
enum result image_fetch_start(struct error_text *error) RESULT_CHECKED;

/* The policy must admit host and port of `url` and of each redirect (LIMIT_MEDIA_REDIRECTS), and
 * each connected address must be public unless the policy allows private ones. RESULT_INVALID:
 * refused by the policy or by the host. RESULT_TOO_LARGE, RESULT_TIMED_OUT,
 * RESULT_IO (the connection), RESULT_OUT_OF_MEMORY, RESULT_CANCELLED within a second of *cancelled
 * (may be NULL). On failure *file is empty. */
enum result image_fetch(const struct media_policy *policy, const char *url,
                        const atomic_bool *cancelled, struct file_bytes *file,
                        struct error_text *error) RESULT_CHECKED;

#endif
