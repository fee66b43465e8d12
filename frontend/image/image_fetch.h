/*
 * One picture's file over HTTP or HTTPS, from a host that the operator named (media_policy.h).
 * Blocks until it is there or the policy's time is over: for threads that may wait, never for the
 * event loop.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_FETCH_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_FETCH_H

#include "frontend/image/data_uri.h"
#include "frontend/image/media_policy.h"

/* Once in a process, before other threads fetch. */
enum result image_fetch_start(struct error_text *error) RESULT_CHECKED;

/* Host and port of `url` and of each redirect (LIMIT_MEDIA_REDIRECTS) must be admitted, and each
 * address that is connected to must be public unless the policy allows private ones.
 * RESULT_INVALID: refused, by this side or by the host. RESULT_TOO_LARGE, RESULT_TIMED_OUT,
 * RESULT_IO (the connection), RESULT_OUT_OF_MEMORY. On failure *file is empty. */
enum result image_fetch(const struct media_policy *policy, const char *url, struct file_bytes *file,
                        struct error_text *error) RESULT_CHECKED;

#endif
