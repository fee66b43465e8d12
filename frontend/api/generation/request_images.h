/*
 * The pictures that a request names, in the order in which they stand in its conversation.
 *
 * Readers of bodies call request_images_add() for each part or block that is one and put
 * request_images_part() in its place; what is named is read later (image_prepare.h), when the whole
 * body is known to be good.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_REQUEST_IMAGES_H
#define SHOAL_FRONTEND_API_GENERATION_REQUEST_IMAGES_H

#include <stdbool.h>

#include "frontend/base/api_error.h"
#include "frontend/image/image_processor.h"
#include "frontend/image/image_source.h"

struct cJSON;

struct request_image {
    char *name; /* owned */
    enum image_naming naming;
    enum image_detail detail;
    char place[80]; /* in the client's own body: "messages[2].content[1]" */
};

struct request_images {
    bool taken; /* whether the model takes any: to be set before the first is added */
    struct request_image *items;
    uint32_t count;
    uint32_t capacity;
};

void request_images_fini(struct request_images *images);

/* Whether parts of this type are pictures: image_url and input_image of OpenAI's APIs, image of
 * Anthropic's. */
bool request_images_is_type(const char *type);
/* Checks the part and notes what it names. Refuses the part when the model takes none. */
enum result request_images_add(struct request_images *images, const struct cJSON *part,
                               const char *place, struct api_error *error) RESULT_CHECKED;
/* What stands for a picture in messages until the template's own form is known (image_form.h). NULL
 * when memory runs out. */
struct cJSON *request_images_part(void);

#endif
