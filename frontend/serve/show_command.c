/*
 * Prints a checkpoint's summary as lines or as JSON. Texts of the checkpoint are not trusted: control
 * characters, which could steer the terminal, are shown as '?'.
 */
#include "frontend/serve/show_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/assets/checkpoint_summary.h"
#include "frontend/base/text_buffer.h"
#include "frontend/hub/hub_progress.h"
#include "frontend/serve/settings/hub_cache.h"
#include "frontend/serve/settings/mmproj_find.h"
#include "proto/utf8.h"

struct shown_model {
    const char *path;
    const char *projector; /* "": none */
    const struct checkpoint_summary *summary;
};

/* Valid UTF-8 of `text`, without control characters other than line feeds and tabs. */
static void text_append(const char *text, struct text_buffer *out)
{
    for (size_t left = strlen(text); left > 0;) {
        uint32_t code_point;
        size_t bytes = utf8_decode(text, left, &code_point);
        char character[UTF8_MAX_CHAR_BYTES];
        bool control = (code_point < 0x20 && code_point != '\n' && code_point != '\t') ||
                       (code_point >= 0x7f && code_point < 0xa0);
        size_t count = utf8_encode(control ? '?' : code_point, character);
        text_buffer_append(out, character, count);
        text += bytes;
        left -= bytes;
    }
}

static void line_append(const char *label, const char *text, struct text_buffer *out)
{
    if (!text[0])
        return;
    text_buffer_append_format(out, "%-14s ", label);
    text_append(text, out);
    text_buffer_append_text(out, "\n");
}

static void number_line_append(const char *label, uint64_t number, struct text_buffer *out)
{
    if (number > 0)
        text_buffer_append_format(out, "%-14s %" PRIu64 "\n", label, number);
}

/* "8.03 B", powers of 1000. */
static void parameters_write(uint64_t count, char text[24])
{
    static const char *const units[] = {"", " K", " M", " B", " T"};
    double value = (double)count;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000;
        unit++;
    }
    snprintf(text, 24, "%.*f%s",
             unit == 0 || value >= 100 ? 0
             : value >= 10             ? 1
                                       : 2,
             value, units[unit]);
}

/* "Q4_K 83 %, Q6_K 17 %", of the bytes. */
static void types_append(const struct checkpoint_summary *summary, struct text_buffer *out)
{
    for (uint32_t i = 0; i < summary->type_count; i++) {
        double share = summary->weight_bytes > 0
                           ? 100.0 * (double)summary->types[i].bytes / (double)summary->weight_bytes
                           : 0;
        text_buffer_append_format(out, "%s%s %.1f %%", i ? ", " : "", summary->types[i].name,
                                  share);
    }
}

static void model_write(const struct shown_model *model, struct text_buffer *out)
{
    const struct checkpoint_summary *summary = model->summary;
    char text[24];
    line_append("path", model->path, out);
    line_append("format", summary->gguf ? "GGUF" : "safetensors", out);
    line_append("family", summary->family, out);
    line_append(summary->gguf ? "name" : "class", summary->name, out);
    parameters_write(summary->elements, text);
    line_append("parameters", summary->quantization[0] ? "unknown (packed)" : text, out);
    line_append("quantization", summary->quantization, out);
    text_buffer_append_format(out, "%-14s ", "types");
    types_append(summary, out);
    text_buffer_append_text(out, "\n");
    number_line_append("context", summary->context_tokens, out);
    number_line_append("layers", summary->layers, out);
    number_line_append("hidden size", summary->hidden, out);
    hub_size_write(summary->weight_bytes, text);
    text_buffer_append_format(out, "%-14s %s in %u tensors, %u file%s\n", "weights", text,
                              summary->tensors, summary->files, summary->files == 1 ? "" : "s");
    line_append("vision",
                model->projector[0] ? model->projector
                : summary->vision   ? "yes"
                                    : "no",
                out);
    if (summary->chat_template)
        text_buffer_append_format(out, "%-14s %zu bytes (--template prints it)\n", "chat template",
                                  strlen(summary->chat_template));
    else
        line_append("chat template", "none", out);
}

static void member_append(const char *name, const char *text, struct text_buffer *out)
{
    struct text_buffer valid = {0};
    text_append(text, &valid);
    text_buffer_append_format(out, "\"%s\":", name);
    text_buffer_append_json_string(out, valid.length ? valid.bytes : "", valid.length);
    text_buffer_append_text(out, ",");
    text_buffer_fini(&valid);
}

static void model_write_json(const struct shown_model *model, struct text_buffer *out)
{
    const struct checkpoint_summary *summary = model->summary;
    text_buffer_append_text(out, "{");
    member_append("path", model->path, out);
    member_append("format", summary->gguf ? "gguf" : "safetensors", out);
    member_append("family", summary->family, out);
    member_append("name", summary->name, out);
    member_append("quantization", summary->quantization, out);
    member_append("projector", model->projector, out);
    if (!summary->quantization[0])
        text_buffer_append_format(out, "\"parameters\":%" PRIu64 ",", summary->elements);
    text_buffer_append_format(out,
                              "\"context\":%u,\"layers\":%u,\"hidden_size\":%u,\"tensors\":%u,"
                              "\"files\":%u,\"weight_bytes\":%" PRIu64 ",\"vision\":%s,\"types\":{",
                              summary->context_tokens, summary->layers, summary->hidden,
                              summary->tensors, summary->files, summary->weight_bytes,
                              summary->vision || model->projector[0] ? "true" : "false");
    for (uint32_t i = 0; i < summary->type_count; i++)
        text_buffer_append_format(out, "%s\"%s\":%" PRIu64, i ? "," : "", summary->types[i].name,
                                  summary->types[i].bytes);
    text_buffer_append_text(out, "},");
    if (summary->chat_template) {
        member_append("chat_template", summary->chat_template, out);
        text_buffer_cut(out, out->length - 1);
    } else {
        text_buffer_append_text(out, "\"chat_template\":null");
    }
    text_buffer_append_text(out, "}\n");
}

static int model_print(const struct options *options, const struct shown_model *model)
{
    struct text_buffer out = {0};
    if (options->print_template && !model->summary->chat_template) {
        fprintf(stderr, "shoal: the model has no chat template\n");
        return 1;
    }
    if (options->print_template)
        text_append(model->summary->chat_template, &out);
    else if (options->json)
        model_write_json(model, &out);
    else
        model_write(model, &out);
    bool written = !out.failed && fwrite(out.bytes, 1, out.length, stdout) == out.length;
    text_buffer_fini(&out);
    return written ? 0 : 1;
}

int show_command_run(const struct options *options)
{
    char path[HUB_CACHE_PATH_BYTES], projector[HUB_CACHE_PATH_BYTES];
    struct checkpoint_summary summary;
    struct error_text error;
    enum result result = hub_cache_find(options->hf_cache, options->model, path, projector, &error);
    const char *model = path[0] ? path : options->model;
    if (result == RESULT_OK)
        result = checkpoint_summary_read(model, &summary, &error);
    if (result != RESULT_OK) {
        fprintf(stderr, "shoal: %s\n", error.text);
        return 1;
    }
    if (!projector[0])
        (void)mmproj_find(model, projector);
    int status = model_print(options, &(struct shown_model){model, projector, &summary});
    checkpoint_summary_fini(&summary);
    return status;
}
