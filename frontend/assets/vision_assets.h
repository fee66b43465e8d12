/*
 * What the frontend needs of a model that takes images or sounds. The processor and the form are the
 * checkpoint's; the budget is the operator's.
 */
#ifndef SHOAL_FRONTEND_ASSETS_VISION_ASSETS_H
#define SHOAL_FRONTEND_ASSETS_VISION_ASSETS_H

#include <stdbool.h>

#include "frontend/audio/audio_processor.h"
#include "frontend/image/image_processor.h"
#include "frontend/image/image_set.h"
#include "frontend/image/video_processor.h"
#include "frontend/prompt/image_form.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

/* Immutable once open, but for the budget; shared by the preparation threads. */
struct vision_assets {
    struct image_processor processor; /* IMAGE_FAMILY_NONE: no images, and so no videos */
    struct image_form form;
    uint32_t soft_token;          /* the placeholder's id */
    struct video_processor video; /* VIDEO_RULE_NONE: no videos */
    uint32_t video_soft_token;
    struct audio_processor audio; /* AUDIO_FAMILY_NONE: no sounds */
    uint32_t audio_soft_token;
    struct image_budget budget;
};

/* Reads the checkpoint's directory; `template` and `tokenizer` are those that it is served with.
 * NULL if the model takes neither, or if its settings are not supported: the log then says why,
 * and texts are served. Freed with free(). */
struct vision_assets *vision_assets_open(const char *folder, const struct chat_template *template,
                                         const struct tokenizer *tokenizer);
/* Whether there are assets, for images and for sounds. */
bool vision_assets_sees(const struct vision_assets *vision);
bool vision_assets_hears(const struct vision_assets *vision);
/* The same for a GGUF file `model` with the projector file `mmproj`. */
struct vision_assets *vision_assets_open_mmproj(const char *model, const char *mmproj,
                                                const struct chat_template *template,
                                                const struct tokenizer *tokenizer);

#endif
