/*
 * Opens the options of a model and records its files (contract in model_form.h).
 *
 * The fingerprint has device, inode, size and modification time of every file, not its bytes: a form
 * is made on the event loop, and weights are gigabytes.
 */
#include "frontend/serve/models/model_form.h"
#include "frontend/assets/model_assets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/base/text_buffer.h"
#include "proto/checkpoint_files.h"
#include "proto/must.h"

static void checkpoint_append(const char *path, const char *mmproj, struct text_buffer *out)
{
    char *files = NULL;
    if (path && checkpoint_files_read(path, mmproj, &files, NULL) == RESULT_OK)
        text_buffer_append_format(out, "%s\n", path);
    if (files)
        text_buffer_append_text(out, files);
    free(files);
}

static void file_append(const char *path, struct text_buffer *out)
{
    struct stat status;
    if (path && stat(path, &status) == 0)
        text_buffer_append_format(out, "%s %llu %llu %lld %lld.%09ld\n", path,
                                  (unsigned long long)status.st_dev,
                                  (unsigned long long)status.st_ino, (long long)status.st_size,
                                  (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

static void fingerprint_make(struct model_form *form)
{
    const struct options *options = form->options;
    struct text_buffer text = {0};
    for (uint32_t i = 0; i < form->place.setting_count; i++)
        text_buffer_append_format(&text, "%s=%s\n", form->settings[i].name,
                                  form->settings[i].value);
    checkpoint_append(options->model, options->mmproj, &text);
    checkpoint_append(options->draft_model, NULL, &text);
    file_append(options->chat_template, &text);
    for (size_t i = 0; i < options->adapters.count; i++) {
        const char *equals = strchr(options->adapters.items[i], '=');
        checkpoint_append(equals ? equals + 1 : NULL, NULL, &text);
    }
    text_buffer_append(&text, "", 1);
    must(!text.failed);
    form->fingerprint = text.bytes;
}

struct model_form *model_form_create_first(const struct options *options)
{
    struct model_form *form = must_alloc(1, sizeof *form);
    form->references = 1;
    form->options = options;
    form->name = options->model;
    fingerprint_make(form);
    return form;
}

enum result model_form_create(const struct options *common, struct model_place *place,
                              struct model_form **form, struct error_text *error)
{
    struct model_form *made = must_alloc(1, sizeof *made);
    struct error_text why;
    made->references = 1;
    made->options = &made->own_options;
    if (place) {
        made->place = *place;
        *place = (struct model_place){0};
    }
    uint32_t count = made->place.setting_count;
    made->settings = must_alloc(count + 1, sizeof made->settings[0]);
    for (uint32_t i = 0; i < count; i++)
        made->settings[i] =
            (struct option_setting){made->place.settings[i].name, made->place.settings[i].value};
    enum result result = options_parse_model(common, made->place.path, made->settings, count,
                                             &made->own_options, &why);
    made->name = place ? made->place.name : made->own_options.model;
    if (result == RESULT_OK)
        result = model_files_find(OPTIONS_SERVE, &made->files, &made->own_options, &why);
    if (result != RESULT_OK) {
        (void)error_set(error, result, place ? "shoal.ini, [%.100s]: %s" : "--model %.100s: %s",
                        made->name ? made->name : "", why.text);
        model_form_release(made);
        return result;
    }
    if (place && made->own_options.served_model_names.count == 0)
        made->own_options.served_model_names =
            (struct option_texts){.items = {made->place.name}, .count = 1};
    fingerprint_make(made);
    *form = made;
    return RESULT_OK;
}

struct model_form *model_form_share(struct model_form *form)
{
    form->references++;
    return form;
}

void model_form_release(struct model_form *form)
{
    if (!form || --form->references > 0)
        return;
    model_place_fini(&form->place);
    free(form->settings);
    free(form->fingerprint);
    free(form);
}

bool model_form_equal(const struct model_form *one, const struct model_form *other)
{
    return strcmp(one->fingerprint, other->fingerprint) == 0;
}

bool model_form_has_name(const struct model_form *form, const char *name)
{
    const struct option_texts *names = &form->options->served_model_names;
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    const struct option_texts *adapters = &form->options->adapters; /* NAME=PATH */
    for (size_t i = 0; i < adapters->count; i++)
        if (strncmp(adapters->items[i], name, strlen(name)) == 0 &&
            adapters->items[i][strlen(name)] == '=')
            return true;
    return false;
}

bool model_form_has_quantization(const struct model_form *form, const char *name)
{
    const struct option_texts *names = &form->options->served_model_names;
    for (size_t i = 0; i < names->count; i++)
        if (model_assets_names_match(names->items[i], name))
            return true;
    return false;
}

static enum result names_check(struct model_form *const *forms, uint32_t count,
                               struct error_text *error)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct option_texts *names = &forms[i]->options->served_model_names;
        for (size_t n = 0; n < names->count; n++)
            for (uint32_t other = 0; other < i; other++)
                if (model_form_has_name(forms[other], names->items[n]))
                    return error_set(error, RESULT_INVALID,
                                     "two models have the name '%.100s': '%.100s' and '%.100s'",
                                     names->items[n], forms[other]->name, forms[i]->name);
    }
    return RESULT_OK;
}

enum result model_forms_read(const struct options *common, struct model_form **forms,
                             uint32_t *count, struct error_text *error)
{
    struct model_folder folder;
    *count = 0;
    enum result result = model_folder_read(common->models_dir, &folder, error);
    if (result != RESULT_OK)
        return result;
    for (uint32_t i = 0; result == RESULT_OK && i < folder.count; i++) {
        result = model_form_create(common, &folder.models[i], &forms[*count], error);
        *count += result == RESULT_OK;
    }
    model_folder_fini(&folder);
    if (result == RESULT_OK)
        result = names_check(forms, *count, error);
    while (result != RESULT_OK && *count > 0)
        model_form_release(forms[--*count]);
    return result;
}
