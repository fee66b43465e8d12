/*
 * In which form a chat template takes contents with pictures in them, and texts of a model that
 * takes pictures.
 *
 * Most want a list of parts in which {"type": "image"} is a picture and print a marker for it; some
 * look for {"type": "image_url"}. Some (SmolVLM, Idefics 3) print nothing of a content that is a
 * string, so texts must be lists for them, too.
 */
#ifndef SHOAL_FRONTEND_PROMPT_IMAGE_FORM_H
#define SHOAL_FRONTEND_PROMPT_IMAGE_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/result.h"

struct cJSON;
struct chat_prompt;
struct chat_template;

struct image_form {
    const char *type;     /* of a picture's part; static; NULL: the template has no place for any */
    bool texts_are_lists; /* a string becomes a list of one text part */
};

/* Found out by rendering a picture in each form and looking for the marker. */
struct image_form image_form_find(const struct chat_template *template, const char *marker);

/* Brings checked messages, whose pictures are {"type": "image"} parts of content lists, into the
 * form. RESULT_OUT_OF_MEMORY leaves some as they were. */
enum result image_form_apply(const struct image_form *form, struct cJSON *messages) RESULT_CHECKED;

/* A text part of a content list, the caller's; NULL without memory. */
struct cJSON *image_form_text(const char *text);

/* How often the template itself wrote `marker`; the same text in what a caller gave it does not
 * count. */
size_t image_form_count(const struct chat_prompt *prompt, const char *marker);

#endif
