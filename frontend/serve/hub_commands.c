/*
 * Options and environment become the settings of frontend/hub, and its results become text. Progress
 * goes to standard error, so that standard output has only what a script reads.
 */
#include "frontend/serve/hub_commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/base/api_error.h"
#include "frontend/base/text_buffer.h"
#include "frontend/hub/hub_choice_policy.h"
#include "frontend/hub/hub_inventory.h"
#include "frontend/hub/hub_progress.h"
#include "frontend/hub/hub_pull.h"
#include "frontend/serve/device_choice.h"
#include "frontend/serve/serve_command.h"
#include "frontend/serve/settings/hub_cache.h"
#include "frontend/serve/settings/hub_environment.h"
#include "frontend/serve/settings/model_files.h"
#include "frontend/serve/settings/option_parser.h"

#define PUBLIC_HUB "https://huggingface.co"

static int failure_print(const struct error_text *error)
{
    fprintf(stderr, "shoal: %s\n", error->text);
    return 1;
}

static enum result cache_find(const struct options *options, char cache[HUB_CACHE_PATH_BYTES],
                              struct error_text *error)
{
    return hub_cache_folder(options->hf_cache, cache)
               ? RESULT_OK
               : error_set(error, RESULT_INVALID, "there is no cache directory (--hf-cache)");
}

static enum result name_find(const struct options *options, struct hub_name *name,
                             struct error_text *error)
{
    return hub_name_parse(options->model, name)
               ? RESULT_OK
               : error_set(error, RESULT_INVALID,
                           "'%.100s' is no model's name: org/name, org/name:QUANT or "
                           "org/name@REVISION",
                           options->model);
}

/* --- pull ------------------------------------------------------------------------------------- */

/* Writes the token of --token-file, or HF_TOKEN; *token is NULL if there is none. */
static enum result token_read(const struct options *options, char text[LIMIT_HUB_TOKEN_BYTES + 1],
                              const char **token, struct error_text *error)
{
    *token = hub_environment_value("HF_TOKEN");
    if (!options->token_file)
        return RESULT_OK;
    int fd = open(options->token_file, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd >= 0 ? read(fd, text, LIMIT_HUB_TOKEN_BYTES) : -1;
    int reason = errno;
    if (fd >= 0)
        close(fd);
    if (count < 0)
        return error_set(error, RESULT_IO, "--token-file %.120s: %s", options->token_file,
                         strerror(reason));
    text[count] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (!text[0])
        return error_set(error, RESULT_INVALID, "--token-file %.120s: it has no token",
                         options->token_file);
    *token = text;
    return RESULT_OK;
}

static enum result pull_name(const struct options *options, const struct hub_name *name,
                             const char *cache, struct error_text *error)
{
    char token[LIMIT_HUB_TOKEN_BYTES + 1];
    const char *endpoint = options->endpoint;
    if (!endpoint)
        endpoint = hub_environment_value("HF_ENDPOINT");
    struct hub_pull pull = {.source = {.endpoint = endpoint ? endpoint : PUBLIC_HUB,
                                       .stall_s = (uint32_t)options->stall_timeout_s},
                            .cache = cache,
                            .retries = (uint32_t)options->retries,
                            .progress = options->json ? stdout : stderr,
                            .progress_json = options->json};
    enum result result = token_read(options, token, &pull.source.token, error);
    if (result == RESULT_OK)
        result = hub_pull_run(&pull, name, error);
    explicit_bzero(token, sizeof token);
    return result;
}

/* Downloads what is missing and writes the model's path. */
static enum result pull(const struct options *options, char path[HUB_CACHE_PATH_BYTES],
                        struct error_text *error)
{
    char cache[HUB_CACHE_PATH_BYTES];
    struct hub_name name;
    struct error_text why;
    enum result result = name_find(options, &name, error);
    if (result == RESULT_OK)
        result = cache_find(options, cache, error);
    if (result != RESULT_OK)
        return result;
    result = pull_name(options, &name, cache, &why);
    if (result != RESULT_OK)
        return error_set(error, result, "%.60s: %.190s", options->model, why.text);
    return hub_cache_locate(options->hf_cache, &name, path, NULL, error);
}

/* The last line of the JSON lines that the download wrote. */
static int pull_end_json(enum result result, const struct error_text *error)
{
    struct text_buffer line = {0};
    text_buffer_append_text(&line, result == RESULT_OK ? "{\"status\":\"success\"" : "{\"error\":");
    if (result != RESULT_OK)
        api_error_append_words(error->text, &line);
    text_buffer_append_text(&line, "}\n");
    bool written = !line.failed && fwrite(line.bytes, 1, line.length, stdout) == line.length;
    text_buffer_fini(&line);
    return written && result == RESULT_OK ? 0 : 1;
}

int pull_command_run(const struct options *options)
{
    char path[HUB_CACHE_PATH_BYTES];
    struct error_text error;
    enum result result = pull(options, path, &error);
    if (options->json)
        return pull_end_json(result, &error);
    if (result != RESULT_OK)
        return failure_print(&error);
    printf("%s\n", path);
    return 0;
}

/* --- list ------------------------------------------------------------------------------------- */

static uint64_t entry_bytes(const struct hub_entry *entry)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < entry->listing.count; i++)
        bytes += entry->listing.files[i].size;
    return bytes;
}

/* Kinds of weights in it, separated by `separator`: quantizations of GGUF files, mmproj,
 * safetensors; each once. */
static void kinds_write(const struct hub_entry *entry, const char *separator,
                        struct text_buffer *out)
{
    struct text_buffer seen = {0};
    text_buffer_append_text(&seen, "|");
    for (uint32_t i = 0; i < entry->listing.count; i++) {
        const char *file = entry->listing.files[i].name;
        const char *ending = strrchr(file, '.');
        char kind[32] = "", mark[40];
        if (hub_name_is_projector(file))
            snprintf(kind, sizeof kind, "mmproj");
        else if (ending && strcasecmp(ending, ".gguf") == 0)
            hub_name_quant(file, kind);
        else if (ending && strcmp(ending, ".safetensors") == 0)
            snprintf(kind, sizeof kind, "safetensors");
        if (!kind[0] && ending && strcasecmp(ending, ".gguf") == 0)
            snprintf(kind, sizeof kind, "GGUF");
        snprintf(mark, sizeof mark, "|%s|", kind);
        if (!kind[0] || (seen.bytes && strstr(seen.bytes, mark)))
            continue;
        text_buffer_append_format(out, "%s%s", seen.length > 1 ? separator : "", kind);
        text_buffer_append_text(&seen, mark + 1);
    }
    text_buffer_fini(&seen);
}

static void entry_write_json(const struct hub_entry *entry, bool first, struct text_buffer *out)
{
    struct text_buffer kinds = {0};
    kinds_write(entry, "\",\"", &kinds);
    text_buffer_append_format(
        out, "%s{\"name\":\"%s/%s\",\"commit\":\"%s\",\"refs\":\"%s\",\"bytes\":%" PRIu64 ",",
        first ? "" : ",", entry->name.org, entry->name.name, entry->commit, entry->refs,
        entry_bytes(entry));
    text_buffer_append_format(out, "\"weights\":[%s%s%s],\"files\":[", kinds.length ? "\"" : "",
                              kinds.length ? kinds.bytes : "", kinds.length ? "\"" : "");
    for (uint32_t i = 0; i < entry->listing.count; i++) {
        const struct hub_file *file = &entry->listing.files[i];
        text_buffer_append_text(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        text_buffer_append_json_string(out, file->name, strlen(file->name));
        text_buffer_append_format(out, ",\"bytes\":%" PRIu64 "}", file->size);
    }
    text_buffer_append_text(out, "]}");
    text_buffer_fini(&kinds);
}

static void entry_write(const struct hub_entry *entry, struct text_buffer *out)
{
    char name[2 * HUB_PART_BYTES + 2], size[16];
    snprintf(name, sizeof name, "%s/%s", entry->name.org, entry->name.name);
    hub_size_write(entry_bytes(entry), size);
    text_buffer_append_format(out, "%-44s %-20s %10s  ", name,
                              entry->refs[0] ? entry->refs : entry->commit, size);
    kinds_write(entry, ", ", out);
    text_buffer_append_text(out, "\n");
}

int list_command_run(const struct options *options)
{
    char cache[HUB_CACHE_PATH_BYTES];
    struct hub_inventory inventory;
    struct error_text error;
    struct text_buffer out = {0};
    if (cache_find(options, cache, &error) != RESULT_OK ||
        hub_inventory_read(cache, &inventory, &error) != RESULT_OK)
        return failure_print(&error);
    if (options->json)
        text_buffer_append_text(&out, "[");
    else if (inventory.count > 0)
        text_buffer_append_format(&out, "%-44s %-20s %10s  %s\n", "NAME", "REVISION", "SIZE",
                                  "WEIGHTS");
    for (uint32_t i = 0; i < inventory.count; i++) {
        if (options->json)
            entry_write_json(&inventory.entries[i], i == 0, &out);
        else
            entry_write(&inventory.entries[i], &out);
    }
    if (options->json)
        text_buffer_append_text(&out, "]\n");
    else if (inventory.count == 0)
        text_buffer_append_format(&out, "There is no model in %s.\n", cache);
    hub_inventory_fini(&inventory);
    bool written = !out.failed && fwrite(out.bytes, 1, out.length, stdout) == out.length;
    text_buffer_fini(&out);
    return written ? 0 : 1;
}

/* --- rm --------------------------------------------------------------------------------------- */

int remove_command_run(const struct options *options)
{
    char cache[HUB_CACHE_PATH_BYTES], size[16];
    struct hub_name name;
    struct error_text error, why;
    uint64_t freed_bytes = 0;
    if (name_find(options, &name, &error) != RESULT_OK ||
        cache_find(options, cache, &error) != RESULT_OK)
        return failure_print(&error);
    if (hub_inventory_remove(cache, &name, &freed_bytes, &why) != RESULT_OK) {
        (void)error_set(&error, RESULT_IO, "%.60s: %.190s", options->model, why.text);
        return failure_print(&error);
    }
    hub_size_write(freed_bytes, size);
    printf("%s is removed, %s are free.\n", options->model, size);
    return 0;
}

/* --- run -------------------------------------------------------------------------------------- */

int run_command_run(const struct options *options)
{
    static struct model_files files;
    static struct options serve;
    char path[HUB_CACHE_PATH_BYTES];
    struct stat status;
    struct error_text error;
    struct hub_name name;
    bool is_name = stat(options->model, &status) != 0 && hub_name_parse(options->model, &name);
    if (is_name &&
        hub_cache_find(options->hf_cache, options->model, path, NULL, &error) != RESULT_OK &&
        pull(options, path, &error) != RESULT_OK)
        return failure_print(&error);
    serve = *options;
    if (options_add_defaults(OPTIONS_SERVE, OPTIONS_RUN, &serve, &error) != RESULT_OK ||
        model_files_find(OPTIONS_SERVE, &files, &serve, &error) != RESULT_OK)
        return failure_print(&error);
    serve.port = 0;
    serve.no_reload = true;
    device_choice_resolve(&serve);
    return serve_command_run_with_chat(&serve);
}
