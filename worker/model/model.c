/*
 * Opens a checkpoint: map the files, index the tensors, read the config, build the plan. Each step
 * checks its input before the next one uses it.
 *
 * Both formats give the same three things: a config, a table of tensors and the names of the
 * tensors. The code after that does not depend on the format. Weights are not copied: the plan
 * points into the mappings, and a backend reads each weight once when it packs it. So opening reads
 * the headers only.
 *
 * A file that is changed while it is mapped is not guarded against (model.h says what happens).
 */
#include "worker/model/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/log.h"
#include "proto/must.h"
#include "proto/opened_files.h"
#include "worker/model/build/plan_builder.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/family_registry.h"
#include "worker/model/gguf/checkpoint_mmproj.h"
#include "worker/model/gguf/gguf_parts.h"
#include "worker/model/hf/checkpoint_folder.h"
#include "worker/model/hf/checkpoint_hf_vision.h"
#include "worker/model/target_drafter.h"
#include "worker/plan/content_hash.h"

#define MODEL_TYPE_BYTES 64u

struct model {
    struct gguf_parts *gguf;
    struct gguf_parts *tower; /* the projector file of a GGUF model; NULL: none */
    struct checkpoint_folder *folder;
    struct plan *plan;
    struct plan *vision_plan;      /* NULL if the model takes no images */
    struct plan *ahead_plan;       /* NULL: not opened */
    struct target_drafter drafter; /* zeroed: not opened */
    const struct model_family *family;
    struct tensor_naming naming; /* of a folder */
    struct plan_source source;   /* of the plan */
    struct error_text no_vision_reason;
    struct model_fingerprint fingerprint;
};

static enum result build_plan(plan_tensor_id (*list_ops)(struct plan_builder *builder,
                                                         const struct model_config *config),
                              const struct model_config *config, const struct plan_source *source,
                              struct plan **plan, struct error_text *error)
{
    struct plan_builder *builder = plan_builder_create(source, config, error);
    if (!builder)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
    plan_tensor_id logits = list_ops(builder, config);
    enum result result = plan_builder_finish(builder, logits, plan);
    plan_builder_destroy(builder);
    return result;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/* `opened` is the result of opening model->gguf. */
static enum result open_gguf(struct model *model, enum result opened, struct error_text *error)
{
    const struct model_family *family = NULL;
    struct model_config config;
    if (opened != RESULT_OK)
        return opened;
    enum result result =
        family_registry_read_gguf(gguf_parts_first(model->gguf), &family, &config, error);
    if (result != RESULT_OK)
        return result;
    model->family = family;
    model->source = (struct plan_source){.tensors = gguf_parts_tensors(model->gguf)};
    model->fingerprint = gguf_parts_fingerprint(model->gguf);
    return build_plan(family->list_ops, &config, &model->source, &model->plan, error);
}

static enum result open_file(struct model *model, const char *path,
                             const struct opened_files *opened, struct error_text *error)
{
    enum result result = gguf_parts_open(path, opened, &model->gguf, error);
    return open_gguf(model, result == RESULT_NOT_FOUND ? RESULT_IO : result, error);
}

/* --- the projector file of a GGUF model --------------------------------------------------------- */

static enum result build_tower(const struct gguf_parts *file, const struct mmproj_tower *tower,
                               struct plan **plan, struct error_text *error)
{
    struct plan_source source = {.tensors = gguf_parts_tensors(file),
                                 .naming = &tower->naming,
                                 .prefix = "",
                                 .vision = &tower->config.vision};
    struct plan_builder *builder = plan_builder_create(&source, &tower->config.tower, error);
    if (!builder)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for its plan");
    tower->list_ops(builder, &tower->config);
    enum result result = plan_builder_finish(builder, PLAN_NONE, plan);
    plan_builder_destroy(builder);
    return result;
}

/* Keys of weights and of KV caches must differ if the tower does. */
static void add_fingerprint(struct model_fingerprint *sum, const struct model_fingerprint *more)
{
    uint64_t facts[] = {more->file_bytes,
                        (uint64_t)more->modified_ns,
                        (uint64_t)more->changed_ns,
                        more->device,
                        more->inode,
                        more->header_hash};
    sum->file_bytes += more->file_bytes;
    sum->header_hash = content_hash(facts, sizeof facts, sum->header_hash);
}

/* `opened` is the result of opening `file`, which is closed unless the tower is usable. */
static enum result add_tower(struct model *model, struct gguf_parts *file, enum result opened,
                             struct error_text *error)
{
    enum result result = opened;
    struct mmproj_tower *tower = malloc(sizeof *tower);
    if (!model->gguf && result == RESULT_OK)
        result = error_set(error, RESULT_UNSUPPORTED, "a folder has its own vision tower");
    if (!tower && result == RESULT_OK)
        result = error_set(error, RESULT_OUT_OF_MEMORY, "no memory");
    if (result == RESULT_OK)
        result = checkpoint_mmproj_read(gguf_parts_first(file), &model->plan->config, tower, error);
    if (result == RESULT_OK)
        result = build_tower(file, tower, &model->vision_plan, error);
    free(tower);
    if (result != RESULT_OK) {
        gguf_parts_close(file);
        return result;
    }
    struct model_fingerprint more = gguf_parts_fingerprint(file);
    add_fingerprint(&model->fingerprint, &more);
    model->tower = file;
    return RESULT_OK;
}

enum result model_open_tower_bytes(struct model *model, const void *bytes, size_t byte_count,
                                   struct error_text *error)
{
    struct gguf_parts *file = NULL;
    enum result opened = gguf_parts_open_bytes(bytes, byte_count, &file, error);
    return add_tower(model, file, opened, error);
}

enum result model_open_tower(struct model *model, const char *path, struct error_text *error)
{
    return model_open_tower_of(model, path, NULL, error);
}

enum result model_open_tower_of(struct model *model, const char *path,
                                const struct opened_files *opened, struct error_text *error)
{
    struct error_text reason = {""};
    struct gguf_parts *file = NULL;
    enum result result = gguf_parts_open(path, opened, &file, &reason);
    result = add_tower(model, file, result, &reason);
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result == RESULT_NOT_FOUND ? RESULT_IO : result,
                                           "%.100s: %s", path, reason.text);
}

/* --- a folder --------------------------------------------------------------------------------- */

/* The name of "/models/SmolLM2-135M/" is SmolLM2-135M. */
static void name_after_path(const char *path, struct model_config *config)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    checkpoint_set_name(config, path + start, end - start);
}

/* A tower and how folders state it: the family's own, or one that goes with any text. */
struct vision_source {
    const struct hf_vision_form *form;
    void (*list_ops)(struct plan_builder *builder, const struct vision_config *config);
};

static enum result build_vision(const struct model *model, const struct vision_source *vision,
                                struct vision_config *config, struct plan **plan,
                                struct error_text *error)
{
    const struct hf_vision_form *form = vision->form;
    const struct tensor_table *tensors = checkpoint_folder_tensors(model->folder);
    struct plan_source source = {.tensors = tensors,
                                 .naming = &form->naming,
                                 .vision = &config->vision,
                                 .parts = form->parts};
    source.prefix = tensor_naming_find_prefix(source.naming, tensors, NULL, form->probe);
    if (!source.prefix)
        return error_set(error, RESULT_INVALID, "no tensors of one are there");
    struct plan_builder *builder = plan_builder_create(&source, &config->tower, error);
    if (!builder)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for its plan");
    vision->list_ops(builder, config);
    enum result result = plan_builder_finish(builder, PLAN_NONE, plan);
    plan_builder_destroy(builder);
    return result;
}

/* The text is served without a tower that no family has. */
static void name_other_tower(struct model *model)
{
    struct json_value root = checkpoint_folder_config(model->folder);
    struct json_value vision = json_value_member(root, "vision_config");
    char whole[MODEL_TYPE_BYTES] = "", tower[MODEL_TYPE_BYTES] = "";
    if (json_value_type(vision) != JSON_OBJECT)
        return;
    (void)json_value_string(json_value_member(root, "model_type"), whole, sizeof whole);
    (void)json_value_string(json_value_member(vision, "model_type"), tower, sizeof tower);
    (void)error_set(&model->no_vision_reason, RESULT_UNSUPPORTED,
                    "is served without images: the vision tower \"%s\" of model_type \"%s\" is not "
                    "supported",
                    tower, whole);
}

/* Reads the tower's config and builds its plan. */
static enum result open_tower(const struct model *model, const struct vision_source *vision,
                              struct plan **plan, struct error_text *error)
{
    struct json_value root = checkpoint_folder_config(model->folder);
    struct vision_config *config = malloc(sizeof *config);
    if (!config)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory");
    enum result result =
        checkpoint_hf_read_vision(root, vision->form, &model->plan->config, config, error);
    if (result == RESULT_OK)
        result = build_vision(model, vision, config, plan, error);
    free(config);
    return result;
}

/* The tower of sounds beside that of images. If it cannot be used, sounds are refused. */
static void open_sound(struct model *model, const struct model_family *family)
{
    struct error_text reason = {""};
    const struct vision_source source = {family->hf->sound, family->list_sound_ops};
    if (!source.form || !model->vision_plan)
        return;
    enum result result = open_tower(model, &source, &model->vision_plan->sound, &reason);
    if (result == RESULT_OK)
        model->vision_plan->vision.sounds = &model->vision_plan->sound->vision;
    else if (result != RESULT_NOT_FOUND)
        log_warn("the model is served without audio: %s", reason.text);
}

/* If the tower cannot be used, the text is still served; the reason is kept for
 * model_no_vision_reason(). */
static void open_vision(struct model *model, const struct model_family *family)
{
    struct json_value root = checkpoint_folder_config(model->folder);
    struct vision_source vision = {family->hf->vision, family->list_vision_ops};
    if (family_registry_tower_class(root)) {
        const struct model_tower *tower = family_registry_tower(root);
        vision = tower ? (struct vision_source){tower->hf, tower->list_ops}
                       : (struct vision_source){NULL, NULL};
    }
    if (!vision.form) {
        name_other_tower(model);
        return;
    }
    struct error_text reason = {""};
    enum result result = open_tower(model, &vision, &model->vision_plan, &reason);
    if (result != RESULT_OK && result != RESULT_NOT_FOUND)
        (void)error_set(&model->no_vision_reason, result, "has no usable vision tower: %s",
                        reason.text);
    open_sound(model, family);
}

/* The text's part of a model that also speaks is served. */
static void tell_unused(const struct model *model)
{
    static const char *const parts[] = {"talker.", "token2wav.", "code2wav."};
    const struct tensor_table *tensors = checkpoint_folder_tensors(model->folder);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tensor_table_count(tensors); i++) {
        struct gguf_string name = tensor_table_at(tensors, i)->name;
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
            count += name.length >= strlen(parts[p]) &&
                     memcmp(name.bytes, parts[p], strlen(parts[p])) == 0;
    }
    if (count > 0)
        log_info("the model gives text and no speech: %u tensors of its talker are not used",
                 count);
}

/* A class of several parts may keep its text under other names than the family's. */
static enum result refuse_names(const struct model *model, const struct model_family *family,
                                struct error_text *error)
{
    struct json_value root = checkpoint_folder_config(model->folder);
    char type[MODEL_TYPE_BYTES] = "";
    (void)json_value_string(json_value_member(root, "model_type"), type, sizeof type);
    if (family_registry_knows(type))
        return error_set(error, RESULT_INVALID, "tensor %sembed_tokens.weight is missing",
                         family->hf->naming.prefixes[0]);
    return error_set(
        error, RESULT_UNSUPPORTED,
        "config.json: model_type \"%s\" is not supported, and its text alone cannot be "
        "used: there is no tensor %sembed_tokens.weight",
        type, family->hf->naming.prefixes[0]);
}

/* In a class whose text may be of any family, the text's names have the class's prefixes. */
static struct tensor_naming naming_of(const struct model *model, const struct model_family *family)
{
    static const char *const prefixes[] = {"model.language_model.",
                                           "language_model.model.",
                                           "language_model.",
                                           "language.model.",
                                           "model.",
                                           NULL};
    struct tensor_naming naming = family->hf->naming;
    const struct model_tower *tower =
        family_registry_tower_class(checkpoint_folder_config(model->folder));
    if (tower) {
        naming.prefixes = prefixes;
        naming.other_parts = tower->hf->parts;
    }
    return naming;
}

/* A checkpoint of the bare model, as embedding models are, has names without a prefix. */
static const char *find_prefix(const struct plan_source *source)
{
    struct stored_name stored;
    const char *prefix =
        tensor_naming_find_prefix(source->naming, source->tensors, NULL, "token_embd.weight");
    if (!prefix &&
        tensor_naming_find(source->naming, source->tensors, (struct naming_place){"", NULL},
                           "token_embd.weight", &stored))
        prefix = "";
    return prefix;
}

static enum result open_folder(struct model *model, int folder_fd,
                               const struct opened_files *opened, const char *path,
                               struct error_text *error)
{
    const struct model_family *family = NULL;
    struct model_config config;
    enum result result = checkpoint_folder_open(folder_fd, opened, &model->folder, error);
    if (result == RESULT_OK)
        result = family_registry_read_hf(checkpoint_folder_config(model->folder), &family, &config,
                                         error);
    if (result != RESULT_OK)
        return result;
    name_after_path(path, &config);
    model->family = family;
    model->naming = naming_of(model, family);
    struct plan_source *source = &model->source;
    *source = (struct plan_source){
        .tensors = checkpoint_folder_tensors(model->folder),
        .naming = &model->naming,
    };
    source->prefix = find_prefix(source);
    if (!source->prefix)
        return refuse_names(model, family, error);
    if (family->hf->look_at_tensors)
        family->hf->look_at_tensors(source->tensors, source->prefix, &config);
    model->fingerprint = checkpoint_folder_fingerprint(model->folder);
    result = build_plan(family->list_ops, &config, source, &model->plan, error);
    if (result == RESULT_OK) {
        open_vision(model, family);
        tell_unused(model);
    }
    /* Of other models layers that attend to features add nothing where there are none. */
    if (result == RESULT_OK && config.crossed_layers == config.layers && !model->vision_plan)
        return error_set(error, RESULT_INVALID, "%s", model->no_vision_reason.text);
    return result;
}

/* --- both ------------------------------------------------------------------------------------- */

static struct model *create(void)
{
    struct model *model = calloc(1, sizeof *model);
    if (model)
        (void)error_set(&model->no_vision_reason, RESULT_NOT_FOUND, "takes text only");
    return model;
}

enum result model_open_bytes(const void *bytes, size_t byte_count, struct model **model,
                             struct error_text *error)
{
    *model = NULL;
    struct model *opened = create();
    if (!opened)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory");
    enum result result =
        open_gguf(opened, gguf_parts_open_bytes(bytes, byte_count, &opened->gguf, error), error);
    if (result == RESULT_OK)
        *model = opened;
    else
        model_close(opened);
    return result;
}

enum result model_open(const char *path, struct model **model, struct error_text *error)
{
    return model_open_of(path, NULL, model, error);
}

enum result model_open_of(const char *path, const struct opened_files *opened, struct model **model,
                          struct error_text *error)
{
    struct error_text reason = {""};
    enum result result;
    *model = NULL;
    struct model *made = create();
    if (!made)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory");
    int folder_fd = opened ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder_fd >= 0 || (opened && opened_files_find(opened, "config.json")))
        result = open_folder(made, folder_fd, opened, path, &reason);
    else
        result = open_file(made, path, opened, &reason);
    if (folder_fd >= 0)
        close(folder_fd);
    if (result == RESULT_OK) {
        *model = made;
        return RESULT_OK;
    }
    model_close(made);
    return error_set(error, result, "%.100s: %s", path, reason.text);
}

/* --- the layer that predicts a further token ---------------------------------------------------- */

static const struct tensor_name gguf_ahead_names[] = {
    {"nextn.%", "blk.*.nextn.%"},
    {"blk.*.%", "blk.*.%"},
    {NULL, NULL},
};
static const char *const gguf_ahead_prefixes[] = {"", NULL};
static const struct tensor_naming gguf_ahead = {gguf_ahead_names, NULL, gguf_ahead_prefixes, NULL};

/* The model's config with this layer alone, which is like the last one that attends. */
static struct model_config ahead_config(const struct model_config *whole)
{
    struct model_config config = *whole;
    uint32_t attends = whole->layers - 1;
    while (attends > 0 && whole->layer[attends].kind != LAYER_ATTENTION)
        attends--;
    config.layers = 1;
    config.ahead_layers = 0;
    config.layer[0] = whole->layer[attends];
    return config;
}

static enum result build_ahead(struct model *model, const struct ahead_form *form,
                               struct error_text *error)
{
    const struct model_config *whole = &model->plan->config;
    struct model_config config = ahead_config(whole);
    bool is_numbered = model->gguf || form->hf_after_last;
    char number[16], part[STORED_NAME_BYTES];
    snprintf(number, sizeof number, "%u", whole->layers);
    struct plan_source source = {.tensors = model->source.tensors,
                                 .naming = model->gguf ? &gguf_ahead : &form->hf,
                                 .layer = is_numbered ? number : NULL};
    source.prefix = tensor_naming_find_prefix(source.naming, source.tensors, source.layer,
                                              "nextn.eh_proj.weight");
    if (!source.prefix)
        return error_set(error, RESULT_NOT_FOUND,
                         "the checkpoint has no layer that predicts a further token");
    if (whole->ahead_layers > 1)
        return error_set(error, RESULT_UNSUPPORTED,
                         "it has %u layers that predict further tokens, not one",
                         whole->ahead_layers);
    snprintf(part, sizeof part, "%s", source.prefix);
    if (is_numbered)
        snprintf(part, sizeof part, "%s%s.%s.", source.prefix, model->gguf ? "blk" : "layers",
                 number);
    const char *const parts[] = {part, NULL};
    source.parts = parts;
    return build_plan(form->list_ops, &config, &source, &model->ahead_plan, error);
}

/* Makes the plan one that keeps the last hidden states. */
static enum result keep_hidden(struct model *model, struct error_text *error)
{
    struct plan *plan = NULL;
    struct model_config config = model->plan->config;
    config.keeps_hidden = true;
    enum result result = build_plan(model->family->list_ops, &config, &model->source, &plan, error);
    if (result != RESULT_OK)
        return result;
    must(plan->keeps_hidden);
    plan_destroy(model->plan);
    model->plan = plan;
    return RESULT_OK;
}

enum result model_open_ahead(struct model *model, struct error_text *error)
{
    const struct ahead_form *form = model->family->ahead;
    if (!form)
        return error_set(error, RESULT_NOT_FOUND,
                         "layers that predict a further token are not known of this family");
    enum result result = build_ahead(model, form, error);
    if (result != RESULT_OK)
        return result;
    result = keep_hidden(model, error);
    if (result != RESULT_OK) {
        plan_destroy(model->ahead_plan);
        model->ahead_plan = NULL;
        return result;
    }
    must(model->ahead_plan->takes_hidden);
    return RESULT_OK;
}

enum result model_open_drafter(struct model *model, const char *path,
                               const struct opened_files *opened, struct error_text *error)
{
    struct error_text reason = {""};
    must(!model->ahead_plan && !model->drafter.plan);
    enum result result =
        target_drafter_open(path, opened, &model->source, model->plan, &model->drafter, error);
    if (result != RESULT_OK)
        return result;
    result = model->drafter.borrows_caches ? keep_hidden(model, &reason)
                                           : plan_taps_add(model->plan, model->drafter.taps,
                                                           model->drafter.tap_count, &reason);
    target_drafter_follow_caches(&model->drafter, model->plan);
    if (result == RESULT_OK)
        return result;
    target_drafter_close(&model->drafter);
    return error_set(error, result, "%.100s: %s", path, reason.text);
}

const struct target_drafter *model_drafter(const struct model *model)
{
    return model->drafter.plan ? &model->drafter : NULL;
}

const struct plan *model_ahead_plan(const struct model *model)
{
    return model->drafter.plan ? model->drafter.plan : model->ahead_plan;
}

enum result model_quantize_kv(struct model *model, const struct kv_quantization *quantization,
                              struct error_text *error)
{
    enum result result =
        kv_layout_quantize(&model->plan->kv, &model->plan->config, quantization, error);
    if (result == RESULT_OK && model->drafter.plan)
        target_drafter_follow_caches(&model->drafter, model->plan);
    return result;
}

enum result model_pool(struct model *model, struct error_text *error)
{
    if (model->plan->config.crossed_layers > 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "a model whose rows attend to features gives no vectors");
    return plan_pool(model->plan, error);
}

void model_close(struct model *model)
{
    if (!model)
        return;
    plan_destroy(model->plan);
    plan_destroy(model->vision_plan);
    plan_destroy(model->ahead_plan);
    target_drafter_close(&model->drafter);
    gguf_parts_close(model->gguf);
    gguf_parts_close(model->tower);
    checkpoint_folder_close(model->folder);
    free(model);
}

const struct plan *model_plan(const struct model *model)
{
    return model->plan;
}

const struct model_config *model_config(const struct model *model)
{
    return &model->plan->config;
}

const struct model_vision *model_vision(const struct model *model)
{
    return model->vision_plan ? &model->vision_plan->vision : NULL;
}

const struct plan *model_vision_plan(const struct model *model)
{
    return model->vision_plan;
}

const char *model_no_vision_reason(const struct model *model)
{
    return model->vision_plan ? "" : model->no_vision_reason.text;
}

struct model_fingerprint model_fingerprint(const struct model *model)
{
    return model->fingerprint;
}
