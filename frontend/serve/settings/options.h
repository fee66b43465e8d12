/*
 * All settings of a command, as one struct. There is no other place to set anything.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_OPTIONS_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/document/document_reader.h"
#include "frontend/image/media_policy.h"
#include "proto/device_name.h"
#include "proto/limits.h"
#include "proto/log.h"
#include "proto/pooling.h"
#include "proto/result.h"

enum options_command {
    OPTIONS_SERVE = 1,
    OPTIONS_GENERATE = 2,
    OPTIONS_DEVICES = 4,
    OPTIONS_CHAT = 8,
    OPTIONS_PER_MODEL = 16, /* no command: settings of one of several models */
    OPTIONS_PULL = 32,
    OPTIONS_LIST = 64,
    OPTIONS_REMOVE = 128,
    OPTIONS_SHOW = 256,
    OPTIONS_RUN_SERVER = 512, /* no command: of the server of `run` */
    OPTIONS_RUN =
        OPTIONS_CHAT | OPTIONS_PULL | OPTIONS_RUN_SERVER /* has the options of all three */
};

/* The values of an option that may be given several times. */
struct option_texts {
    const char *items[LIMIT_OPTION_REPEATS];
    size_t count;
};

/* In a number of bytes: the value is a percentage of the device's memory instead. */
#define OPTIONS_SHARE ((uint64_t)1 << 63)

/* Strings point into argv or are static. A number whose help says "0 = …" is 0 when not given. */
struct options {
    const char *model;            /* NULL: models_dir is given */
    const char *models_dir;       /* serve; NULL: one model */
    uint64_t models_memory_bytes; /* of models loaded at once; 0: no limit, like the next */
    uint64_t models_loaded;
    uint64_t models_idle_s; /* after which a model is unloaded; 0: never */
    uint64_t models_wait_s; /* of a request for a model that is not loaded */
    int argument_count;     /* the command line, which options_parse_model() reads again */
    char **arguments;
    const char *mmproj;                     /* projector file; NULL: none, after mmproj_find() */
    bool mmproj_found;                      /* beside the model, so it may belong to another one */
    const char *hf_cache;                   /* NULL: hub_cache_folder() */
    struct option_texts served_model_names; /* none: from the checkpoint's path */
    bool strict_fields;
    bool any_model_name;
    struct option_texts adapters;  /* NAME=PATH */
    const char *adapter_directory; /* NULL: none is loaded at run time */
    const char *warm_prompts;      /* a file (prompt_warming.h); NULL: none */
    bool reranking;
    const char *chat_template;    /* NULL: the checkpoint's own */
    const char *reasoning_format; /* serve; a name of reply_formats.h, like the next */
    const char *tool_call_parser; /* serve */
    struct option_texts device_texts;
    struct device_set devices[LIMIT_WORKERS]; /* worker i has devices[i % device_count] */
    uint32_t device_count;                    /* >= 1, <= workers */
    bool device_auto;        /* devices[0] is the CPU until device_choice_resolve() */
    const char *cpu_tier;    /* NULL: the best one */
    const char *vulkan_tier; /* NULL: no limit */
    bool vulkan_validation;
    const char *pipeline_cache; /* directory; NULL: in the user's home; "none" */
    bool profile;
    const char *speculation; /* proto/speculation.h */
    const char *draft_model; /* path, or NULL */
    const char *pooling_text;
    enum pooling pooling;     /* what pooling_text asks for and the model has (pooling_find.h) */
    bool batch_invariant;     /* answers do not depend on the batch; always so on a CPU */
    uint64_t context_tokens;  /* 0: the checkpoint's own */
    uint64_t max_tokens;      /* 0: what the context leaves */
    uint64_t max_sequences;   /* 0: chosen, at most options_sequences_limit() */
    uint64_t threads;         /* 0: the worker's choice */
    uint64_t activation_bits; /* 8 or 16; 16 only where all devices are CPUs */
    uint64_t step_tokens;
    uint64_t mixed_prefill_tokens; /* 0: the worker's choice */
    uint64_t itl_target_ms;
    uint64_t step_depth; /* 0: the worker's choice */
    const char *kv_cache_type;
    const char *kv_bits; /* NULL: not given, like the next three */
    const char *kv_key_bits;
    const char *kv_value_bits;
    const char *kv_quant_scheme;
    uint64_t kv_group_size;
    uint64_t quantized_kv_start;
    uint64_t prefix_cache;       /* 1: computed prefixes are kept and shared */
    uint64_t kv_survives;        /* 1: they outlive their worker */
    const char *standby;         /* auto, on or off (worker_standby.h) */
    uint64_t prefix_cache_bytes; /* serve: maximum size of a worker's file of them; 0: none */
    uint64_t max_kv_tokens;      /* maximum of prompt and answer; 0: the context */
    uint64_t kv_cache_bytes;     /* 0: the worker's choice; OPTIONS_SHARE: percent of the memory */
    uint64_t vision_cache_size;
    uint64_t vision_cache_bytes; /* likewise */
    uint64_t slab_bytes;
    uint64_t prepare_threads;
    uint64_t media_processes; /* 0: as many as prepare_threads */
    uint64_t prepare_deadline_s;
    uint64_t adapter_timeout_s;
    uint64_t image_memory_bytes;
    uint64_t worker_timeout_s;
    uint64_t workers;
    uint64_t poison_crashes;
    uint64_t poison_memory_s;
    const char *worker_fault;   /* NULL: none */
    const char *worker_sandbox; /* auto or off */
    bool allow_debug;
    const char *log_level_name;
    enum log_level log_level;
    const char *log_format_name;
    enum log_format log_format;

    const char *host; /* serve */
    uint64_t port;
    uint64_t max_queue;
    uint64_t max_body_bytes;
    uint64_t max_connections;
    uint64_t request_timeout_s;
    uint64_t idle_timeout_s;
    uint64_t drain_timeout_s;
    uint64_t keepalive_comment_s;
    uint64_t stream_buffer_bytes;
    uint64_t response_store_bytes;
    const char *state_dir;            /* NULL: none */
    uint64_t request_deadline_s;      /* 0: none */
    uint64_t max_requests_per_client; /* 0: no limit */
    struct option_texts api_keys;
    const char *api_key_file; /* NULL: none */
    bool readable_key_file;
    const char *key_limits; /* of keys that state none; NULL: no limits */
    bool ignore_weight_changes;
    bool no_reload;
    bool protect_metrics;
    bool health_needs_ready;
    struct option_texts media_domains;
    const char *media_path; /* NULL: none */
    bool media_private;
    uint64_t media_timeout_s;
    const char *documents_text; /* off, text or images */
    const char *poppler_path;
    struct document_settings documents; /* what it asks for and the system has (document_find.h) */
    uint64_t max_image_bytes;
    struct option_texts cors_origins;
    struct option_texts allowed_hosts;
    const char *tls_cert; /* NULL: plain HTTP */
    const char *tls_key;

    const char *prompt;         /* generate */
    struct option_texts images; /* generate */
    const char *temperature;    /* text of a number; NULL: not given; like the next */
    const char *top_p;
    const char *top_k;
    const char *seed;
    uint64_t request_seed; /* serve: of requests that have none; UINT64_MAX: a random one each */
    bool raw;
    bool stats;

    bool json; /* devices, list, show */

    const char *endpoint;   /* pull, run; NULL: HF_ENDPOINT or the public hub */
    const char *token_file; /* pull, run; NULL: HF_TOKEN */
    uint64_t stall_timeout_s;
    uint64_t retries;
    bool print_template; /* show */

    bool help;
};

/* Sources from which clients may name images. Its strings are the options'. */
struct media_policy options_media(const struct options *options);
/* The device of a worker, or those that its layers are split over. */
const struct device_set *options_device(const struct options *options, uint32_t worker);
/* Sequences of one worker, at most: --max-sequences, or the bound of its choice, with which the request table has room for
 * those of all workers and the queue. */
uint32_t options_sequences_limit(const struct options *options);

#endif
