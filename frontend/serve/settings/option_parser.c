/*
 * Reads the command line by the table in option_rows.c.
 *
 * Values are `--name value` or `--name=value`. Numbers of bytes take a suffix K, M or G (powers of
 * 1024). An unknown option, a value out of range, and an option given twice that is not a list are
 * errors: a mistyped option must not pass as a default.
 */
#include "frontend/serve/settings/option_parser.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/reply/reply_formats.h"
#include "frontend/serve/settings/option_rows.h"
#include "proto/kv_cache_type.h"
#include "proto/kv_quantization.h"
#include "proto/limits.h"
#include "proto/speculation.h"

static const struct option_row *row_find(enum options_command command, const char *name,
                                         size_t name_bytes)
{
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_rows[i].name && (option_rows[i].commands & command) &&
            strlen(option_rows[i].name) == name_bytes &&
            memcmp(option_rows[i].name, name, name_bytes) == 0)
            return &option_rows[i];
    }
    return NULL;
}

static bool number_parse(const char *text, bool bytes, uint64_t *value)
{
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    const char *suffixes = "KMG";
    const char *suffix = bytes && *end ? strchr(suffixes, *end) : NULL;
    unsigned shift = suffix ? 10u * (unsigned)(suffix - suffixes + 1) : 0;
    if (suffix)
        end++;
    if (*end != '\0' || number > UINT64_MAX >> shift)
        return false;
    *value = (uint64_t)number << shift;
    return true;
}

/* "N%" as OPTIONS_SHARE and N. */
static bool share_parse(const char *text, uint64_t *value)
{
    char *end = NULL;
    unsigned long percent = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    if (percent < 1 || percent > 95 || strcmp(end, "%") != 0)
        return false;
    *value = OPTIONS_SHARE | percent;
    return true;
}

static bool is_list(const struct option_row *row)
{
    return row->kind == OPTION_TEXTS || row->kind == OPTION_SECRETS;
}

static enum result row_set(const struct option_row *row, const char *text, struct options *options,
                           struct error_text *error)
{
    char *member = (char *)options + row->offset;
    if (is_list(row)) {
        struct option_texts *texts = (struct option_texts *)(void *)member;
        if (texts->count == LIMIT_OPTION_REPEATS)
            return error_set(error, RESULT_TOO_LARGE, "--%s is given more than %u times", row->name,
                             LIMIT_OPTION_REPEATS);
        texts->items[texts->count++] = text;
        return RESULT_OK;
    }
    if (row->kind == OPTION_FLAG) {
        *(bool *)(void *)member = true;
        return RESULT_OK;
    }
    if (row->kind == OPTION_TEXT) {
        *(const char **)(void *)member = text;
        return RESULT_OK;
    }
    uint64_t value = 0;
    if (row->kind == OPTION_MEMORY && share_parse(text, &value)) {
        *(uint64_t *)(void *)member = value;
        return RESULT_OK;
    }
    static const char *const forms[] = {[OPTION_BYTES] = " of bytes (512M, 2G)",
                                        [OPTION_MEMORY] = " of bytes (512M, 2G) or 1% to 95%",
                                        [OPTION_FLAG] = NULL};
    if (!number_parse(text, row->kind != OPTION_COUNT, &value))
        return error_set(error, RESULT_INVALID, "--%s: '%.60s' is not a number%s", row->name, text,
                         forms[row->kind] ? forms[row->kind] : "");
    if (value < row->min || value > row->max)
        return error_set(error, RESULT_INVALID,
                         "--%s: %" PRIu64 " is not within %" PRIu64 " and %" PRIu64, row->name,
                         value, row->min, row->max);
    *(uint64_t *)(void *)member = value;
    return RESULT_OK;
}

static enum result device_add(const char *text, size_t text_bytes, struct options *options,
                              struct error_text *error)
{
    char name[DEVICE_SET_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)(text_bytes < sizeof name ? text_bytes : sizeof name),
             text);
    if (options->device_count == LIMIT_WORKERS)
        return error_set(error, RESULT_INVALID, "--device: more than %u devices", LIMIT_WORKERS);
    if (text_bytes >= sizeof name ||
        device_set_parse(name, &options->devices[options->device_count]) != 0)
        return error_set(error, RESULT_INVALID,
                         "--device: '%.*s' is neither cpu nor vulkan nor vulkan:0 to vulkan:%u, "
                         "nor up to %u of these with + between, nor auto alone",
                         (int)(text_bytes < 40 ? text_bytes : 40), text, LIMIT_DEVICES - 1,
                         LIMIT_SPLIT_DEVICES);
    options->device_count++;
    return RESULT_OK;
}

/* --activation-bits 16 exists on the CPU only. */
static enum result activations_check(const struct options *options, struct error_text *error)
{
    if (options->activation_bits == 8)
        return RESULT_OK;
    if (options->activation_bits != 16)
        return error_set(error, RESULT_INVALID, "--activation-bits: %u is neither 8 nor 16",
                         (unsigned)options->activation_bits);
    for (uint32_t i = 0; i < options->device_count; i++)
        if (device_set_kind(&options->devices[i]) != DEVICE_CPU)
            return error_set(error, RESULT_INVALID, "--activation-bits 16 works on the CPU only");
    return RESULT_OK;
}

/* Reads the devices and the number of workers that follows from them. */
static enum result devices_check(struct options *options, struct error_text *error)
{
    if (options->device_texts.count == 0)
        options->device_texts = (struct option_texts){.items = {"auto"}, .count = 1};
    options->device_auto =
        options->device_texts.count == 1 && strcmp(options->device_texts.items[0], "auto") == 0;
    if (options->device_auto)
        options->devices[options->device_count++] =
            (struct device_set){.count = 1, .devices = {{DEVICE_CPU, 0}}};
    for (size_t i = 0; i < options->device_texts.count && !options->device_auto; i++) {
        const char *text = options->device_texts.items[i];
        for (bool more = true; more;) {
            size_t text_bytes = strcspn(text, ",");
            enum result result = device_add(text, text_bytes, options, error);
            if (result != RESULT_OK)
                return result;
            more = text[text_bytes] == ',';
            text += text_bytes + 1;
        }
    }
    if (options->workers == 0)
        options->workers = options->device_count;
    if (options->workers < options->device_count)
        return error_set(error, RESULT_INVALID, "--device names %u devices for --workers %u",
                         options->device_count, (unsigned)options->workers);
    return activations_check(options, error);
}

/* The worker checks the same rules, and the model's. */
static enum result kv_quantization_check(const struct options *options, struct error_text *error)
{
    struct kv_quantization_request request = {.group_size = (uint32_t)options->kv_group_size,
                                              .start_tokens =
                                                  (uint32_t)options->quantized_kv_start};
    const struct {
        const char *name;
        const char *text;
        uint32_t *half_bits;
    } bits[] = {{"bits", options->kv_bits, &request.half_bits},
                {"key-bits", options->kv_key_bits, &request.key_half_bits},
                {"value-bits", options->kv_value_bits, &request.value_half_bits}};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        if (bits[i].text && kv_half_bits_parse(bits[i].text, bits[i].half_bits) != 0)
            return error_set(error, RESULT_INVALID,
                             "--kv-%s: '%.40s' is not a multiple of 0.5 up to 8", bits[i].name,
                             bits[i].text);
    }
    if (options->kv_quant_scheme &&
        kv_quant_scheme_parse(options->kv_quant_scheme, &request.scheme) != 0)
        return error_set(error, RESULT_INVALID,
                         "--kv-quant-scheme: '%.40s' is neither uniform nor turboquant",
                         options->kv_quant_scheme);
    struct kv_quantization quantization;
    return kv_quantization_resolve(&request, &quantization, error);
}

/* Clients' seeds have the same maximum (request_fields_read_sampling()). */
static enum result request_seed_read(struct options *options, struct error_text *error)
{
    const char *text = options->seed;
    options->request_seed = UINT64_MAX;
    if (!text)
        return RESULT_OK;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 16 || text[digits] != '\0' ||
        strtoull(text, NULL, 10) > UINT64_C(9007199254740992))
        return error_set(error, RESULT_INVALID, "--seed: '%.40s' is not a number from 0 to 2^53",
                         text);
    options->request_seed = strtoull(text, NULL, 10);
    return RESULT_OK;
}

/* How workers are kept and confined. A single answer or chat is not worth a standby by default. */
static enum result workers_check(enum options_command command, struct options *options,
                                 struct error_text *error)
{
    bool on = strcmp(options->standby, "on") == 0;
    if (command != OPTIONS_SERVE && strcmp(options->standby, "auto") == 0)
        options->standby = "off";
    if (!on && strcmp(options->standby, "auto") != 0 && strcmp(options->standby, "off") != 0)
        return error_set(error, RESULT_INVALID, "--standby: '%.40s' is none of auto, on and off",
                         options->standby);
    if (on && (!options->kv_survives || !options->prefix_cache))
        return error_set(error, RESULT_INVALID,
                         "--standby on needs --kv-survives 1 and --prefix-cache 1");
    for (uint32_t i = 0; on && i < options->device_count; i++)
        if (options->devices[i].count > 1)
            return error_set(error, RESULT_INVALID,
                             "--standby on: a worker whose layers are split over devices has none");
    if (strcmp(options->worker_sandbox, "auto") != 0 && strcmp(options->worker_sandbox, "off") != 0)
        return error_set(error, RESULT_INVALID, "--worker-sandbox: '%.40s' is neither auto nor off",
                         options->worker_sandbox);
    return RESULT_OK;
}

/* Commands whose model may be given without --model. */
static bool takes_name(enum options_command command)
{
    return (command & (OPTIONS_PULL | OPTIONS_REMOVE | OPTIONS_SHOW)) != 0;
}

/* Options of commands that run a model: those that concern several, or the form of texts. */
static enum result model_options_check(enum options_command command, struct options *options,
                                       struct error_text *error)
{
    if (command == OPTIONS_SERVE && request_seed_read(options, error) != RESULT_OK)
        return RESULT_INVALID;
    enum speculation speculation;
    if (speculation_parse(options->speculation, &speculation) != 0)
        return error_set(error, RESULT_INVALID,
                         "--speculation: '%.40s' is none of auto, text, mtp and off",
                         options->speculation);
    if (options->draft_model && (speculation == SPECULATION_OFF || speculation == SPECULATION_MTP))
        return error_set(error, RESULT_INVALID, "--draft-model is not used with --speculation %s",
                         options->speculation);
    if (!options->tls_cert != !options->tls_key)
        return error_set(error, RESULT_INVALID, "--tls-cert and --tls-key go together");
    enum result result = devices_check(options, error);
    if (result == RESULT_OK)
        result = workers_check(command, options, error);
    if (result != RESULT_OK)
        return result;
    enum kv_cache_type kv_type;
    if (kv_cache_type_parse(options->kv_cache_type, &kv_type) != 0)
        return error_set(error, RESULT_INVALID, "--kv-cache-type: '%.40s' is neither f16 nor f32",
                         options->kv_cache_type);
    result = kv_quantization_check(options, error);
    if (result != RESULT_OK)
        return result;
    result = reply_format_names_check(
        &(struct reply_format_names){options->reasoning_format, options->tool_call_parser}, error);
    if (result != RESULT_OK)
        return result;
    if (options->models_dir && options->adapter_directory)
        return error_set(error, RESULT_INVALID, "--lora-dir needs --model");
    if (options->model && options->models_dir)
        return error_set(error, RESULT_INVALID, "--model and --models-dir exclude each other");
    if (!options->models_dir && (!options->model || !options->model[0]))
        return error_set(error, RESULT_INVALID, "--model is required");
    if (command == OPTIONS_GENERATE && !options->prompt)
        return error_set(error, RESULT_INVALID, "--prompt is required");
    if (options->raw && options->images.count > 0)
        return error_set(error, RESULT_INVALID, "--raw takes no --image: its place is unknown");
    const struct media_policy media = options_media(options);
    result = media_policy_check(&media, error);
    if (result != RESULT_OK)
        return result;
    uint64_t sequences = options->max_sequences > 0 ? options->max_sequences : 1;
    if (options->workers * sequences + options->max_queue > LIMIT_LIVE_REQUESTS)
        return error_set(error, RESULT_INVALID,
                         "--max-sequences of all --workers and --max-queue together exceed %u",
                         LIMIT_LIVE_REQUESTS);
    if (options->step_tokens > 0 && options->step_tokens < options->max_sequences)
        return error_set(error, RESULT_INVALID, "--step-tokens must not be below --max-sequences");
    const char *const numbers[] = {options->temperature, options->top_p, options->top_k,
                                   options->seed};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char *end = NULL;
        if (numbers[i] && (strtod(numbers[i], &end),
                           end == numbers[i] || *end != '\0' ||
                               strspn(numbers[i], "0123456789.-") != strlen(numbers[i])))
            return error_set(error, RESULT_INVALID, "'%.60s' is not a number", numbers[i]);
    }
    return RESULT_OK;
}

static enum result options_check(enum options_command command, struct options *options,
                                 struct error_text *error)
{
    if (log_level_parse(options->log_level_name, &options->log_level) != 0)
        return error_set(error, RESULT_INVALID, "--log-level: '%.40s' is none of its levels",
                         options->log_level_name);
    if (log_format_parse(options->log_format_name, &options->log_format) != 0)
        return error_set(error, RESULT_INVALID, "--log-format: '%.40s' is neither text nor json",
                         options->log_format_name);
    if (takes_name(command) && (!options->model || !options->model[0]))
        return error_set(error, RESULT_INVALID, "the name of a model is missing");
    if (!(command & (OPTIONS_SERVE | OPTIONS_GENERATE | OPTIONS_CHAT)))
        return RESULT_OK;
    return model_options_check(command, options, error);
}

/* Reads one option at argv[*at] and advances *at past it. */
static enum result argument_take(enum options_command command, int argc, char *argv[], int *at,
                                 bool seen[OPTION_ROWS_MAX], struct options *options,
                                 struct error_text *error)
{
    const char *argument = argv[(*at)++];
    if (strcmp(argument, "-h") == 0)
        argument = "--help";
    if (takes_name(command) && argument[0] != '-') {
        if (options->model)
            return error_set(error, RESULT_INVALID, "two models are given: '%.80s' and '%.80s'",
                             options->model, argument);
        options->model = argument;
        return RESULT_OK;
    }
    if (strncmp(argument, "--", 2) != 0)
        return error_set(error, RESULT_INVALID, "'%.80s' is not an option (see --help)", argument);
    const char *name = argument + 2;
    const char *equals = strchr(name, '=');
    size_t name_bytes = equals ? (size_t)(equals - name) : strlen(name);
    const struct option_row *row = row_find(command, name, name_bytes);
    if (!row)
        return error_set(error, RESULT_INVALID, "unknown option '%.80s' (see --help)", argument);
    if (seen[row - option_rows] && !is_list(row))
        return error_set(error, RESULT_INVALID, "--%s is given twice", row->name);
    seen[row - option_rows] = true;
    const char *value = equals ? equals + 1 : NULL;
    if (row->kind == OPTION_FLAG && value)
        return error_set(error, RESULT_INVALID, "--%s takes no value", row->name);
    if (row->kind != OPTION_FLAG && !value) {
        if (*at >= argc)
            return error_set(error, RESULT_INVALID, "--%s needs a value", row->name);
        value = argv[(*at)++];
    }
    return row_set(row, value, options, error);
}

/* The command line without the checks that need all of it. */
static enum result arguments_read(enum options_command command, int argc, char *argv[],
                                  struct options *options, struct error_text *error)
{
    bool seen[OPTION_ROWS_MAX] = {false};
    *options = (struct options){.argument_count = argc, .arguments = argv};
    for (size_t i = 0; i < option_row_count; i++) {
        enum result result = option_rows[i].fallback && (option_rows[i].commands & command)
                                 ? row_set(&option_rows[i], option_rows[i].fallback, options, error)
                                 : RESULT_OK;
        if (result != RESULT_OK)
            return result;
    }
    for (int at = 0; at < argc;) {
        enum result result = argument_take(command, argc, argv, &at, seen, options, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result options_parse(enum options_command command, int argc, char *argv[],
                          struct options *options, struct error_text *error)
{
    enum result result = arguments_read(command, argc, argv, options, error);
    return result != RESULT_OK || options->help ? result : options_check(command, options, error);
}

enum result options_add_defaults(enum options_command command, enum options_command parsed_for,
                                 struct options *options, struct error_text *error)
{
    enum result result = RESULT_OK;
    options->request_seed = UINT64_MAX;
    for (size_t i = 0; i < option_row_count && result == RESULT_OK; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->name && row->fallback && (row->commands & command) &&
            !row_find(parsed_for, row->name, strlen(row->name)))
            result = row_set(row, row->fallback, options, error);
    }
    return result;
}

/* Overwrites `text` if it lies in the argument. */
static void argument_hide(char *argument, const char *text)
{
    uintptr_t begin = (uintptr_t)argument, at = (uintptr_t)text;
    if (at < begin || at > begin + strlen(argument))
        return;
    explicit_bzero(argument + (at - begin), strlen(text));
}

void options_hide_secrets(const struct options *options)
{
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_rows[i].kind != OPTION_SECRETS)
            continue;
        const struct option_texts *texts =
            (const void *)((const char *)options + option_rows[i].offset);
        for (size_t item = 0; item < texts->count; item++)
            for (int at = 0; at < options->argument_count; at++)
                argument_hide(options->arguments[at], texts->items[item]);
    }
}

/* `seen`: rows that an earlier setting of this model replaced. */
static enum result setting_apply(const struct option_setting *setting, bool seen[OPTION_ROWS_MAX],
                                 struct options *options, struct error_text *error)
{
    const struct option_row *row =
        row_find(OPTIONS_PER_MODEL, setting->name, strlen(setting->name));
    if (!row)
        return error_set(error, RESULT_INVALID, "'%.60s' is no option of a single model",
                         setting->name);
    char *member = (char *)options + row->offset;
    bool first = !seen[row - option_rows];
    seen[row - option_rows] = true;
    if (!first && !is_list(row))
        return error_set(error, RESULT_INVALID, "%s is given twice", row->name);
    if (first && is_list(row))
        ((struct option_texts *)(void *)member)->count = 0;
    if (row->kind != OPTION_FLAG)
        return row_set(row, setting->value, options, error);
    bool on = strcmp(setting->value, "true") == 0;
    if (!on && strcmp(setting->value, "false") != 0)
        return error_set(error, RESULT_INVALID, "%s: '%.40s' is neither true nor false", row->name,
                         setting->value);
    *(bool *)(void *)member = on;
    return RESULT_OK;
}

enum result options_parse_model(const struct options *common, const char *model,
                                const struct option_setting *settings, size_t setting_count,
                                struct options *options, struct error_text *error)
{
    bool seen[OPTION_ROWS_MAX] = {false};
    enum result result =
        arguments_read(OPTIONS_SERVE, common->argument_count, common->arguments, options, error);
    for (size_t i = 0; result == RESULT_OK && i < setting_count; i++)
        result = setting_apply(&settings[i], seen, options, error);
    options->models_dir = NULL;
    /* Another model may need the memory of a step. */
    if (common->models_dir && strcmp(options->standby, "auto") == 0)
        options->standby = "off";
    if (model)
        options->model = model;
    if (result == RESULT_OK)
        result = options_check(OPTIONS_SERVE, options, error);
    if (options->device_auto && common->device_auto)
        memcpy(options->devices, common->devices, sizeof options->devices);
    return result;
}

static void row_print(const struct option_row *row, FILE *out)
{
    static const char *const places[] = {
        [OPTION_TEXT] = " TEXT", [OPTION_TEXTS] = " TEXT",  [OPTION_SECRETS] = " TEXT",
        [OPTION_COUNT] = " N",   [OPTION_BYTES] = " BYTES", [OPTION_MEMORY] = " BYTES|N%",
        [OPTION_FLAG] = ""};
    char left[64];
    snprintf(left, sizeof left, "--%s%s", row->name, places[row->kind]);
    fprintf(out, "  %-28s %s", left, row->help);
    if (row->fallback)
        fprintf(out, " [%s]", row->fallback);
    fputc('\n', out);
}

/* Prints the heading at `*at` and its rows for the command, unless there are none; advances to the
 * next heading. */
static void group_print(enum options_command command, size_t *at, FILE *out)
{
    const char *heading = option_rows[(*at)++].help;
    for (; *at < option_row_count && option_rows[*at].name; ++*at) {
        if (!(option_rows[*at].commands & command))
            continue;
        if (heading)
            fprintf(out, "\n%s:\n", heading);
        heading = NULL;
        row_print(&option_rows[*at], out);
    }
}

void options_print_common(FILE *out)
{
    size_t at = 0;
    group_print(OPTIONS_SERVE, &at, out);
}

void options_print_help(enum options_command command, FILE *out)
{
    static const char *const usages[] = {[OPTIONS_SERVE] = "serve --model PATH",
                                         [OPTIONS_GENERATE] = "generate --model PATH --prompt TEXT",
                                         [OPTIONS_CHAT] = "chat --model PATH",
                                         [OPTIONS_DEVICES] = "devices",
                                         [OPTIONS_PULL] = "pull MODEL",
                                         [OPTIONS_LIST] = "list",
                                         [OPTIONS_REMOVE] = "rm MODEL",
                                         [OPTIONS_SHOW] = "show MODEL",
                                         [OPTIONS_RUN] = "run MODEL"};
    fprintf(out, "usage: shoal %s [options]\n", usages[command]);
    for (size_t at = 0; at < option_row_count;)
        group_print(command, &at, out);
}

static void texts_log(const struct option_row *row, const struct option_texts *texts)
{
    if (texts->count == 0)
        log_info("option --%s (not given)", row->name);
    else if (row->kind == OPTION_SECRETS)
        log_info("option --%s (%zu given)", row->name, texts->count);
    for (size_t i = 0; i < texts->count && row->kind != OPTION_SECRETS; i++)
        log_info("option --%s %.200s", row->name, texts->items[i]);
}

static void number_print(const struct option_row *row, uint64_t value)
{
    bool is_share = row->kind == OPTION_MEMORY && (value & OPTIONS_SHARE);
    log_info("option --%s %" PRIu64 "%s", row->name,
             is_share ? (uint64_t)(value & ~OPTIONS_SHARE) : value, is_share ? "%" : "");
}

void options_log(enum options_command command, const struct options *options)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const char *member = (const char *)options + option_rows[i].offset;
        if (!option_rows[i].name || !(option_rows[i].commands & command) ||
            option_rows[i].offset == offsetof(struct options, help))
            continue;
        if (is_list(&option_rows[i])) {
            texts_log(&option_rows[i], (const struct option_texts *)(const void *)member);
        } else if (option_rows[i].kind == OPTION_TEXT) {
            const char *text = *(const char *const *)(const void *)member;
            log_info("option --%s %.200s", option_rows[i].name, text ? text : "(not given)");
        } else if (option_rows[i].kind == OPTION_FLAG) {
            log_info("option --%s %s", option_rows[i].name,
                     *(const bool *)(const void *)member ? "yes" : "no");
        } else {
            number_print(&option_rows[i], *(const uint64_t *)(const void *)member);
        }
    }
}
