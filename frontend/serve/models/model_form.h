/*
 * What a model is opened from: its place in the directory (or the command line, with --model) and the
 * options that follow from it. A form does not change; a changed setting or file makes another one.
 * It is shared by counted references.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_FORM_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_FORM_H

#include "frontend/serve/models/model_folder.h"
#include "frontend/serve/settings/model_files.h"
#include "frontend/serve/settings/option_parser.h"

struct model_form {
    uint32_t references;
    struct model_place place; /* zero with --model */
    const char *name;
    const struct options *options;
    struct options own_options;
    struct model_files files;
    struct option_setting *settings; /* point into `place` */
    /* The settings and the identities of all files that are read, as one text: two forms with the
     * same text open the same model. */
    char *fingerprint;
};

/* The form of the command line as it was resolved at the start. `options` outlive it. */
struct model_form *model_form_create_first(const struct options *options);
/* Of `place`, which is moved into the form also if this fails, or, if that is NULL, of the command line,
 * resolved again. RESULT_INVALID: an option is wrong; RESULT_NOT_FOUND and others: the model is not
 * there. */
enum result model_form_create(const struct options *common, struct model_place *place,
                              struct model_form **form, struct error_text *error) RESULT_CHECKED;
/* Reads --models-dir into forms[LIMIT_MODELS]; names are checked. Nothing is made unless RESULT_OK. */
enum result model_forms_read(const struct options *common, struct model_form **forms,
                             uint32_t *count, struct error_text *error) RESULT_CHECKED;
struct model_form *model_form_share(struct model_form *form);
void model_form_release(struct model_form *form); /* NULL is allowed */

/* One of its served names, or of its adapters. */
bool model_form_has_name(const struct model_form *form, const char *name);
/* One of its served names is `name` (org/name:QUANT) but for the case of the quantization's letters. */
bool model_form_has_quantization(const struct model_form *form, const char *name);
bool model_form_equal(const struct model_form *one, const struct model_form *other);

#endif
