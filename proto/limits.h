/*
 * Every bound of the system with its reason. A number that input could otherwise grow without end
 * stands here or is an option whose maximum stands here.
 */
#ifndef SHOAL_PROTO_LIMITS_H
#define SHOAL_PROTO_LIMITS_H

/* Checkpoints */
#define LIMIT_VOCAB_TOKENS                                                                         \
    (1u << 20)                       /* largest published vocabulary is 262,208; four times that   \
                                      */
#define LIMIT_TOKEN_BYTES 1024u      /* one vocabulary entry; longest seen is 256 spaces */
#define LIMIT_MERGES      (1u << 23) /* merges of one vocabulary; 580,604 is the most seen (Gemma) */
#define LIMIT_PATTERN_BYTES                                                                        \
    8192u /* one regex of a pre-tokenizer; the longest published has about 600 */
#define LIMIT_PRETOKENIZER_STEPS 16u /* splits in sequence; published ones have up to 5 */
#define LIMIT_NORMALIZER_STEPS   8u  /* rewritings in sequence; published ones have up to 2 */
#define LIMIT_LITERAL_BYTES                                                                        \
    64u /* a string that a step splits at or replaces; usually one character */
#define LIMIT_NORMALIZED_BYTES                                                                     \
    (128u << 20) /* a prompt after its tokenizer rewrote it; a space may become 3 bytes */
#define LIMIT_CONTEXT_TOKENS                                                                       \
    (1u << 20)                       /* one million: positions fit 20 bits and an f32 exactly      \
                                      */
#define LIMIT_GGUF_TENSORS    65536u /* 61-layer MoE models have about 1,800 */
#define LIMIT_GGUF_METADATA   4096u  /* real files have 20-60 keys */
#define LIMIT_GGUF_PARTS      1024u  /* of a split file; a terabyte model in 10 GB parts has 100 */
#define LIMIT_GGUF_DIMENSIONS 4u     /* the format's own bound */
#define LIMIT_GGUF_NAME_BYTES 256u   /* format says 64; some tools write more */
#define LIMIT_GGUF_ALIGNMENT  65536u /* real files say 32; the largest page size in use */
#define LIMIT_LAYERS          512u
#define LIMIT_HIDDEN          65536u /* columns of the residual; the largest published is 18,432 */
#define LIMIT_FEED_FORWARD    (1u << 18) /* largest published is 53,248 */
#define LIMIT_HEADS           1024u      /* query heads of a layer; largest seen is 128 */
#define LIMIT_HEAD_DIM        512u       /* largest published is 512 */
#define LIMIT_PLE_COLUMNS     4096u      /* of per-layer embeddings, a layer; published: 256 */
#define LIMIT_CONV_TAPS       8u         /* of a short convolution; published ones have 3 and 4 */
#define LIMIT_CONV_CHANNELS                                                                        \
    (1u << 18)                        /* of a short convolution; the largest published has 12,288 */
#define LIMIT_STATE_FLOATS (1u << 26) /* of a layer and sequence; published ones stay below 1 M */
#define LIMIT_PATCH_SIDE   64u /* pixels of a vision tower's patch; published ones have up to 32 */
#define LIMIT_MERGE_SIDE                                                                           \
    8u /* patches that become one feature, along a side; published: up to 4                        \
        */
#define LIMIT_PATCH_POSITIONS                                                                      \
    (1u << 20) /* of a tower's table of positions; published ones have up to 5,000 */
#define LIMIT_PATCH_FRAMES             4u          /* of a patch; published ones have 2 */
#define LIMIT_EXPERTS                  1024u       /* of a layer; the most published is 512 */
#define LIMIT_EXPERTS_CHOSEN           32u         /* for a row; the most published is 22 */
#define LIMIT_JSON_FILE_BYTES          (64u << 20) /* tokenizer.json of a 262k vocabulary is 33 MB */
#define LIMIT_JSON_DEPTH               64u         /* recursion of readers; requests nest 5 deep */
#define LIMIT_JSON_NAME_BYTES          256 /* a member of a config; published ones stay below 60 */
#define LIMIT_CONFIG_BYTES             (1u << 20) /* config.json; published ones stay below 50 kB */
#define LIMIT_SAFETENSORS_HEADER_BYTES 100000000u /* the format's own bound */
#define LIMIT_SAFETENSORS_TENSORS      (1u << 18) /* of a checkpoint; the most published is 92,000 */
#define LIMIT_SAFETENSORS_DIMENSIONS   8u
#define LIMIT_SAFETENSORS_SHARDS       1024u /* files of a checkpoint; large models have 200 */

/* Requests */
#define LIMIT_BODY_BYTES                                                                           \
    (8u << 20) /* default of --max-body-bytes: 1 M tokens of text are about 4 MB */
#define LIMIT_MESSAGES     4096u
#define LIMIT_STOP_STRINGS 16u  /* the API promises four; sixteen is what servers allow */
#define LIMIT_STOP_BYTES   256u /* one stop string; held-back text is bounded by it */
#define LIMIT_REASONING_TAG_BYTES                                                                  \
    64u /* around reasoning; the longest published has 27. Held-back text is bounded by it */
#define LIMIT_LOGIT_BIAS  1024u /* entries per request; the official API allows 300 */
#define LIMIT_STOP_TOKENS 16u   /* end-of-turn ids of one checkpoint */
#define LIMIT_CHOICES     128u  /* answers to one prompt (n); the official API's bound */
#define LIMIT_PROMPTS                                                                              \
    128u /* of one completions body; each is a live request, of which a server has hundreds */
#define LIMIT_BODY_DEPTH                                                                           \
    100u /* nesting of a body: LIMIT_TOOL_DEPTH and what stands around a schema, with some more */
#define LIMIT_TEMPLATE_VARIABLES 128u /* that a request sets itself; templates know a handful */
#define LIMIT_TOOLS              1024u /* of a request; the official API takes 128, agents pass hundreds */
#define LIMIT_TOOL_OFFERED_NAME_BYTES                                                              \
    128u /* of a tool; OpenAI's names have up to 64, Anthropic's up to 128 */
#define LIMIT_TOOL_SCHEMA_BYTES                                                                    \
    (256u << 10) /* of one tool's parameters; generated ones of large APIs have some 30 kB */
#define LIMIT_INSPECTIONS                                                                          \
    256u /* questions in hand that preparation threads answer; each holds a body */
#define LIMIT_LIVE_REQUESTS                                                                        \
    4096u /* slots in the frontend's table: running + waiting + preparing                          \
           */

/* Pictures as clients send them */
#define LIMIT_PICTURE_BYTES                                                                        \
    (32u << 20) /* of one file; a 50-megapixel photograph has some 20 MB, Anthropic takes 5 */
#define LIMIT_PICTURE_SIDE 32768u /* pixels; posters and panoramas stay below 20,000 */
#define LIMIT_PICTURE_PIXELS                                                                       \
    (1u << 26) /* 67 million, 201 MB as RGB; larger sensors' pictures are 100 to 200 million */
#define LIMIT_PICTURE_EXACT_PIXELS                                                                 \
    (1u << 24) /* a JPEG up to this is decoded whole, however small it becomes: Qwen3-VL's bound   \
                  of a resized picture, so that up to there nothing differs from a reference */
#define LIMIT_PICTURE_WORK_BYTES                                                                   \
    (256u << 20) /* of a JPEG decoder beside its result; a progressive one keeps all coefficients, \
                    3 bytes a pixel for usual ones: 89 million */
#define LIMIT_PICTURE_SCANS                                                                        \
    100u /* of a progressive JPEG, each a walk over all of it; programs write some 10 */
#define LIMIT_JPEG_SEGMENTS                                                                        \
    4096u /* of one file, between its scans too; LIMIT_PICTURE_BYTES is 512 full ones, an ICC      \
             profile has 255 at most, and LIMIT_PICTURE_SCANS scans with their tables some 500 */
#define LIMIT_REQUEST_PICTURE_BYTES                                                                \
    (128u << 20) /* of all files of one request, which are held until they are decoded */
#define LIMIT_REQUEST_PICTURE_PIXELS                                                               \
    (1u << 29) /* of all images of one request before they are resized;                            \
                  LIMIT_REQUEST_PICTURE_BYTES of photographs at 2 bits a pixel, 256 pages of 2     \
                  million; 6 to 15 s of one core as WebP or PNG */
#define LIMIT_REQUEST_PICTURE_PASSES                                                               \
    (1ull << 32) /* of their pixels, each counted once for each scan of its JPEG: those above in 8 \
                    scans; a scan without data takes 1 ns a pixel */
#define LIMIT_EXIF_ENTRIES 1024u /* of one directory; cameras write some 50 */
#define LIMIT_IMAGE_MARKER_BYTES                                                                   \
    64u /* text of a placeholder or of what stands around it; the longest published has 25 */
#define LIMIT_IMAGE_PATCH 64u /* side of a patch in pixels; published: 14, 16, 48 */
#define LIMIT_IMAGE_MERGE 8u  /* patches of a placeholder each way; published: 2, 3, 4 */

/* Sampling */
#define LIMIT_TOP_LOGPROBS 20u /* alternatives of a token; the official API's bound */
#define LIMIT_PREFIX_TOKENS                                                                        \
    256u /* that an answer must begin with: a tool call's opening and a function name of 64 bytes  \
          */
#define LIMIT_THINK_TOKENS                                                                         \
    64u /* of the mark that begins or ends thinking; published ones have up to 8, with a sentence  \
         * about the end of thinking before it some 30 */

/* OpenAI's Responses API */
#define LIMIT_STORED_RESPONSES                                                                     \
    16384u /* records that can be found; --response-store-bytes binds earlier for usual ones */
#define LIMIT_CHAIN_BYTES                                                                          \
    (16u << 20) /* items of a continued conversation; LIMIT_TEMPLATE_OUTPUT's reason: a prompt of  \
                   more would be refused anyway */
#define LIMIT_RESPONSE_METADATA             16u   /* pairs; the official API's bounds, all three */
#define LIMIT_RESPONSE_METADATA_KEY_BYTES   256u  /* 64 characters */
#define LIMIT_RESPONSE_METADATA_VALUE_BYTES 2048u /* 512 characters */
#define LIMIT_LISTED_ITEMS                  100u  /* of one page of input items; likewise */

/* Images */
#define LIMIT_REQUEST_IMAGES                                                                       \
    256u /* of one request; Anthropic's API takes 100, a hundred pages and their crops fit */
#define LIMIT_IMAGE_SIDE                                                                           \
    16384u /* pixels of a resized picture's side; preprocessors keep sides in the same ratio as    \
              the picture's, so thin ones are long */
#define LIMIT_IMAGE_PIXELS                                                                         \
    (1u << 24) /* of a resized picture, all tiles together; Qwen3-VL's own bound, the largest */
#define LIMIT_IMAGE_TILES  64u    /* SmolVLM and Idefics 3 cut a picture into 17 at most */
#define LIMIT_IMAGE_TOKENS 16384u /* of one picture; LIMIT_IMAGE_PIXELS in squares of 32 */
#define LIMIT_REQUEST_IMAGE_BYTES                                                                  \
    (1u << 30) /* pixels of one request in the slab, whose size (--slab-bytes) binds earlier */
#define LIMIT_KEPT_IMAGES                                                                          \
    4096u /* that --vision-cache-size may say; the list of them is walked for every picture */
#define LIMIT_QUEUED_IMAGE_BYTES                                                                   \
    (2ull << 30) /* pixels that all sequences of one worker keep; 180 pictures of 4 M pixels */

/* HTTP */
#define LIMIT_HTTP_HEAD_BYTES                                                                      \
    32768u /* request line and headers, and trailers; browsers stay below 16 kB */
#define LIMIT_HTTP_HEADERS          100u /* clients send 10 to 30 */
#define LIMIT_HTTP_CHUNK_LINE_BYTES 256u /* a chunk-size line with its extensions */
#define LIMIT_HTTP_REQUEST_ID_BYTES 128u /* a client's own longer id is replaced */
#define LIMIT_HTTP_PENDING_BYTES                                                                   \
    65536u /* bytes behind the request in hand; real clients send none */
#define LIMIT_HTTP_HELD_BODIES                                                                     \
    32u /* times --max-body-bytes: bodies that are arriving, together                              \
         */

#define LIMIT_API_KEYS          1024u      /* one for each of a large team's programs */
#define LIMIT_API_KEY_BYTES     512u       /* the longest issued by a known service has 164 */
#define LIMIT_API_KEY_FILE      (1u << 20) /* bytes of --api-key-file */
#define LIMIT_CORS_ORIGINS      64u
#define LIMIT_CORS_ORIGIN_BYTES 267u /* "https://", a host name of 253, ':' and a port */
#define LIMIT_LISTEN_SOCKETS    8u   /* taken over from a service manager */
#define LIMIT_HTTP_NOTES        8u   /* fields that a handler adds to its request's log line */

/* Pictures that are fetched */
#define LIMIT_MEDIA_URL_BYTES 8192u /* signed ones of object stores have some 2,000 */
#define LIMIT_MEDIA_REDIRECTS 3u    /* a short name, its host, a mirror */

/* The command line */
#define LIMIT_OPTION_REPEATS                                                                       \
    64u /* values of an option that is a list; more keys go into a file                            \
         */

/* Logs */
#define LIMIT_LOG_WORDS_BYTES 2048u /* the words of one line */
#define LIMIT_LOG_VALUE_BYTES 256u  /* one text value of an event, before escaping */

#define LIMIT_HTTP_UNSENT_STREAMS                                                                  \
    64u /* times --stream-buffer-bytes: what all slow readers together leave unread */

/* Templates */
#define LIMIT_TEMPLATE_BYTES (256u << 10) /* largest published template is about 30 kB */
#define LIMIT_TEMPLATE_STEPS 16000000u    /* evaluated nodes; 4,096 messages need some 600 k */
#define LIMIT_TEMPLATE_DEPTH 64u          /* nesting of expressions and blocks in the source */
#define LIMIT_TEMPLATE_CALL_DEPTH                                                                  \
    400u /* the evaluator's recursion, some 1 kB of stack each: 25 nested macros */
#define LIMIT_TEMPLATE_NAMES                                                                       \
    4096u /* variables of all scopes together; published templates have under 100 */
#define LIMIT_TEMPLATE_MEMORY                                                                      \
    (256u << 20) /* of one rendering: output, its provenance, and copies while both grow */
#define LIMIT_TEMPLATE_OUTPUT (16u << 20) /* bytes of a rendered prompt */

/* Answers */
#define LIMIT_TOOL_NAME_BYTES                                                                      \
    256u                      /* of a function, a parameter or an id; the API's names have 64 */
#define LIMIT_TOOL_CALLS 128u /* of one answer; parallel calls are a handful */
#define LIMIT_TOOL_CALL_BYTES                                                                      \
    (8u << 20)               /* text of one call, kept until it is whole: a written file */
#define LIMIT_TOOL_DEPTH 64u /* of arguments; LIMIT_JSON_DEPTH's reason */

/* Shared memory */
#define LIMIT_RING_RECORDS 65536u
#define LIMIT_SLAB_BYTES   (1ull << 32)
#define LIMIT_WORKERS      16u
#define LIMIT_DEVICES      16u /* Vulkan devices of one machine; the largest ones have 16 */

/* Worker */
#define LIMIT_SEQUENCES 1024u /* sequences admitted at once by one worker */
#define LIMIT_STEP_ROWS 4096u /* rows (tokens) of one step */
#define LIMIT_PATCH_ROWS                                                                           \
    20480u /* rows of a vision tower at once: 17 tiles of 512 x 512 in patches of 16, or one       \
            * picture of 2,000 x 2,000 in patches of 14 */
#define LIMIT_QUEUED_TOKENS (64u << 20) /* prompt ids of all sequences of one worker: 256 MB */
#define LIMIT_THREADS       256u

#endif
