/*
 * The pictures of one request, ready for a worker: records and pixels as they stand in the payload
 * (proto/image_record.h), in one piece. It stays in the request's journal until the request leaves,
 * so that another worker can get the same again; requests that answer the same prompt share it.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_SET_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_SET_H

#include <stdatomic.h>
#include <stdint.h>

#include "proto/image_record.h"

/* What the pictures of all live requests together may take. */
struct image_budget {
    uint64_t most_bytes;
    _Atomic uint64_t used_bytes;
};

struct image_set; /* its bytes do not change once it is shared; counted references */

/* For `count` pictures (>= 1) whose records have their sizes; the places of their pixels follow.
 * The caller has the only reference. RESULT_FULL: the budget has no room now. RESULT_TOO_LARGE: it
 * never will, or LIMIT_REQUEST_IMAGE_BYTES. RESULT_OUT_OF_MEMORY. `budget` outlives the set. */
enum result image_set_create(const struct image_record *records, uint32_t count,
                             struct image_budget *budget, struct image_set **set) RESULT_CHECKED;
struct image_set *image_set_share(struct image_set *set); /* NULL gives NULL */
void image_set_release(struct image_set *set);            /* any thread; NULL is fine */

/* While it is made. */
struct image_record *image_set_record(struct image_set *set, uint32_t index);
uint8_t *image_set_pixels(struct image_set *set, uint32_t index);

uint32_t image_set_count(const struct image_set *set); /* 0 for NULL, as for the next */
uint64_t image_set_bytes(const struct image_set *set);
/* image_set_bytes() of them: the image part of a payload. */
const void *image_set_part(const struct image_set *set);

#endif
