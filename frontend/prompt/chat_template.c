/*
 * Chat templates: compile once, render many times.
 *
 * A prompt must equal what the model's publisher would have rendered with Python, from a template
 * that was not reviewed, with messages of an unknown client. So Shoal has its own Jinja interpreter
 * (frontend/prompt/jinja). Compiling lexes, parses and binds names into one arena; rendering walks
 * the tree with an arena of its own, so a compiled template is never written to and threads share
 * it. The output carries one mark per byte (the template's or a caller's), from which this file
 * makes spans.
 *
 * Source, steps, depth, memory and output are bounded by proto/limits.h; exceeding a bound is an
 * error that names it.
 */
#include "frontend/prompt/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_executor.h"
#include "frontend/prompt/jinja/jinja_globals.h"
#include "frontend/prompt/jinja/jinja_input.h"
#include "frontend/prompt/jinja/jinja_lexer.h"
#include "frontend/prompt/jinja/jinja_parser.h"
#include "frontend/prompt/jinja/jinja_scope.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "proto/limits.h"

struct chat_template {
    struct jinja_arena arena;
    struct jinja_node *root;
    struct jinja_scope *scope;
    size_t source_bytes;
    char source[]; /* a copy */
};

enum result chat_template_open(const char *source, size_t source_bytes,
                               struct chat_template **template, struct error_text *error)
{
    struct jinja_token_list tokens = {0};
    if (source_bytes > LIMIT_TEMPLATE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "template is larger than %u bytes",
                         LIMIT_TEMPLATE_BYTES);
    struct chat_template *opened = calloc(1, sizeof(*opened) + source_bytes + 1);
    if (opened == NULL)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a chat template");
    if (source_bytes > 0)
        memcpy(opened->source, source, source_bytes);
    opened->source_bytes = source_bytes;
    jinja_arena_init(&opened->arena, LIMIT_TEMPLATE_MEMORY);
    enum result result = jinja_lexer_scan(&opened->arena, source, source_bytes, &tokens, error);
    if (result == RESULT_OK)
        result = jinja_parser_parse(&opened->arena, &tokens, &opened->root, error);
    if (result == RESULT_OK)
        result = jinja_scope_bind(&opened->arena, opened->root, &opened->scope, error);
    if (result != RESULT_OK) {
        chat_template_close(opened);
        return result;
    }
    *template = opened;
    return RESULT_OK;
}

void chat_template_close(struct chat_template *template)
{
    if (template == NULL)
        return;
    jinja_arena_fini(&template->arena);
    free(template);
}

const char *chat_template_source(const struct chat_template *template, size_t *source_bytes)
{
    *source_bytes = template->source_bytes;
    return template->source;
}

void chat_prompt_fini(struct chat_prompt *prompt)
{
    free(prompt->text);
    free(prompt->spans);
    *prompt = (struct chat_prompt){0};
}

static bool render(struct jinja_run *run, const struct chat_template *template,
                   const struct cJSON *variables, const char *const trusted_names[])
{
    struct jinja_dict *globals;
    struct jinja_frame *frame;
    if (!jinja_dict_make(run, 32, &globals) || !jinja_globals_add(run, globals) ||
        !jinja_input_add(run, variables, trusted_names, globals))
        return false;
    run->globals = globals;
    return jinja_frame_make(run, template->scope, NULL, &frame) && jinja_frame_load(run, frame) &&
           jinja_execute(run, frame, template->root) != FLOW_FAIL;
}

static bool byte_is_trusted(const struct jinja_builder *output, size_t at)
{
    return output->trust == NULL ? output->trusted : output->trust[at] != 0;
}

/* Copies the output out of the arena and turns runs of equal marks into spans. */
static enum result take_output(const struct jinja_builder *output, struct chat_prompt *prompt)
{
    size_t spans = 0;
    for (size_t at = 0; at < output->length; at++)
        if (at == 0 || byte_is_trusted(output, at) != byte_is_trusted(output, at - 1))
            spans++;
    prompt->text = malloc(output->length + 1);
    prompt->spans = calloc(spans + 1, sizeof(*prompt->spans));
    if (prompt->text == NULL || prompt->spans == NULL) {
        chat_prompt_fini(prompt);
        return RESULT_OUT_OF_MEMORY;
    }
    if (output->length > 0)
        memcpy(prompt->text, output->bytes, output->length);
    prompt->text[output->length] = '\0';
    prompt->text_bytes = output->length;
    for (size_t at = 0; at < output->length; at++) {
        bool trusted = byte_is_trusted(output, at);
        if (at == 0 || trusted != byte_is_trusted(output, at - 1))
            prompt->spans[prompt->span_count++] =
                (struct prompt_span){.text = prompt->text + at, .trusted = trusted};
        prompt->spans[prompt->span_count - 1].text_bytes++;
    }
    return RESULT_OK;
}

enum result chat_template_render(const struct chat_template *template,
                                 const struct cJSON *variables, const char *const trusted_names[],
                                 int64_t now_unix_s, const atomic_bool *cancelled,
                                 struct chat_prompt *prompt, struct error_text *error)
{
    struct jinja_builder output = {.limit_bytes = LIMIT_TEMPLATE_OUTPUT};
    struct jinja_run run = {.output = &output,
                            .steps_left = LIMIT_TEMPLATE_STEPS,
                            .cancelled = cancelled,
                            .now_unix_s = now_unix_s};
    enum result result;
    *prompt = (struct chat_prompt){0};
    jinja_arena_init(&run.arena, LIMIT_TEMPLATE_MEMORY);
    if (render(&run, template, variables, trusted_names)) {
        result = take_output(&output, prompt);
        if (result != RESULT_OK)
            (void)error_set(error, result, "no memory for a prompt");
    } else if (run.raised) {
        result = error_set(error, run.failure, "%s", run.error.text);
    } else {
        result = error_set(error, run.failure, "chat template, line %d: %.220s", run.line,
                           run.error.text);
    }
    jinja_arena_fini(&run.arena);
    return result;
}
