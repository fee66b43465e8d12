/*
 * What the frontend needs of a model that takes images. The processor and the form are the
 * checkpoint's; the budget is the operator's.
 */
#ifndef SHOAL_FRONTEND_ASSETS_VISION_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_VISION_ASSETS_H

#include "frontend/image/image_processor.h"
#include "frontend/image/image_set.h"
#include "frontend/image/video_processor.h"
#include "frontend/prompt/image_form.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

/* Immutable once open, but for the budget; shared by the preparation threads. */
struct vision_assets {
    struct image_processor processor;
    struct image_form form;
    uint32_t soft_token;          /* the placeholder's id */
    struct video_processor video; /* VIDEO_RULE_NONE: no videos */
    uint32_t video_soft_token;
    struct image_budget budget;
};

/* Reads the checkpoint's directory; `template` and `tokenizer` are those that it is served with.
 * NULL if the model takes no images, or if its settings are not supported: the log then says why,
 * and texts are served. Freed with free(). */
struct vision_assets *vision_assets_open(const char *folder, const struct chat_template *template,
                                         const struct tokenizer *tokenizer);
/* The same for a GGUF file `model` with the projector file `mmproj`. */
struct vision_assets *vision_assets_open_mmproj(const char *model, const char *mmproj,
                                                const struct chat_template *template,
                                                const struct tokenizer *tokenizer);

#endif
