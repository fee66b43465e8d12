/*
 * The images of one request, ready for a worker: records and pixels in one block, laid out as in
 * the payload (proto/image_record.h). The request's journal holds it until the request leaves, so
 * that another worker can get the same bytes; requests for the same prompt share it.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_SET_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_SET_H

#include <stdatomic.h>
#include <stdint.h>

#include "proto/image_record.h"

/* Memory bound for the images of all live requests together. */
struct image_budget {
    uint64_t most_bytes;
    _Atomic uint64_t used_bytes;
};

struct image_set; /* reference-counted; immutable once it is shared */

/* For `count` images (>= 1) whose records have their sizes; sets the places of their pixels. The
 * caller has the only reference. RESULT_FULL: no room in the budget now. RESULT_TOO_LARGE: more
 * than the whole budget or LIMIT_REQUEST_IMAGE_BYTES. RESULT_OUT_OF_MEMORY. `budget` outlives the
 * set. */
enum result image_set_create(const struct image_record *records, uint32_t count,
                             struct image_budget *budget, struct image_set **set) RESULT_CHECKED;
struct image_set *image_set_share(struct image_set *set); /* NULL gives NULL */
void image_set_release(struct image_set *set);            /* any thread; NULL is allowed */

/* For filling it, before it is shared. */
struct image_record *image_set_record(struct image_set *set, uint32_t index);
uint8_t *image_set_pixels(struct image_set *set, uint32_t index);

uint32_t image_set_count(const struct image_set *set); /* 0 for NULL, also below */
uint64_t image_set_bytes(const struct image_set *set);
/* The image section of a payload, image_set_bytes() long. */
const void *image_set_part(const struct image_set *set);

#endif
