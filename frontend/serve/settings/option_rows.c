/*
 * Every option, in the order of --help.
 */
#include "frontend/serve/settings/option_rows.h"

#include "proto/limits.h"

/* all that run a model */
#define BOTH       (OPTIONS_SERVE | OPTIONS_GENERATE | OPTIONS_CHAT | OPTIONS_PER_MODEL)
#define GUARDED    (OPTIONS_SERVE | OPTIONS_RUN_SERVER)
#define SERVED     (OPTIONS_SERVE | OPTIONS_PER_MODEL) /* of one model */
#define HUB        (OPTIONS_PULL | OPTIONS_LIST | OPTIONS_REMOVE | OPTIONS_SHOW)
#define ALL        (OPTIONS_SERVE | OPTIONS_GENERATE | OPTIONS_CHAT | OPTIONS_DEVICES | HUB)
#define AT(member) offsetof(struct options, member)
#define HEADING(text)                                                                              \
    {                                                                                              \
        NULL, OPTION_HEADING, ALL, 0, 0, 0, NULL, text                                             \
    }
#define TEXT_ROW(name, commands, member, fallback, help)                                           \
    {                                                                                              \
        name, OPTION_TEXT, commands, AT(member), 0, 0, fallback, help                              \
    }
#define FLAG_ROW(name, commands, member, help)                                                     \
    {                                                                                              \
        name, OPTION_FLAG, commands, AT(member), 0, 0, NULL, help                                  \
    }

const struct option_row option_rows[] = {
    HEADING("Common options"),
    TEXT_ROW(
        "model", OPTIONS_SERVE | OPTIONS_GENERATE | OPTIONS_CHAT, model, NULL,
        "model to serve: a GGUF file, a Hugging Face directory, or the name of a repository in "
        "Hugging Face's cache, as org/name, org/name:QUANT or org/name@REVISION (required, or "
        "--models-dir)"),
    {"device", OPTION_TEXTS, BOTH, AT(device_texts), 0, 0, NULL,
     "device of the workers: auto (the first GPU, otherwise the CPU), cpu, vulkan (the first "
     "Vulkan device) or vulkan:N (see `shoal devices`); several, separated by commas or given "
     "again, are assigned to the workers in turn; with + between, as in vulkan:0+vulkan:1, the "
     "layers of the model are split over them, for models larger than one device; default: auto"},
    {"workers", OPTION_COUNT, BOTH, AT(workers), 0, LIMIT_WORKERS, "0",
     "number of worker processes; --max-sequences, --kv-cache-bytes and --slab-bytes are per "
     "worker; 0 = one for each device"},
    TEXT_ROW("host", OPTIONS_SERVE, host, "127.0.0.1", "address to listen on"),
    {"port", OPTION_COUNT, OPTIONS_SERVE, AT(port), 0, 65535, "8080",
     "port to listen on; 0 = any free port, printed at start"},
    {"api-key", OPTION_SECRETS, GUARDED, AT(api_keys), 0, 0, NULL,
     "key that requests must have, or sha256: and the 64 hexadecimal digits of its SHA-256 digest; "
     "may be "
     "given several times; default: no key is needed"},
    {"served-model-name", OPTION_TEXTS, SERVED, AT(served_model_names), 0, 0, NULL,
     "name of the model in the API; may be given several times: replies have the first, requests "
     "any of them; default: the name of the repository, the directory, or the file without its "
     "extension"},
    {"context", OPTION_COUNT, BOTH, AT(context_tokens), 0, LIMIT_CONTEXT_TOKENS, "0",
     "maximum context length in tokens (prompt and answer); 0 = the model's own"},
    {"max-sequences", OPTION_COUNT, BOTH, AT(max_sequences), 0, LIMIT_SEQUENCES, "0",
     "maximum number of requests that a worker computes at once; 0 = 64 on a CPU, and on a GPU as "
     "many as its KV cache holds with 2,048 tokens each, 64 to 512"},
    TEXT_ROW("kv-bits", BOTH, kv_bits, NULL,
             "quantize the KV cache to this many bits: 2 to 8 for uniform, 1 to 4 in steps of 0.5 "
             "for turboquant (3.5: 3 for keys, 4 for values); default: not quantized"),
    HEADING("Model, templates and answers"),
    TEXT_ROW("models-dir", OPTIONS_SERVE, models_dir, NULL,
             "serve every model of this directory, each loaded when a request names it; shoal.ini "
             "in it has options of single models (frontend/serve/models/README.md)"),
    TEXT_ROW(
        "mmproj", BOTH, mmproj, NULL,
        "projector file of a GGUF model, its vision tower, or none; default: a GGUF file beside "
        "the model with mmproj in its name"),
    TEXT_ROW("hf-cache", BOTH | HUB, hf_cache, NULL,
             "Hugging Face's cache directory; default: HF_HUB_CACHE, or hub in HF_HOME, or "
             "huggingface/hub in XDG_CACHE_HOME, or .cache/huggingface/hub in the user's home"),
    TEXT_ROW("chat-template", BOTH, chat_template, NULL,
             "Jinja file to render chats with; default: the checkpoint's own template"),
    TEXT_ROW("reasoning-format", SERVED, reasoning_format, "auto",
             "how the model marks its reasoning: auto (from the chat template), none (reasoning "
             "stays in the answer), or the name of a format"),
    TEXT_ROW("tool-call-parser", SERVED, tool_call_parser, "auto",
             "how the model writes tool calls: auto (from the chat template), none (calls stay "
             "text), or the name of a format"),
    TEXT_ROW("seed", OPTIONS_SERVE, seed, NULL,
             "seed of requests that have none, 0 to 2^53; default: a random seed for each"),
    {"max-tokens", OPTION_COUNT, BOTH, AT(max_tokens), 0, LIMIT_CONTEXT_TOKENS, "0",
     "maximum number of answer tokens of a request that sets none; 0 = what the context leaves"},
    {"lora", OPTION_TEXTS, SERVED, AT(adapters), 0, 0, NULL,
     "NAME=PATH of a LoRA adapter: a PEFT directory, or a GGUF file for a GGUF model; requests use "
     "it by naming NAME as their model; may be given several times; one device each"},
    TEXT_ROW("lora-dir", OPTIONS_SERVE, adapter_directory, NULL,
             "directory whose LoRA adapters may be loaded at run time, by POST "
             "/v1/load_lora_adapter; not with --models-dir; default: none"),
    TEXT_ROW(
        "warm-prompts", SERVED, warm_prompts, NULL,
        "file with a chat completion's body a line, whose prompts are computed at the start, for "
        "each API key, so that requests which begin like them find them cached; default: none"),
    {"lora-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(adapter_timeout_s), 1, 3600, "60",
     "seconds in which every worker must have read a loaded adapter; a longer load gets 504"},
    HEADING("Speed and precision"),
    {"threads", OPTION_COUNT, BOTH, AT(threads), 0, LIMIT_THREADS, "0",
     "compute threads of a worker; 0 = one per processor core, divided among the workers"},
    {"step-tokens", OPTION_COUNT, BOTH, AT(step_tokens), 0, LIMIT_STEP_ROWS, "0",
     "maximum number of tokens that a worker computes in one step; 0 = the worker decides"},
    {"mixed-prefill-tokens", OPTION_COUNT, BOTH, AT(mixed_prefill_tokens), 0, LIMIT_STEP_ROWS, "0",
     "maximum number of prompt tokens in a step that also decodes, within --itl-target-ms; 0 = the "
     "worker decides by the measured cost of prompt tokens"},
    {"itl-target-ms", OPTION_COUNT, BOTH, AT(itl_target_ms), 1, LIMIT_ITL_TARGET_MS, "100",
     "milliseconds that a step with running streams should take at most; prompts are computed in "
     "chunks of the size that this allows, or that takes half as long"},
    {"step-depth", OPTION_COUNT, BOTH, AT(step_depth), 0, 2, "0",
     "steps launched on the device before the tokens of the first are read; 0 = the worker "
     "decides"},
    TEXT_ROW(
        "pooling", SERVED, pooling_text, "auto",
        "serve embeddings in place of text: last, mean, cls or max = how the vectors of a text's "
        "tokens become one, none = all of them; off = serve text; auto = as the checkpoint's "
        "modules.json or pooling_type says, otherwise mean for an encoder and off for others"),
    TEXT_ROW(
        "speculation", BOTH, speculation, "auto",
        "text = draft tokens that the prompt or the answer had before, or that a grammar "
        "forces, and verify several in one step, which changes no answer (CPU, and Vulkan with "
        "--batch-invariant and --step-depth 1); auto = also those that the checkpoint's own layer "
        "for it (MTP) predicts; mtp = the same, and a model without such a layer is refused; off = "
        "one token a step"),
    TEXT_ROW(
        "draft-model", BOTH, draft_model, NULL,
        "a smaller model with the same vocabulary, or an EAGLE-3 head or DFlash drafter that was "
        "trained for the model, named as --model is, whose tokens are drafted too, on the same "
        "device (its weights "
        "are extra memory, its KV cache is part of "
        "--kv-cache-bytes); default: none"),
    {"activation-bits", OPTION_COUNT, BOTH, AT(activation_bits), 8, 16, "8",
     "bits of activations multiplied with quantized weights, CPU only: 8, or 16 for slower "
     "arithmetic without rounding of activations"},
    FLAG_ROW("batch-invariant", BOTH, batch_invariant,
             "compute a request's tokens bit for bit the same in any batch, chunking, and after a "
             "preemption or a worker's death, on a GPU too (slower); a CPU always does"),
    {"prepare-threads", OPTION_COUNT, BOTH, AT(prepare_threads), 1, 64, "2",
     "threads that parse, render and tokenize requests; as many again prepare images"},
    {"prepare-deadline", OPTION_COUNT, BOTH, AT(prepare_deadline_s), 1, 3600, "30",
     "seconds in which a request must be parsed, rendered and tokenized, and again in which its "
     "images must be read; a longer one gets 503"},
    TEXT_ROW("pipeline-cache", BOTH, pipeline_cache, NULL,
             "directory where Vulkan workers keep compiled kernels, or none; default: .cache/shoal "
             "in the user's home"),
    HEADING("KV cache and other memory"),
    {"kv-cache-bytes", OPTION_MEMORY, BOTH, AT(kv_cache_bytes), 0, 1ull << 46, "0",
     "size of the KV cache in bytes, or as N% of the device's memory divided among its workers; 0 "
     "= the worker decides from what is free"},
    TEXT_ROW("kv-cache-type", BOTH, kv_cache_type, "f16",
             "type of KV cache elements that are not quantized: f16, or f32 for twice the memory "
             "and no rounding"),
    TEXT_ROW("kv-quant-scheme", BOTH, kv_quant_scheme, NULL,
             "quantization scheme of --kv-bits: uniform or turboquant; default: uniform"),
    TEXT_ROW("kv-key-bits", BOTH, kv_key_bits, NULL, "bits of keys; default: --kv-bits"),
    TEXT_ROW("kv-value-bits", BOTH, kv_value_bits, NULL, "bits of values; default: --kv-bits"),
    {"kv-group-size", OPTION_COUNT, BOTH, AT(kv_group_size), 0, LIMIT_HEAD_DIM, "0",
     "elements that share a scale in uniform: 32, 64 or 128; 0 = 64, or what fits the head size"},
    {"quantized-kv-start", OPTION_COUNT, BOTH, AT(quantized_kv_start), 0, LIMIT_CONTEXT_TOKENS, "0",
     "number of tokens up to which a sequence is kept in full precision; once it is longer, all of "
     "it is read quantized"},
    {"max-kv-size", OPTION_COUNT, BOTH, AT(max_kv_tokens), 0, LIMIT_CONTEXT_TOKENS, "0",
     "maximum number of tokens of a request (prompt and max_tokens); a request that asks for more "
     "gets 400; 0 = the context length"},
    {"prefix-cache", OPTION_COUNT, BOTH, AT(prefix_cache), 0, 1, "1",
     "1 = keep computed prompts and answers and share them between requests; 0 = do not"},
    {"kv-survives", OPTION_COUNT, BOTH, AT(kv_survives), 0, 1, "1",
     "1 = the KV cache outlives a worker that dies, so that no prompt is computed again; 0 = it "
     "ends "
     "with the worker; needs --prefix-cache 1"},
    {"prefix-cache-bytes", OPTION_BYTES, OPTIONS_SERVE, AT(prefix_cache_bytes), 0, 1ull << 40,
     "256M",
     "with --state-dir: maximum size of the file in which a worker saves its prefix cache "
     "when the server stops, for the next start; 0 = none is saved; needs --kv-survives 1"},
    {"vision-cache-size", OPTION_COUNT, BOTH, AT(vision_cache_size), 0, LIMIT_KEPT_IMAGES, "20",
     "number of images whose features a worker keeps for later requests"},
    {"vision-cache-bytes", OPTION_BYTES, BOTH, AT(vision_cache_bytes), 0, 1ull << 46, "0",
     "memory for image features; 0 = the worker decides from --vision-cache-size"},
    {"slab-bytes", OPTION_BYTES, BOTH, AT(slab_bytes), 16u << 20, LIMIT_SLAB_BYTES, "256M",
     "shared memory that carries prompts and images to a worker"},
    {"image-memory-bytes", OPTION_BYTES, BOTH, AT(image_memory_bytes), 16u << 20, 1ull << 40, "1G",
     "memory for decoded images of all live requests; beyond it requests with images get 429"},
    {"response-store-bytes", OPTION_BYTES, OPTIONS_SERVE, AT(response_store_bytes), 1u << 20,
     1ull << 40, "64M", "memory for stored responses of the Responses API, and their files"},
    TEXT_ROW("state-dir", OPTIONS_SERVE, state_dir, NULL,
             "directory for files of stored responses, so that they survive this process; answers "
             "in progress are made again at the next start; default: none"),
    HEADING("Images and documents"),
    {"max-image-bytes", OPTION_BYTES, BOTH, AT(max_image_bytes), 1024, LIMIT_SOURCE_IMAGE_BYTES,
     "20M", "maximum size of an image file; --max-body-bytes also limits images inside requests"},
    {"media-processes", OPTION_COUNT, BOTH, AT(media_processes), 0, LIMIT_MEDIA_PROCESSES, "0",
     "maximum number of sandboxed processes that decode images; 0 = --prepare-threads"},
    {"allow-media-domain", OPTION_TEXTS, OPTIONS_SERVE, AT(media_domains), 0, 0, NULL,
     "HOST or HOST:PORT from which image URLs (http, https) are fetched; may be given several "
     "times; default: none"},
    FLAG_ROW("allow-media-private", OPTIONS_SERVE, media_private,
             "dangerous: fetch also from private, loopback and other non-public addresses; clients "
             "reach this server's own network through it"),
    TEXT_ROW("allow-media-path", OPTIONS_SERVE, media_path, NULL,
             "directory of images that requests may name as file:///PATH; default: none"),
    {"media-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(media_timeout_s), 1, 600, "10",
     "maximum time in seconds to fetch an image, with redirects"},
    TEXT_ROW("documents", OPTIONS_SERVE, documents_text, "off",
             "PDF files in requests: off (refused), text (their text is read), or images (text and "
             "an image of each page, for models that take images); needs poppler's programs"),
    TEXT_ROW("poppler-path", OPTIONS_SERVE, poppler_path, "/usr/bin",
             "directory of poppler's programs pdftotext and pdftoppm"),
    HEADING("HTTP server"),
    {"models-memory", OPTION_BYTES, OPTIONS_SERVE, AT(models_memory_bytes), 0, 1ull << 46, "0",
     "with --models-dir: most bytes of weight files of all loaded models; another one is unloaded "
     "first, never one with requests; 0 = no limit"},
    {"models-loaded", OPTION_COUNT, OPTIONS_SERVE, AT(models_loaded), 0, LIMIT_MODELS, "0",
     "with --models-dir: most models loaded at once; 0 = no limit"},
    {"models-idle", OPTION_COUNT, SERVED, AT(models_idle_s), 0, 1u << 30, "0",
     "with --models-dir: seconds without a request after which a model is unloaded; 0 = never"},
    {"models-wait", OPTION_COUNT, OPTIONS_SERVE, AT(models_wait_s), 1, 86400, "120",
     "with --models-dir: most seconds that a request waits until its model is loaded"},
    {"max-queue", OPTION_COUNT, SERVED, AT(max_queue), 0, LIMIT_LIVE_REQUESTS, "256",
     "maximum number of waiting requests; further requests get 429"},
    {"max-requests-per-client", OPTION_COUNT, OPTIONS_SERVE, AT(max_requests_per_client), 0,
     1u << 20, "0",
     "maximum number of POST requests in progress per client address; further requests get 429; 0 "
     "= no limit"},
    {"max-body-bytes", OPTION_BYTES, OPTIONS_SERVE, AT(max_body_bytes), 1024, 1u << 30, "8M",
     "maximum size of a request body; a larger one gets 413"},
    {"max-connections", OPTION_COUNT, OPTIONS_SERVE, AT(max_connections), 1, 1u << 20, "8192",
     "maximum number of open connections; further connections get 503"},
    {"request-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(request_timeout_s), 1, 3600, "60",
     "maximum time in seconds for a request to arrive; answering has no limit"},
    {"request-deadline", OPTION_COUNT, OPTIONS_SERVE, AT(request_deadline_s), 0, 86400, "0",
     "maximum time in seconds of a request; then it ends with an error; 0 = no limit"},
    {"idle-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(idle_timeout_s), 1, 86400, "120",
     "seconds after which a connection without a request, or whose reply is not read, is closed"},
    {"stream-buffer-bytes", OPTION_BYTES, OPTIONS_SERVE, AT(stream_buffer_bytes), 16u << 10,
     1u << 30, "4M",
     "maximum number of bytes that a slow reader may leave unread; then its stream is closed"},
    {"keepalive-comment", OPTION_COUNT, OPTIONS_SERVE, AT(keepalive_comment_s), 1, 3600, "10",
     "seconds of silence after which a stream gets a comment or a ping"},
    {"drain-timeout", OPTION_COUNT, OPTIONS_SERVE, AT(drain_timeout_s), 0, 86400, "30",
     "seconds that running requests get to finish after SIGTERM"},
    HEADING("Access"),
    TEXT_ROW("api-key-file", GUARDED, api_key_file, NULL,
             "file with API keys, one per line, each with attributes: admin, requests=N, tokens=N, "
             "images=N (a minute), "
             "concurrent=N; read again on SIGHUP"),
    FLAG_ROW("allow-readable-key-file", GUARDED, readable_key_file,
             "accept key files that other users of this machine can read"),
    TEXT_ROW("key-limits", GUARDED, key_limits, NULL,
             "limits of keys that state none, as 'requests=60 tokens=100000'; beyond them a "
             "request gets 429"),
    FLAG_ROW(
        "ignore-weight-changes", OPTIONS_SERVE, ignore_weight_changes,
        "serve on, also with restarted workers, if files of the checkpoint are changed; implies "
        "--no-reload"),
    FLAG_ROW("no-reload", OPTIONS_SERVE, no_reload,
             "do not load changed files of a checkpoint before SIGHUP; until then /ready gives 503 "
             "and restarted workers read the old ones"),
    FLAG_ROW("protect-metrics", OPTIONS_SERVE, protect_metrics,
             "/metrics needs an API key too; /health and /ready never do"),
    FLAG_ROW("any-model-name", SERVED, any_model_name, "answer requests for a model of any name"),
    FLAG_ROW(
        "reranking", OPTIONS_SERVE, reranking,
        "the model is a reranker that answers yes or no (Qwen3-Reranker), as one whose name has "
        "'rerank' is anyway: serve /rerank and /score"),
    FLAG_ROW("strict-fields", SERVED, strict_fields,
             "refuse unknown fields of request bodies, which are otherwise logged"),
    FLAG_ROW("health-needs-ready", OPTIONS_SERVE, health_needs_ready,
             "/health gives 503 while no worker is ready, as /ready does"),
    {"cors-origin", OPTION_TEXTS, OPTIONS_SERVE, AT(cors_origins), 0, 0, NULL,
     "web origin whose pages may use this server, or '*'; may be given several times"},
    {"allowed-host", OPTION_TEXTS, OPTIONS_SERVE, AT(allowed_hosts), 0, 0, NULL,
     "name besides localhost under which clients reach a server that has no API key and listens on "
     "a "
     "loopback address (behind a proxy), or '*'; may be given several times"},
    TEXT_ROW("tls-cert", OPTIONS_SERVE, tls_cert, NULL,
             "PEM file with a certificate and its chain: serves HTTPS; read again on SIGHUP"),
    TEXT_ROW("tls-key", OPTIONS_SERVE, tls_key, NULL, "PEM file with the key of the certificate"),
    HEADING("Worker failures"),
    {"worker-timeout", OPTION_COUNT, BOTH, AT(worker_timeout_s), 1, 86400, "30",
     "seconds without progress after which a worker with work to do is killed as hung"},
    TEXT_ROW(
        "standby", BOTH, standby, "auto",
        "on = beside each worker a second process, with everything loaded, waits and takes over "
        "if the worker dies; auto = on a GPU, for a server of one model; off; needs "
        "--kv-survives 1"),
    {"poison-crashes", OPTION_COUNT, BOTH, AT(poison_crashes), 1, 1000, "3",
     "number of worker deaths in a row during a request, after which the request is retried "
     "alone"},
    {"poison-memory-s", OPTION_COUNT, BOTH, AT(poison_memory_s), 0, 86400, "600",
     "seconds for which a request that crashed a worker alone is refused when it is sent again"},
    HEADING("Isolation"),
    TEXT_ROW("worker-sandbox", BOTH, worker_sandbox, "auto",
             "auto: a worker that has loaded its model may make only the system calls of its work "
             "(seccomp); off: any"),
    FLAG_ROW("allow-debug", BOTH, allow_debug,
             "allow debuggers and core dumps, which show prompts and keys"),
    HEADING("Download"),
    TEXT_ROW("endpoint", OPTIONS_SERVE, endpoint, NULL,
             "with --models-dir: URL of a hub or mirror from which POST /api/pull downloads models "
             "into that directory; default: "
             "none, and such requests are refused"),
    TEXT_ROW("endpoint", OPTIONS_PULL, endpoint, NULL,
             "URL of the hub or of a mirror; default: HF_ENDPOINT, or https://huggingface.co"),
    TEXT_ROW(
        "token-file", OPTIONS_PULL | OPTIONS_SERVE, token_file, NULL,
        "file with the access token, which only the endpoint itself gets; default: HF_TOKEN, or "
        "no token"),
    {"stall-timeout", OPTION_COUNT, OPTIONS_PULL | OPTIONS_SERVE, AT(stall_timeout_s), 1, 3600,
     "30", "seconds without a byte after which a download is tried again"},
    {"retries", OPTION_COUNT, OPTIONS_PULL | OPTIONS_SERVE, AT(retries), 0, 1000, "5",
     "number of further tries that may bring no byte; each continues where the last one ended"},
    HEADING("Request"),
    TEXT_ROW("prompt", OPTIONS_GENERATE, prompt, NULL, "prompt to answer (required)"),
    {"image", OPTION_TEXTS, OPTIONS_GENERATE, AT(images), 0, 0, NULL,
     "image file to put before the prompt; may be given several times"},
    FLAG_ROW("raw", OPTIONS_GENERATE, raw, "continue the prompt as it is, without a chat template"),
    TEXT_ROW("temperature", OPTIONS_GENERATE | OPTIONS_CHAT, temperature, NULL,
             "0 to 2; default: the checkpoint's, otherwise 1"),
    TEXT_ROW("top-p", OPTIONS_GENERATE | OPTIONS_CHAT, top_p, NULL,
             "0 to 1; default: the checkpoint's, otherwise 1"),
    TEXT_ROW("top-k", OPTIONS_GENERATE | OPTIONS_CHAT, top_k, NULL,
             "default: the checkpoint's, otherwise off"),
    TEXT_ROW("seed", OPTIONS_GENERATE | OPTIONS_CHAT, seed, NULL, "default: a random seed"),
    FLAG_ROW("stats", OPTIONS_GENERATE | OPTIONS_CHAT, stats,
             "print tokens per second to standard error"),
    HEADING("Output and log"),
    FLAG_ROW("json", OPTIONS_DEVICES | OPTIONS_LIST | OPTIONS_SHOW, json, "print JSON"),
    FLAG_ROW("json", OPTIONS_PULL, json,
             "print progress and result as lines of JSON, as Ollama's /api/pull does"),
    FLAG_ROW("template", OPTIONS_SHOW, print_template, "print only the chat template"),
    TEXT_ROW("log-format", ALL, log_format_name, "text", "text or json"),
    TEXT_ROW("log-level", OPTIONS_SERVE, log_level_name, "info", "error, warn, info or debug"),
    TEXT_ROW("log-level", ALL & ~(unsigned)OPTIONS_SERVE, log_level_name, "warn",
             "error, warn, info or debug"),
    FLAG_ROW("profile", BOTH, profile, "workers log the time of each kind of op"),
    FLAG_ROW("help", ALL, help, "print this help"),
    HEADING("For tests"),
    TEXT_ROW(
        "cpu-tier", BOTH, cpu_tier, NULL,
        "instructions that CPU workers use: best (default), portable, avx2, avx512, amx, neon, "
        "dotprod or i8mm"),
    TEXT_ROW("vulkan-tier", BOTH, vulkan_tier, NULL,
             "highest tier that Vulkan workers use: scalar, dot, khr-matrix, nv-matrix2 or ptx"),
    FLAG_ROW("vulkan-validation", BOTH, vulkan_validation,
             "run Vulkan workers under the validation layer"),
    TEXT_ROW("worker-fault", BOTH, worker_fault, NULL,
             "inject a fault into the workers (worker/README.md)"),
};

const size_t option_row_count = sizeof option_rows / sizeof option_rows[0];

_Static_assert(sizeof option_rows / sizeof option_rows[0] <= OPTION_ROWS_MAX, "OPTION_ROWS_MAX");
