/*
 * Chooses the model of a request (contract in model_choice.h). With --model there is no choice, and
 * nothing is read.
 */
#include "frontend/serve/routes/model_choice.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/api/speech/multipart_form.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/query_text.h"
#include "frontend/serve/models/body_model.h"
#include "proto/must.h"

static enum result body_unpack(struct prepare_input *input, struct api_error *error)
{
    char *body;
    size_t body_bytes;
    if (input->coding == BODY_PLAIN)
        return RESULT_OK;
    enum result result =
        input->body_bytes > MODEL_CHOICE_UNPACKED_BYTES
            ? RESULT_TOO_LARGE
            : body_coding_unpack(input->coding, input->body, input->body_bytes,
                                 MODEL_CHOICE_UNPACKED_BYTES, NULL, &body, &body_bytes);
    if (result == RESULT_TOO_LARGE)
        return api_error_set(error, result, 413, "request_too_large",
                             "a server of several models takes compressed bodies of at most %u "
                             "bytes, unpacked; send it uncompressed",
                             MODEL_CHOICE_UNPACKED_BYTES);
    if (result != RESULT_OK)
        return api_error_invalid(error, "", "the compressed body cannot be unpacked");
    free(input->body);
    input->body = body;
    input->body_bytes = body_bytes;
    input->coding = BODY_PLAIN;
    return RESULT_OK;
}

/* The field `model` of a form; a form that cannot be read is refused later. */
static enum body_model form_model_find(const struct prepare_input *input, char *name,
                                       size_t capacity)
{
    struct error_text unused = {""};
    struct multipart_form *form = must_alloc(1, sizeof *form);
    const struct multipart_part *part = NULL;
    if (multipart_form_read(input->body, input->body_bytes, form, &unused) == RESULT_OK)
        part = multipart_form_find(form, "model");
    enum body_model found = part ? BODY_MODEL_INVALID : BODY_MODEL_ABSENT;
    if (part && part->byte_count < capacity && !memchr(part->bytes, '\0', part->byte_count)) {
        memcpy(name, part->bytes, part->byte_count);
        name[part->byte_count] = '\0';
        found = BODY_MODEL_NAMED;
    }
    free(form);
    return found;
}

struct model *model_choice_of_body(const struct model_set *set, struct prepare_input *input,
                                   struct api_error *error)
{
    char name[MODEL_NAME_BYTES];
    if (!model_set_is_directory(set))
        return model_set_find(set, NULL);
    if (body_unpack(input, error) != RESULT_OK)
        return NULL;
    enum body_model found =
        input->format && input->format->prepare
            ? form_model_find(input, name, sizeof name)
            : body_model_find(input->body, input->body_bytes, name, sizeof name);
    switch (found) {
    case BODY_MODEL_NAMED: return model_set_find_or_refuse(set, name, error);
    case BODY_MODEL_ABSENT: return model_set_find_or_refuse(set, NULL, error);
    case BODY_MODEL_INVALID: break;
    }
    (void)api_error_invalid(error, "model", "model must be a string of at most %u bytes",
                            MODEL_NAME_BYTES - 1);
    return NULL;
}

struct model *model_choice_of_query(const struct route_context *context,
                                    struct http_exchange *exchange)
{
    char name[MODEL_NAME_BYTES];
    struct api_error error;
    bool named = query_text_find(exchange->request->query, "model", name, sizeof name);
    bool choice = model_set_is_directory(context->models);
    struct model *model =
        model_set_find_or_refuse(context->models, named && choice ? name : NULL, &error);
    if (!model)
        http_reply_error(exchange, &error);
    return model;
}

struct chat_engine *model_choice_engine(const struct route_context *context,
                                        struct http_exchange *exchange)
{
    struct model *model = model_choice_of_query(context, exchange);
    struct chat_engine *engine = model ? model_engine(model) : NULL;
    struct api_error error;
    if (!model || engine)
        return engine;
    (void)api_error_set(&error, RESULT_FULL, 503, "model_unloaded",
                        "the model '%.100s' is not loaded", model_name(model));
    error.retry_after_s = 5;
    http_reply_error(exchange, &error);
    return NULL;
}
