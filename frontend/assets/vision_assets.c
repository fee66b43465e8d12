/*
 * A checkpoint whose vision part cannot be used is served as a text model with a warning: texts are
 * answered, and an image gets a 400. Its settings are never guessed.
 */
#include "frontend/assets/vision_assets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/log.h"
#include "proto/must.h"

static enum result read_all(int folder_fd, const struct chat_template *template,
                            const struct tokenizer *tokenizer, struct vision_assets *vision,
                            struct error_text *error)
{
    enum result result = image_processor_open_folder(folder_fd, &vision->processor, error);
    if (result != RESULT_OK || vision->processor.family == IMAGE_FAMILY_NONE)
        return result;
    const char *soft = vision->processor.tokens.soft;
    int32_t soft_token = tokenizer_find_token(tokenizer, soft, strlen(soft));
    if (soft_token < 0)
        return error_set(error, RESULT_INVALID, "its tokenizer has no %s", soft);
    vision->soft_token = (uint32_t)soft_token;
    if (!template)
        return error_set(error, RESULT_NOT_FOUND, "it has no chat template");
    vision->form = image_form_find(template, vision->processor.tokens.marker);
    if (!vision->form.type)
        return error_set(error, RESULT_UNSUPPORTED, "its chat template has no place for them");
    return RESULT_OK;
}

struct vision_assets *vision_assets_open(const char *folder, const struct chat_template *template,
                                         const struct tokenizer *tokenizer)
{
    struct error_text error;
    int folder_fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder_fd < 0)
        return NULL;
    struct vision_assets *vision = must_alloc(1, sizeof *vision);
    enum result result = read_all(folder_fd, template, tokenizer, vision, &error);
    close(folder_fd);
    if (result != RESULT_OK)
        log_warn("images are refused for this model: %s", error.text);
    if (result == RESULT_OK && vision->processor.family != IMAGE_FAMILY_NONE)
        return vision;
    free(vision);
    return NULL;
}
