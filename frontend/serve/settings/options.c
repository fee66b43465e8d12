/*
 * One table of options: name, kind, bounds, default, help, and where the value goes. Parsing,
 * --help and the list that is logged at start walk the same rows, so none of them can be forgotten.
 *
 * Values are `--name value` or `--name=value`. Numbers take a suffix K, M or G (of 1024) where they
 * count bytes. Refuses what it does not know, what is out of range and what is given twice without
 * being a list: a mistyped option must not pass as a default.
 */
#include "frontend/serve/settings/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/reply/reply_formats.h"
#include "proto/kv_cache_type.h"
#include "proto/kv_quantization.h"
#include "proto/limits.h"

enum option_kind {
    OPTION_TEXT,
    OPTION_TEXTS,   /* any number of times */
    OPTION_SECRETS, /* the same, and never shown */
    OPTION_COUNT,
    OPTION_BYTES,
    OPTION_MEMORY, /* bytes, or N% of a device's memory */
    OPTION_FLAG
};

struct option_row {
    const char *name;
    enum option_kind kind;
    unsigned commands;
    size_t offset;
    uint64_t least;
    uint64_t most;
    const char *fallback; /* as it would be typed; NULL: none */
    const char *help;
};

#define BOTH       (OPTIONS_SERVE | OPTIONS_GENERATE)
#define ALL        (BOTH | OPTIONS_DEVICES)
#define AT(member) offsetof(struct options, member)
#define TEXT_ROW(name, commands, member, fallback, help)                                           \
    {                                                                                              \
        name, OPTION_TEXT, commands, AT(member), 0, 0, fallback, help                              \
    }
#define FLAG_ROW(name, commands, member, help)                                                     \
    {                                                                                              \
        name, OPTION_FLAG, commands, AT(member), 0, 0, NULL, help                                  \
    }

static const struct option_row rows[] = {
    TEXT_ROW("model", BOTH, model, NULL,
             "checkpoint to serve: a GGUF file, a Hugging Face folder, or a repository's name in "
             "Hugging "
             "Face's cache (required)"),
    TEXT_ROW("hf-cache", BOTH, hf_cache, NULL,
             "folder of Hugging Face's cache; default: .cache/huggingface/hub in the user's home"),
    TEXT_ROW("served-model-name", OPTIONS_SERVE, served_model_name, NULL,
             "the model's name in the API; default: the repository's, the folder's or the file's "
             "without its "
             "ending"),
    TEXT_ROW("chat-template", BOTH, chat_template, NULL,
             "a Jinja file to render chats with; default: the checkpoint's own template"),
    TEXT_ROW("reasoning-format", OPTIONS_SERVE, reasoning_format, "auto",
             "how the model marks its reasoning: auto (from the chat template), none (it stays in "
             "the answer), or a format's name"),
    TEXT_ROW("tool-call-parser", OPTIONS_SERVE, tool_call_parser, "auto",
             "how the model writes tool calls: auto (from the chat template), none (calls stay "
             "text), or a format's name"),
    {"device", OPTION_TEXTS, BOTH, AT(device_texts), 0, 0, NULL,
     "where workers compute: cpu (the default), vulkan or vulkan:N (`shoal devices` lists them); "
     "several, with commas or given again, are dealt to the workers in turn"},
    TEXT_ROW("vulkan-tier", BOTH, vulkan_tier, NULL,
             "for tests: use nothing above scalar, dot, khr-matrix or nv-matrix2"),
    FLAG_ROW("vulkan-validation", BOTH, vulkan_validation,
             "for tests: run Vulkan workers under the validation layer"),
    TEXT_ROW("pipeline-cache", BOTH, pipeline_cache, NULL,
             "folder where Vulkan workers keep compiled shaders, or none; default: .cache/shoal in "
             "the user's home"),
    FLAG_ROW("profile", BOTH, profile, "let workers log the time that each kind of op takes"),
    TEXT_ROW("host", OPTIONS_SERVE, host, "127.0.0.1", "address to listen on"),
    {"port", OPTION_COUNT, OPTIONS_SERVE, AT(port), 0, 65535, "8080",
     "port to listen on; 0 = any free one, printed"},
    {"context", OPTION_COUNT, BOTH, AT(context_tokens), 0, LIMIT_CONTEXT_TOKENS, "0",
     "tokens of a prompt and its answer; 0 = as many as the model was trained for"},
    {"max-tokens", OPTION_COUNT, BOTH, AT(max_tokens), 0, LIMIT_CONTEXT_TOKENS, "0",
     "tokens of an answer whose request sets none; 0 = what the context leaves"},
    {"activation-bits", OPTION_COUNT, BOTH, AT(activation_bits), 8, 16, "8",
     "of activations on their way through quantized weights, on a CPU: 8 (more where values stand "
     "out) or 16, which is slower and leaves nothing of their rounding"},
    {"max-sequences", OPTION_COUNT, BOTH, AT(max_sequences), 1, LIMIT_SEQUENCES, "64",
     "requests that the worker runs at once"},
    {"max-queue", OPTION_COUNT, OPTIONS_SERVE, AT(max_queue), 0, LIMIT_LIVE_REQUESTS, "256",
     "requests beyond these that may wait; more are refused with 429"},
    {"threads", OPTION_COUNT, BOTH, AT(threads), 0, LIMIT_THREADS, "0",
     "threads that the worker computes with; 0 = one for each processor core"},
    {"step-tokens", OPTION_COUNT, BOTH, AT(step_tokens), 0, LIMIT_STEP_ROWS, "0",
     "tokens that one step of the worker computes at most; 0 = the worker decides"},
    {"mixed-prefill-tokens", OPTION_COUNT, BOTH, AT(mixed_prefill_tokens), 0, LIMIT_STEP_ROWS, "0",
     "of these, prompt tokens of a step that also decodes; 0 = the worker decides"},
    {"step-depth", OPTION_COUNT, BOTH, AT(step_depth), 0, 2, "0",
     "steps on the device before the tokens of the first are read; 0 = the worker decides"},
    TEXT_ROW("kv-cache-type", BOTH, kv_cache_type, "f16",
             "what the KV cache stores: f16, or f32 for twice the memory and every bit"),
    TEXT_ROW("kv-bits", BOTH, kv_bits, NULL,
             "bits of a quantized key or value; keys of 3 and values of 4 where turboquant gets "
             "3.5; default: nothing is quantized"),
    TEXT_ROW("kv-quant-scheme", BOTH, kv_quant_scheme, NULL,
             "how it is quantized: uniform (2 to 8 bits) or turboquant (1 to 4); default: uniform"),
    TEXT_ROW("kv-key-bits", BOTH, kv_key_bits, NULL, "bits of keys, when not those of kv-bits"),
    TEXT_ROW("kv-value-bits", BOTH, kv_value_bits, NULL,
             "bits of values, when not those of kv-bits"),
    {"kv-group-size", OPTION_COUNT, BOTH, AT(kv_group_size), 0, LIMIT_HEAD_DIM, "0",
     "elements that share a scale in uniform: 32, 64 or 128; 0 = 64, or what fits a head"},
    {"quantized-kv-start", OPTION_COUNT, BOTH, AT(quantized_kv_start), 0, LIMIT_CONTEXT_TOKENS, "0",
     "tokens of a sequence up to which nothing of it is quantized"},
    {"kv-cache-bytes", OPTION_MEMORY, BOTH, AT(kv_cache_bytes), 0, 1ull << 46, "0",
     "memory of the KV cache, in bytes or as N% of the device's memory, shared by its workers; 0 = "
     "the worker decides from what is free"},
    {"max-kv-size", OPTION_COUNT, BOTH, AT(max_kv_tokens), 0, LIMIT_CONTEXT_TOKENS, "0",
     "tokens of prompt and answer together; a request that asks for more is refused with 400; 0 = "
     "what the context holds"},
    {"vision-cache-size", OPTION_COUNT, BOTH, AT(vision_cache_size), 0, LIMIT_KEPT_IMAGES, "20",
     "images whose features a worker keeps in case they come again"},
    {"vision-cache-bytes", OPTION_BYTES, BOTH, AT(vision_cache_bytes), 0, 1ull << 46, "0",
     "memory of images' features; 0 = the worker decides from vision-cache-size"},
    {"prefix-cache", OPTION_COUNT, BOTH, AT(prefix_cache), 0, 1, "1",
     "1 = what was computed of prompts and answers is kept and shared; 0 = it is not"},
    {"slab-bytes", OPTION_BYTES, BOTH, AT(slab_bytes), 16u << 20, LIMIT_SLAB_BYTES, "256M",
     "shared memory for prompts and pictures on their way to the worker"},
    {"image-memory-bytes", OPTION_BYTES, BOTH, AT(image_memory_bytes), 16u << 20, 1ull << 40, "1G",
     "memory for decoded pictures of all live requests; beyond it requests with pictures get 429"},
    {"prepare-threads", OPTION_COUNT, BOTH, AT(prepare_threads), 1, 64, "2",
     "threads that parse, render and tokenize requests and decode pictures"},
    {"max-body-bytes", OPTION_BYTES, OPTIONS_SERVE, AT(max_body_bytes), 1024, 1u << 30, "8M",
     "largest body of a request; a larger one is refused with 413"},
    {"max-connections", OPTION_COUNT, OPTIONS_SERVE, AT(max_connections), 1, 1u << 20, "8192",
     "open connections; more are refused with 503"},
    {"max-requests-per-client", OPTION_COUNT, OPTIONS_SERVE, AT(max_requests_per_client), 0,
     1u << 20, "0", "requests in hand of one client address, more get 429; 0 = any number"},
    {"request-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(request_timeout_s), 1, 3600, "60",
     "seconds in which a request must have arrived whole; answering has no limit"},
    {"request-deadline", OPTION_COUNT, OPTIONS_SERVE, AT(request_deadline_s), 0, 86400, "0",
     "seconds after which an unfinished answer is ended with an error; 0 = never"},
    {"idle-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(idle_timeout_s), 1, 86400, "120",
     "seconds after which a connection without a request, or whose reply is not read, is closed"},
    {"stream-buffer-bytes", OPTION_BYTES, OPTIONS_SERVE, AT(stream_buffer_bytes), 16u << 10,
     1u << 30, "4M", "unread bytes at which the stream of a slow reader is cut"},
    {"response-store-bytes", OPTION_BYTES, OPTIONS_SERVE, AT(response_store_bytes), 1u << 20,
     1ull << 40, "64M",
     "memory for responses of the Responses API that can be fetched and continued"},
    {"keepalive-comment", OPTION_COUNT, OPTIONS_SERVE, AT(keepalive_comment_s), 1, 3600, "10",
     "seconds of silence after which a stream gets a comment or a ping"},
    {"workers", OPTION_COUNT, BOTH, AT(workers), 0, LIMIT_WORKERS, "0",
     "worker processes, each with max-sequences, slab-bytes and kv-cache-bytes of its own; 0 = one "
     "for each device"},
    {"worker-timeout", OPTION_COUNT, BOTH, AT(worker_timeout_s), 1, 86400, "30",
     "seconds without progress after which a worker that owes work is killed as hung"},
    {"poison-crashes", OPTION_COUNT, BOTH, AT(poison_crashes), 1, 1000, "3",
     "workers that died in a row while computing a request, after which it is retried alone"},
    {"poison-memory-s", OPTION_COUNT, BOTH, AT(poison_memory_s), 0, 86400, "600",
     "seconds for which a request that killed a worker alone is refused when it comes again"},
    TEXT_ROW("worker-fault", BOTH, worker_fault, NULL,
             "for tests: a fault for the workers to have (worker/README.md)"),
    {"drain-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(drain_timeout_s), 0, 86400, "30",
     "seconds that running requests get after SIGTERM"},
    {"api-key", OPTION_SECRETS, OPTIONS_SERVE, AT(api_keys), 0, 0, NULL,
     "a key that requests must show; may be given several times"},
    TEXT_ROW("api-key-file", OPTIONS_SERVE, api_key_file, NULL,
             "a file of such keys, one a line; read again on SIGHUP"),
    FLAG_ROW("protect-metrics", OPTIONS_SERVE, protect_metrics,
             "let /metrics need a key too; /health and /ready never do"),
    {"allow-media-domain", OPTION_TEXTS, OPTIONS_SERVE, AT(media_domains), 0, 0, NULL,
     "a host, HOST or HOST:PORT, from which pictures are fetched that requests name by http or "
     "https; may be given several times; default: none is fetched"},
    FLAG_ROW(
        "allow-media-private", OPTIONS_SERVE, media_private,
        "dangerous: fetch from these hosts even where their addresses are private, loopback or "
        "otherwise not public: clients reach this server's own network through them"),
    TEXT_ROW("allow-media-path", OPTIONS_SERVE, media_path, NULL,
             "folder of which requests may name pictures as file:///…; default: none"),
    {"media-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(media_timeout_s), 1, 600, "10",
     "seconds in which a picture must have been fetched, redirects included"},
    {"max-image-bytes", OPTION_BYTES, BOTH, AT(max_image_bytes), 1024, LIMIT_PICTURE_BYTES, "20M",
     "largest file of a picture, wherever it comes from; --max-body-bytes bounds those in "
     "requests"},
    {"cors-origin", OPTION_TEXTS, OPTIONS_SERVE, AT(cors_origins), 0, 0, NULL,
     "a web origin whose pages may use this server, or '*'; may be given several times"},
    TEXT_ROW("tls-cert", OPTIONS_SERVE, tls_cert, NULL,
             "PEM file of a certificate and its chain: speaks HTTPS; read again on SIGHUP"),
    TEXT_ROW("tls-key", OPTIONS_SERVE, tls_key, NULL, "PEM file of the certificate's key"),
    FLAG_ROW("json", OPTIONS_DEVICES, json, "print JSON"),
    TEXT_ROW("log-format", ALL, log_format_name, "text", "text or json"),
    TEXT_ROW("log-level", OPTIONS_SERVE, log_level_name, "info", "error, warn, info or debug"),
    TEXT_ROW("log-level", OPTIONS_GENERATE | OPTIONS_DEVICES, log_level_name, "warn",
             "error, warn, info or debug"),
    TEXT_ROW("prompt", OPTIONS_GENERATE, prompt, NULL, "what to answer (required)"),
    {"image", OPTION_TEXTS, OPTIONS_GENERATE, AT(images), 0, 0, NULL,
     "a file with a picture, which stands before the prompt; may be given several times"},
    FLAG_ROW("raw", OPTIONS_GENERATE, raw, "continue the prompt as it is, without a chat template"),
    TEXT_ROW("temperature", OPTIONS_GENERATE, temperature, NULL,
             "0 to 2; default: the checkpoint's, then 1"),
    TEXT_ROW("top-p", OPTIONS_GENERATE, top_p, NULL, "0 to 1; default: the checkpoint's, then 1"),
    TEXT_ROW("top-k", OPTIONS_GENERATE, top_k, NULL, "default: the checkpoint's, then off"),
    TEXT_ROW("seed", OPTIONS_GENERATE, seed, NULL, "default: a random one"),
    FLAG_ROW("stats", OPTIONS_GENERATE, stats, "print tokens per second to standard error"),
    FLAG_ROW("help", ALL, help, "print this"),
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

static const struct option_row *row_find(enum options_command command, const char *name,
                                         size_t name_bytes)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if ((rows[i].commands & command) && strlen(rows[i].name) == name_bytes &&
            memcmp(rows[i].name, name, name_bytes) == 0)
            return &rows[i];
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

/* "N%": OPTIONS_SHARE and N. */
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
    if (value < row->least || value > row->most)
        return error_set(error, RESULT_INVALID,
                         "--%s: %" PRIu64 " is not within %" PRIu64 " and %" PRIu64, row->name,
                         value, row->least, row->most);
    *(uint64_t *)(void *)member = value;
    return RESULT_OK;
}

static enum result device_add(const char *text, size_t text_bytes, struct options *options,
                              struct error_text *error)
{
    char name[DEVICE_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)(text_bytes < sizeof name ? text_bytes : sizeof name),
             text);
    if (options->device_count == LIMIT_WORKERS)
        return error_set(error, RESULT_INVALID, "--device: more than %u devices", LIMIT_WORKERS);
    if (text_bytes >= sizeof name ||
        device_name_parse(name, &options->devices[options->device_count]) != 0)
        return error_set(error, RESULT_INVALID,
                         "--device: '%.*s' is neither cpu nor vulkan nor vulkan:0 to vulkan:%u",
                         (int)(text_bytes < 40 ? text_bytes : 40), text, LIMIT_DEVICES - 1);
    options->device_count++;
    return RESULT_OK;
}

/* Vulkan devices have an arithmetic of their own. */
static enum result activations_check(const struct options *options, struct error_text *error)
{
    if (options->activation_bits == 8)
        return RESULT_OK;
    if (options->activation_bits != 16)
        return error_set(error, RESULT_INVALID, "--activation-bits: %u is neither 8 nor 16",
                         (unsigned)options->activation_bits);
    for (uint32_t i = 0; i < options->device_count; i++)
        if (options->devices[i].kind != DEVICE_CPU)
            return error_set(error, RESULT_INVALID, "--activation-bits 16 works on the CPU only");
    return RESULT_OK;
}

/* Which devices, and how many workers follow from them. */
static enum result devices_check(struct options *options, struct error_text *error)
{
    if (options->device_texts.count == 0)
        options->device_texts = (struct option_texts){.items = {"cpu"}, .count = 1};
    for (size_t i = 0; i < options->device_texts.count; i++) {
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

struct media_policy options_media(const struct options *options)
{
    return (struct media_policy){.hosts = options->media_domains.items,
                                 .host_count = options->media_domains.count,
                                 .allows_private = options->media_private,
                                 .folder = options->media_path,
                                 .most_bytes = options->max_image_bytes,
                                 .fetch_timeout_s = (uint32_t)options->media_timeout_s};
}

struct device_name options_device(const struct options *options, uint32_t worker)
{
    return options->devices[worker % options->device_count];
}

/* The worker decides by the same rules, and by the model. */
static enum result kv_quantization_check(const struct options *options, struct error_text *error)
{
    struct kv_quantization_wish wish = {.group_size = (uint32_t)options->kv_group_size,
                                        .start_tokens = (uint32_t)options->quantized_kv_start};
    const struct {
        const char *name;
        const char *text;
        uint32_t *half_bits;
    } bits[] = {{"bits", options->kv_bits, &wish.half_bits},
                {"key-bits", options->kv_key_bits, &wish.key_half_bits},
                {"value-bits", options->kv_value_bits, &wish.value_half_bits}};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        if (bits[i].text && kv_half_bits_parse(bits[i].text, bits[i].half_bits) != 0)
            return error_set(error, RESULT_INVALID,
                             "--kv-%s: '%.40s' is not a multiple of 0.5 up to 8", bits[i].name,
                             bits[i].text);
    }
    if (options->kv_quant_scheme &&
        kv_quant_scheme_parse(options->kv_quant_scheme, &wish.scheme) != 0)
        return error_set(error, RESULT_INVALID,
                         "--kv-quant-scheme: '%.40s' is neither uniform nor turboquant",
                         options->kv_quant_scheme);
    struct kv_quantization quantization;
    return kv_quantization_resolve(&wish, &quantization, error);
}

/* Facts about several options, or about texts. */
static enum result options_check(enum options_command command, struct options *options,
                                 struct error_text *error)
{
    if (log_level_parse(options->log_level_name, &options->log_level) != 0)
        return error_set(error, RESULT_INVALID, "--log-level: '%.40s' is none of its levels",
                         options->log_level_name);
    if (log_format_parse(options->log_format_name, &options->log_format) != 0)
        return error_set(error, RESULT_INVALID, "--log-format: '%.40s' is neither text nor json",
                         options->log_format_name);
    if (command == OPTIONS_DEVICES)
        return RESULT_OK;
    if (!options->tls_cert != !options->tls_key)
        return error_set(error, RESULT_INVALID, "--tls-cert and --tls-key go together");
    enum result result = devices_check(options, error);
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
    if (!options->model || !options->model[0])
        return error_set(error, RESULT_INVALID, "--model is required");
    if (command == OPTIONS_GENERATE && !options->prompt)
        return error_set(error, RESULT_INVALID, "--prompt is required");
    if (options->raw && options->images.count > 0)
        return error_set(error, RESULT_INVALID, "--raw takes no --image: its place is unknown");
    const struct media_policy media = options_media(options);
    result = media_policy_check(&media, error);
    if (result != RESULT_OK)
        return result;
    if (options->workers * options->max_sequences + options->max_queue > LIMIT_LIVE_REQUESTS)
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

/* One option at argv[*at]; moves *at behind it. */
static enum result argument_take(enum options_command command, int argc, char *argv[], int *at,
                                 bool seen[ROW_COUNT], struct options *options,
                                 struct error_text *error)
{
    const char *argument = argv[(*at)++];
    if (strcmp(argument, "-h") == 0)
        argument = "--help";
    if (strncmp(argument, "--", 2) != 0)
        return error_set(error, RESULT_INVALID, "'%.80s' is not an option (see --help)", argument);
    const char *name = argument + 2;
    const char *equals = strchr(name, '=');
    size_t name_bytes = equals ? (size_t)(equals - name) : strlen(name);
    const struct option_row *row = row_find(command, name, name_bytes);
    if (!row)
        return error_set(error, RESULT_INVALID, "unknown option '%.80s' (see --help)", argument);
    if (seen[row - rows] && !is_list(row))
        return error_set(error, RESULT_INVALID, "--%s is given twice", row->name);
    seen[row - rows] = true;
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

enum result options_parse(enum options_command command, int argc, char *argv[],
                          struct options *options, struct error_text *error)
{
    bool seen[ROW_COUNT] = {false};
    *options = (struct options){0};
    for (size_t i = 0; i < ROW_COUNT; i++) {
        enum result result = rows[i].fallback && (rows[i].commands & command)
                                 ? row_set(&rows[i], rows[i].fallback, options, error)
                                 : RESULT_OK;
        if (result != RESULT_OK)
            return result;
    }
    for (int at = 0; at < argc;) {
        enum result result = argument_take(command, argc, argv, &at, seen, options, error);
        if (result != RESULT_OK)
            return result;
    }
    return options->help ? RESULT_OK : options_check(command, options, error);
}

void options_print_help(enum options_command command, FILE *out)
{
    static const char *const usages[] = {[OPTIONS_SERVE] = "serve --model PATH",
                                         [OPTIONS_GENERATE] = "generate --model PATH --prompt TEXT",
                                         [OPTIONS_DEVICES] = "devices"};
    fprintf(out, "usage: shoal %s [options]\n\n", usages[command]);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!(rows[i].commands & command))
            continue;
        static const char *const places[] = {
            [OPTION_TEXT] = " TEXT", [OPTION_TEXTS] = " TEXT",  [OPTION_SECRETS] = " TEXT",
            [OPTION_COUNT] = " N",   [OPTION_BYTES] = " BYTES", [OPTION_MEMORY] = " BYTES|N%",
            [OPTION_FLAG] = ""};
        char left[64];
        snprintf(left, sizeof left, "--%s%s", rows[i].name, places[rows[i].kind]);
        fprintf(out, "  %-28s %s", left, rows[i].help);
        if (rows[i].fallback)
            fprintf(out, " [%s]", rows[i].fallback);
        fputc('\n', out);
    }
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
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const char *member = (const char *)options + rows[i].offset;
        if (!(rows[i].commands & command) || rows[i].offset == AT(help))
            continue;
        if (is_list(&rows[i])) {
            texts_log(&rows[i], (const struct option_texts *)(const void *)member);
        } else if (rows[i].kind == OPTION_TEXT) {
            const char *text = *(const char *const *)(const void *)member;
            log_info("option --%s %.200s", rows[i].name, text ? text : "(not given)");
        } else if (rows[i].kind == OPTION_FLAG) {
            log_info("option --%s %s", rows[i].name,
                     *(const bool *)(const void *)member ? "yes" : "no");
        } else {
            number_print(&rows[i], *(const uint64_t *)(const void *)member);
        }
    }
}
