/*
 * The key of the cache is a text of all that the grammar depends on: the form, the tools with the
 * choice among them, the formats of calls and reasoning, and the vocabulary.
 *
 * Arguments of tools that are not strict are held to their schemas as far as that is possible
 * (tool_grammar.h). If all schemas together take too much work, a second grammar holds them to be
 * objects only. The names of all tools that are not held to their whole schema are the grammar's
 * note.
 */
#include "frontend/api/generation/grammar_prepare.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/tool_grammar.h"
#include "frontend/api/generation/vocabulary_specials.h"
#include "frontend/base/shared_bytes.h"
#include "frontend/reply/harmony_parser.h"

struct grammar_work {
    const struct model_assets *assets;
    const struct generation_request *request;
    const struct tool_format *format; /* of enforced calls; NULL: none */
    bool required;                    /* the answer is a call */
    bool harmony;
    bool after_reasoning;
    bool loose;
    bool tools_failed; /* the error is about the tools, not the form */
};

/* --- compilation ----------------------------------------------------------------------------- */

static symbol_id text_symbol(const struct grammar_work *work, struct grammar_builder *builder,
                             const char *text)
{
    const struct special_finder specials = vocabulary_specials(work->assets->tokenizer);
    return grammar_text_symbol(builder, &specials, text, strlen(text));
}

/* The messages of an answer in the harmony format, after the prompt's `<|start|>assistant`. */
static symbol_id harmony_build(const struct grammar_work *work, struct grammar_builder *builder,
                               symbol_id content, symbol_id calls)
{
    static const char *const openings[] = {"<|channel|>analysis<|message|>",
                                           "<|channel|>commentary<|message|>"};
    symbol_id any = grammar_terminal(
        builder, grammar_text_without(builder, NULL, harmony_marks, HARMONY_MARK_COUNT));
    symbol_id next = text_symbol(work, builder, "<|end|><|start|>assistant");
    symbol_id messages[2];
    for (size_t i = 0; i < 2; i++) {
        const symbol_id parts[] = {text_symbol(work, builder, openings[i]), any, next};
        messages[i] = grammar_sequence(builder, parts, 3);
    }
    const symbol_id final[] = {text_symbol(work, builder, "<|channel|>final<|message|>"),
                               content == GRAMMAR_NONE ? any : content};
    symbol_id last[2] = {calls, GRAMMAR_NONE};
    size_t lasts = calls != GRAMMAR_NONE;
    if (!work->required)
        last[lasts++] = grammar_sequence(builder, final, 2);
    const symbol_id whole[] = {
        grammar_repeat(builder, grammar_choice(builder, messages, calls != GRAMMAR_NONE ? 2 : 1), 0,
                       GRAMMAR_UNBOUNDED),
        grammar_choice(builder, last, lasts)};
    return grammar_sequence(builder, whole, 2);
}

static bool work_compile(void *context, struct grammar_builder *builder, symbol_id *root,
                         struct text_buffer *note, struct grammar_error *error)
{
    struct grammar_work *work = context;
    const struct generation_request *request = work->request;
    const struct special_finder specials = vocabulary_specials(work->assets->tokenizer);
    const struct tool_grammar tools = {.builder = builder,
                                       .request = request,
                                       .assets = work->assets,
                                       .format = work->format,
                                       .specials = specials,
                                       .loose = work->loose,
                                       .loose_names = note};
    symbol_id content = GRAMMAR_NONE, calls = GRAMMAR_NONE;
    work->tools_failed = false;
    if (request->form.kind != GRAMMAR_FREE && !work->required &&
        !grammar_source_compile(builder, &request->form, &specials, &content, error))
        return false;
    if (work->format && !tool_grammar_calls(&tools, &calls, error)) {
        work->tools_failed = error->about_tools = true;
        return false;
    }
    if (work->harmony)
        *root = harmony_build(work, builder, content, calls);
    else if (calls == GRAMMAR_NONE)
        *root = content;
    else
        *root = work->required ? calls : tool_grammar_auto(&tools, content, calls);
    return true;
}

/* --- the key --------------------------------------------------------------------------------- */

static void json_write(const cJSON *value, struct text_buffer *out)
{
    char *text = value ? cJSON_PrintUnformatted(value) : NULL;
    out->failed = out->failed || (value && !text);
    text_buffer_append_text(out, text ? text : "-");
    free(text);
}

static void key_write(const struct grammar_work *work, struct text_buffer *key)
{
    const struct generation_request *request = work->request;
    const struct reasoning_format *reasoning = work->assets->formats.reasoning;
    text_buffer_append_format(key, "%s\n%lld %u %d%d%d%d ", work->assets->path,
                              (long long)work->assets->created_unix_s,
                              tokenizer_vocab_tokens(work->assets->tokenizer), work->required,
                              work->harmony, work->after_reasoning, work->loose);
    grammar_source_write(&request->form, key);
    text_buffer_append_format(key, " %s ", reasoning ? reasoning->names[0] : "-");
    if (!work->format)
        return;
    text_buffer_append_format(key, "%s %d%d %s ", tool_format_name(work->format),
                              (int)request->tool_choice, request->single_tool_call,
                              request->tool_name ? request->tool_name : "-");
    json_write(request->allowed_tools, key);
    json_write(request->strict_tools, key);
    json_write(request->tool_inputs, key);
    json_write(request->tools, key);
}

/* --- the request ----------------------------------------------------------------------------- */

static enum result refuse(const struct grammar_work *work, enum result result,
                          const struct grammar_error *why, struct api_error *error)
{
    bool about_tools = work->tools_failed || why->about_tools; /* the latter also from the cache */
    const char *param =
        about_tools || !work->request->form_param ? "tools" : work->request->form_param;
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result == RESULT_CANCELLED)
        return api_error_set(error, result, 503, NULL, "the request was cancelled");
    (void)api_error_invalid(error, param, "%s cannot be enforced: %.200s%s%.60s%s%.200s", param,
                            why->pointer, why->pointer[0] ? ": " : "", why->keyword,
                            why->keyword[0] ? ": " : "", why->message);
    error->code = result == RESULT_TOO_LARGE ? "grammar_too_complex" : "grammar_refused";
    return RESULT_INVALID;
}

static enum result grammar_find(const struct parse_context *context, struct grammar_work *work,
                                struct generation_request *request, struct api_error *error)
{
    struct text_buffer key = {0};
    struct grammar_error why = {0};
    key_write(work, &key);
    enum result result = key.failed
                             ? RESULT_OUT_OF_MEMORY
                             : grammar_cache_find(context->grammars, key.bytes, key.length,
                                                  context->cancelled, work_compile, work,
                                                  &request->grammar, &request->loose_tools, &why);
    text_buffer_fini(&key);
    if (result == RESULT_TOO_LARGE && work->format && !work->loose &&
        !work->request->strict_tools) {
        work->loose = true;
        return grammar_find(context, work, request, error);
    }
    return result == RESULT_OK ? result : refuse(work, result, &why, error);
}

/* Combinations that no grammar describes. */
static enum result combination_check(const struct grammar_work *work, bool with_calls,
                                     struct api_error *error)
{
    const struct generation_request *request = work->request;
    bool has_form = request->form.kind != GRAMMAR_FREE;
    if (has_form && with_calls && !work->format)
        return api_error_invalid(
            error, request->form_param,
            "%s and tools cannot be combined: the form of this model's calls is not known",
            request->form_param);
    if (with_calls && request->tool_inputs && !work->format)
        return api_error_invalid(error, "tools",
                                 "a grammar for the input of a tool cannot be enforced: the "
                                 "form of this model's calls is not known");
    if (work->harmony && request->thinking_budget != THINKING_BUDGET_NONE)
        return api_error_invalid(error, "thinking_budget",
                                 "thinking_budget cannot be combined with an enforced answer: this "
                                 "model's reasoning and answer share one syntax");
    return RESULT_OK;
}

enum result grammar_prepare(const struct parse_context *context, struct generation_request *request,
                            struct api_error *error)
{
    const struct reply_formats *formats = &context->assets->formats;
    bool raw = request->prompts != NULL;
    bool with_calls = !raw && request->tools && request->tool_choice != TOOL_CHOICE_NONE;
    bool has_form = request->form.kind != GRAMMAR_FREE;
    bool has_tags = !raw && formats->reasoning && !formats->reasoning->joint;
    bool has_own_tags = !raw && (request->thinking_start || request->thinking_end);
    struct grammar_work work = {
        .assets = context->assets,
        .request = request,
        .required = with_calls && (request->tool_choice == TOOL_CHOICE_REQUIRED ||
                                   request->tool_choice == TOOL_CHOICE_NAMED),
        .harmony = !raw && formats->reasoning && formats->reasoning->joint,
        .after_reasoning = (has_tags || has_own_tags) && request->thinking != THINKING_OFF};
    if (with_calls)
        work.format = formats->tools;
    bool has_inputs = with_calls && request->tool_inputs;
    if (!has_form && !work.format && !has_inputs)
        return RESULT_OK;
    bool is_auto = !has_form && !work.required && !has_inputs;
    if (is_auto && work.harmony && request->thinking_budget != THINKING_BUDGET_NONE)
        return RESULT_OK; /* the budget works by forced tokens, which a grammar excludes */
    enum result result = combination_check(&work, with_calls, error);
    if (result == RESULT_OK)
        result = grammar_find(context, &work, request, error);
    request->grammar_start = work.after_reasoning ? GRAMMAR_AFTER_REASONING : GRAMMAR_AT_ONCE;
    return result;
}
