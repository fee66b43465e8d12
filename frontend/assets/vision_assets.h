/*
 * What the frontend needs of a model that takes pictures. The processor and the form are the
 * checkpoint's, the policy and the budget the operator's.
 */
#ifndef SHOAL_FRONTEND_ASSETS_VISION_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_VISION_ASSETS_H

#include "frontend/image/image_processor.h"
#include "frontend/image/image_set.h"
#include "frontend/image/media_policy.h"
#include "frontend/prompt/image_form.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

/* Only the budget changes once it is open; shared by the preparation threads. */
struct vision_assets {
    struct image_processor processor;
    struct image_form form;
    uint32_t soft_token; /* the placeholder's id */
    struct media_policy media;
    struct image_budget budget;
};

/* Of the checkpoint's folder, with the template and the tokenizer that it is served with. NULL
 * where the model takes no pictures, or none that this server could prepare: then the log says why,
 * and texts are served. Freed with free(). */
struct vision_assets *vision_assets_open(const char *folder, const struct chat_template *template,
                                         const struct tokenizer *tokenizer);

#endif
