/*
 * Puts a request's images into its prompt, in four steps. The first three are cheap, the last is
 * not, so whatever can be refused is refused before anything is decoded:
 *
 *   image_prepare_read     names -> files, their sizes, how many tokens they stand for
 *   image_prepare_expand   the rendered prompt's markers -> placeholders
 *   image_prepare_find     where the placeholders are among the prompt's tokens
 *   image_prepare_decode   files -> pixels, resized, in the form in which the worker takes them
 *
 * An error names the image by its place in the client's body.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_IMAGE_PREPARE_H
#define SHOAL_FRONTEND_API_GENERATION_IMAGE_PREPARE_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"
#include "frontend/image/image_set.h"
#include "frontend/prompt/chat_template.h"

struct image_work; /* of one request */

/* *work is NULL if the request names no image. The placeholders must be fewer than `most_tokens`.
 * RESULT_CANCELLED: the images need another lane than this thread's; context->lane is that lane. */
enum result image_prepare_read(const struct parse_context *context,
                               const struct generation_request *request, uint32_t most_tokens,
                               struct image_work **work, struct api_error *error) RESULT_CHECKED;
/* Replaces each marker that the template wrote. There must be one for each image, in order; text of
 * the user is not changed. */
enum result image_prepare_expand(const struct image_work *work, struct chat_prompt *prompt,
                                 struct api_error *error) RESULT_CHECKED;
enum result image_prepare_find(struct image_work *work, const struct token_list *tokens,
                               struct api_error *error) RESULT_CHECKED;
/* *set is the caller's. */
enum result image_prepare_decode(struct image_work *work, struct image_set **set,
                                 struct api_error *error) RESULT_CHECKED;
/* NULL is allowed at any step. */
void image_prepare_end(struct image_work *work);

#endif
