/*
 * Every bound of the system with its reason. A number that input could otherwise grow without limit
 * is here, or is an option whose maximum is here.
 */
#ifndef SHOAL_PROTO_LIMITS_H
#define SHOAL_PROTO_LIMITS_H

/* --- Checkpoints ------------------------------------------------------------------------------ */

/* vocabulary entries; the largest published vocabulary has 262,208 */
#define LIMIT_VOCAB_TOKENS (1u << 20)
/* one vocabulary entry; the longest seen is 256 spaces */
#define LIMIT_TOKEN_BYTES 1024u
/* merges of one vocabulary; the largest seen has 580,604 (Gemma) */
#define LIMIT_MERGES (1u << 23)
/* one regex of a pre-tokenizer; the longest published has about 600 */
#define LIMIT_PATTERN_BYTES 8192u
/* splits in sequence; published ones have up to 5 */
#define LIMIT_PRETOKENIZER_STEPS 16u
/* replacements in sequence; published ones have up to 2 */
#define LIMIT_NORMALIZER_STEPS 8u
/* a string that a step splits at or replaces; usually one character */
#define LIMIT_LITERAL_BYTES 64u
/* a prompt after the normalizer; a space may become 3 bytes */
#define LIMIT_NORMALIZED_BYTES (128u << 20)
/* one million; positions fit 20 bits and are exact in f32 */
#define LIMIT_CONTEXT_TOKENS (1u << 20)
/* tensors of a GGUF file; 61-layer MoE models have about 1,800 */
#define LIMIT_GGUF_TENSORS 65536u
/* metadata keys of a GGUF file; real files have 20 to 60 */
#define LIMIT_GGUF_METADATA 4096u
/* parts of a split file; a terabyte model in parts of 10 GB has 100 */
#define LIMIT_GGUF_PARTS 1024u
/* the format's own bound */
#define LIMIT_GGUF_DIMENSIONS 4u
/* the format says 64; some tools write more */
#define LIMIT_GGUF_NAME_BYTES 256u
/* real files use 32; this is the largest page size in use */
#define LIMIT_GGUF_ALIGNMENT 65536u
/* layers of a model; the largest published has 126 */
#define LIMIT_LAYERS 512u
/* columns of the residual; the largest published has 18,432 */
#define LIMIT_HIDDEN 65536u
/* weights of one Dense module; published ones have up to 19 million */
#define LIMIT_DENSE_WEIGHTS (1u << 25)
/* columns of a feed-forward layer; the largest published has 53,248 */
#define LIMIT_FEED_FORWARD (1u << 18)
/* query heads of a layer; the largest seen is 128 */
#define LIMIT_HEADS 1024u
/* columns of a head; the largest published is 512 */
#define LIMIT_HEAD_DIM 512u
/* columns of a cached row that is key and value of all heads at once; published: 576 */
#define LIMIT_LATENT_COLUMNS 1024u
/* columns of per-layer embeddings in one layer; published: 256 */
#define LIMIT_PLE_COLUMNS 4096u
/* tokens of another modality that have embeddings of their own; published: 128 */
#define LIMIT_MODALITY_TOKENS 4096u
/* taps of a short convolution; published: 3 and 4 */
#define LIMIT_CONV_TAPS 8u
/* taps along each axis of a convolution over maps; published models have at most 7 */
#define LIMIT_CONVOLUTION_TAPS 15u
/* channels of a short convolution; the largest published has 12,288 */
#define LIMIT_CONV_CHANNELS (1u << 18)
/* recurrent state of one layer and sequence; published ones stay below 1 M */
#define LIMIT_STATE_FLOATS (1u << 26)
/* side of a vision tower's patch in pixels; published: 14 to 48 */
#define LIMIT_PATCH_SIDE 64u
/* patches that become one feature, along each side; published: up to 4 */
#define LIMIT_MERGE_SIDE 8u
/* rows of a tower's position table; published ones have up to 5,000 */
#define LIMIT_PATCH_POSITIONS (1u << 20)
/* frames of a patch; published: 1 and 2 */
#define LIMIT_PATCH_FRAMES 4u
/* experts of a layer; the largest published has 512 */
#define LIMIT_EXPERTS 1024u
/* experts chosen for a row; published: up to 22 */
#define LIMIT_EXPERTS_CHOSEN 32u
/* tokenizer.json of a vocabulary of 262,144 entries has 33 MB */
#define LIMIT_JSON_FILE_BYTES (64u << 20)
/* recursion of readers; config files nest 5 deep */
#define LIMIT_JSON_DEPTH 64u
/* a member's name in a config; published ones stay below 60 */
#define LIMIT_JSON_NAME_BYTES 256
/* config.json; published ones stay below 50 kB */
#define LIMIT_CONFIG_BYTES (1u << 20)
/* the format's own bound */
#define LIMIT_SAFETENSORS_HEADER_BYTES 100000000u
/* tensors of a checkpoint; the largest published has 92,000 */
#define LIMIT_SAFETENSORS_TENSORS (1u << 18)
/* dimensions of a tensor; published ones have up to 5 */
#define LIMIT_SAFETENSORS_DIMENSIONS 8u
/* files of a checkpoint; large models have 200 */
#define LIMIT_SAFETENSORS_SHARDS 1024u

/* --- Requests --------------------------------------------------------------------------------- */

/* messages of a conversation; agents send hundreds */
#define LIMIT_MESSAGES 4096u
/* attempts to shorten a conversation that is too long; each leaves out at least one turn */
#define LIMIT_TRUNCATIONS 16u
/* unknown names of fields that are logged, each once, and their length in the log */
#define LIMIT_UNKNOWN_FIELDS      256u
#define LIMIT_UNKNOWN_FIELD_BYTES 64u
/* stop strings of a request; the OpenAI API allows four, other servers any number */
#define LIMIT_STOP_STRINGS 64u
/* one stop string; bounds the text that is held back */
#define LIMIT_STOP_BYTES 256u
/* a tag around reasoning; the longest published has 27; bounds the text that is held back */
#define LIMIT_REASONING_TAG_BYTES 64u
/* entries per request; the OpenAI API allows 300 */
#define LIMIT_LOGIT_BIAS 1024u
/* sequence breakers of DRY in a request, and sequences of tokens that begin with one token; bounds the
 * search in a long history. llama.cpp's default has four */
#define LIMIT_DRY_BREAKERS 16u
/* bytes of one that are used, and tokens of its sequences; both as in llama.cpp */
#define LIMIT_DRY_BREAKER_BYTES  40u
#define LIMIT_DRY_BREAKER_TOKENS 20u
/* all sequences of a request's breakers (proto/dry_breakers.h), two words for a single token; of
 * 262,144 tokens 7,000 have a character of the default breakers */
#define LIMIT_DRY_BREAKER_WORDS 65536u
/* ids at which an answer ends: those of one checkpoint, published ones have up to 8, and those of
 * a request */
#define LIMIT_STOP_TOKENS 64u
/* of these, those that a request names */
#define LIMIT_REQUEST_STOP_TOKENS 32u
/* answers to one prompt (n); the OpenAI API's bound */
#define LIMIT_CHOICES 128u
/* prompts of one completions body; each is a live request, of which a server has hundreds */
#define LIMIT_PROMPTS 128u
/* texts of one body of an embeddings route; the OpenAI API's bound */
#define LIMIT_INPUTS 2048u
/* tokens of a text of which every token's vector is wanted: 32 MB of 1,024 columns each */
#define LIMIT_VECTOR_TOKENS 8192u
/* nesting of a body: LIMIT_TOOL_DEPTH, the members around a schema, and some room */
#define LIMIT_BODY_DEPTH 100u
/* template variables that a request sets; templates know a handful */
#define LIMIT_TEMPLATE_VARIABLES 128u
/* parts of a written grammar (GBNF, Lark); the largest published ones, of SQL, have some thousand */
#define LIMIT_GRAMMAR_NODES (1u << 16)
/* compiled grammars that the frontend keeps, with their sources; a schema takes 1 to 100 kB */
#define LIMIT_COMPILED_GRAMMARS_BYTES (64u << 20)
/* tools of a request; the OpenAI API allows 128, agents send hundreds */
#define LIMIT_TOOLS 1024u
/* a tool's name; OpenAI allows 64, Anthropic 128 */
#define LIMIT_TOOL_OFFERED_NAME_BYTES 128u
/* the parameters of one tool; generated ones of large APIs have about 30 kB */
#define LIMIT_TOOL_SCHEMA_BYTES (256u << 10)
/* tokenize and count requests in preparation threads at once; each holds a body */
#define LIMIT_INSPECTIONS 256u
/* slots of the frontend's request table: preparing, waiting and running */
#define LIMIT_LIVE_REQUESTS 4096u

/* bytes of all tokens of a vocabulary; the largest published one has about 2 MB */
#define LIMIT_TOKEN_TABLE_BYTES (64u << 20)

/* --- Documents, as clients send them ----------------------------------------------------------- */

/* text and PDF files of one request */
#define LIMIT_REQUEST_DOCUMENTS 16u
/* pages of a PDF file; with images of its pages, LIMIT_REQUEST_IMAGES bounds all of them together */
#define LIMIT_DOCUMENT_PAGES 256u
/* text of a document: a context of LIMIT_CONTEXT_TOKENS has about 4 bytes a token */
#define LIMIT_DOCUMENT_TEXT_BYTES (4u << 20)
/* a page's image on its longer side; a page of A4 then has 100 dots per inch */
#define LIMIT_DOCUMENT_PAGE_SIDE 1168u
/* all page images of a document as PNG: 256 pages of 500 KB */
#define LIMIT_DOCUMENT_IMAGE_BYTES (128u << 20)
/* address space of a process that reads a PDF file; a page of LIMIT_DOCUMENT_PAGE_SIDE needs 150 MB
 * with the libraries */
#define LIMIT_DOCUMENT_MEMORY_BYTES (1u << 30)
/* CPU time for all PDF files of a request. A page of text takes 5 ms, its image 50 to 100 ms */
#define LIMIT_REQUEST_DOCUMENT_CPU_MS 30000
/* from the start of such a process to its end, so that one that waits for nothing ends too */
#define LIMIT_DOCUMENT_LIFE_MS 90000

/* --- Source images, as clients send them ------------------------------------------------------ */

/* one file; a 50-megapixel photograph has about 20 MB, Anthropic accepts 5 */
#define LIMIT_SOURCE_IMAGE_BYTES (32u << 20)
/* pixels; posters and panoramas stay below 20,000 */
#define LIMIT_SOURCE_IMAGE_SIDE 32768u
/* 67 million, 201 MB as RGB; only images of 100-megapixel sensors are larger */
#define LIMIT_SOURCE_IMAGE_PIXELS (1u << 26)
/* a JPEG of at most this many pixels is decoded in full resolution, however small it is
 * resized. Qwen3-VL's bound of a resized image, so that results up to there equal the
 * reference's */
#define LIMIT_JPEG_EXACT_PIXELS (1u << 24)
/* memory of a JPEG decoder besides its result; a progressive JPEG keeps all coefficients,
 * usually 3 bytes a pixel: 89 million pixels */
#define LIMIT_JPEG_WORK_BYTES (256u << 20)
/* scans of a progressive JPEG, each a pass over all pixels; programs write about 10 */
#define LIMIT_JPEG_SCANS 100u
/* segments of one file, between its scans too; LIMIT_SOURCE_IMAGE_BYTES is 512 full ones, an
 * ICC profile has at most 255, and LIMIT_JPEG_SCANS scans with their tables about 500 */
#define LIMIT_JPEG_SEGMENTS 4096u
/* all files of one request, which are held until they are decoded */
#define LIMIT_REQUEST_SOURCE_BYTES (128u << 20)
/* all images of one request before they are resized: LIMIT_REQUEST_SOURCE_BYTES of
 * photographs at 2 bits a pixel, or 256 pages of 2 million; 6 to 15 s of one core as WebP or
 * PNG */
#define LIMIT_REQUEST_SOURCE_PIXELS (1u << 29)
/* their pixels, counted once for each scan of a JPEG: those above in 8 scans; a scan without
 * data takes 1 ns a pixel */
#define LIMIT_REQUEST_SOURCE_PASSES (1ull << 32)
/* frames of a video's file: an hour and a half at 24 a second */
#define LIMIT_VIDEO_SOURCE_FRAMES (1u << 17)
/* pixels of one frame; 8K video has 33 million, 4K 8 */
#define LIMIT_VIDEO_FRAME_PIXELS (1u << 24)
/* pixels that are decoded for the videos of one request: 1080p at 30 a second for 69 s, 360p for ten
 * minutes; 20 to 40 s of one core */
#define LIMIT_VIDEO_SOURCE_PIXELS (1ull << 32)
/* duration of a video, microseconds: a day */
#define LIMIT_VIDEO_US 86400000000ull
/* samples a second that a model may want; Whisper's 16,000, the highest of published ones 48,000 */
#define LIMIT_AUDIO_RATE_LEAST 8000u
#define LIMIT_AUDIO_RATE_MOST  48000u
/* mono samples of one audio at the model's rate: half an hour of 16,000 a second */
#define LIMIT_AUDIO_SAMPLES (30u * 60u * 16000u)
/* samples a second of a file, and of all its channels: 93 minutes of 48,000 in stereo */
#define LIMIT_AUDIO_SOURCE_RATE   384000u
#define LIMIT_AUDIO_SOURCE_VALUES (1u << 29)
/* columns of a log-mel row; published models have at most 128 */
#define LIMIT_AUDIO_MELS 512u
/* rows before its own that a row of a sound attends to where it does not see all; published models: 12 */
#define LIMIT_AUDIO_NEAR 63u
/* absolute value of a sample, full scale being 1; files of floats may exceed that */
#define AUDIO_SAMPLE_MAX 1000.0f
/* entries of one directory; cameras write about 50 */
#define LIMIT_EXIF_ENTRIES 1024u
/* text of a placeholder or around it; the longest published has 25 */
#define LIMIT_IMAGE_MARKER_BYTES 64u
/* URL of an image; signed ones of object stores have about 2,000 */
#define LIMIT_MEDIA_URL_BYTES 8192u
/* a short name, its host, a mirror */
#define LIMIT_MEDIA_REDIRECTS 3u
/* processes that decode; each thread that prepares images keeps one busy */
#define LIMIT_MEDIA_PROCESSES 64u
/* address space of such a process. A lossless WebP of LIMIT_SOURCE_IMAGE_PIXELS with alpha that is
 * turned by EXIF takes 1,000 MB: file, pixels' area, stored image, RGBA and libwebp's own copy */
#define LIMIT_MEDIA_MEMORY_BYTES ((1u << 30) + (64u << 20))
/* CPU time after which such a process is replaced between two images, so that damage done by one
 * does not stay */
#define LIMIT_MEDIA_LIFE_CPU_MS 60000u
/* attempts to decode an image whose process is killed from outside */
#define LIMIT_MEDIA_ATTEMPTS 3u

/* --- Sampling --------------------------------------------------------------------------------- */

/* alternatives of a token; the OpenAI API's bound */
#define LIMIT_TOP_LOGPROBS 20u
/* log-probabilities of the prompts of one request, alternatives counted: 8 MB; 49,000 tokens with 20
 * alternatives each */
#define LIMIT_PROMPT_SCORES (1u << 20)
/* tokens that an answer must start with: a tool call's opening and a function name of 64
 * bytes */
#define LIMIT_PREFIX_TOKENS 256u
/* tokens of the mark that begins or ends thinking; published ones have up to 8, about 30 with
 * a sentence about the end of thinking before it */
#define LIMIT_THINK_TOKENS 64u

/* --- Grammars --------------------------------------------------------------------------------- */

/* nesting of a regex, which is recursion of its derivative; generated patterns stay below 50 */
#define LIMIT_GRAMMAR_DEPTH 500u
/* a compiled grammar; the largest public JSON schema (915 kB) becomes about as much */
#define LIMIT_GRAMMAR_BLOB_BYTES (4u << 20)
/* memory of a grammar while it is built: tables that are a few times the blob; half a million nodes,
 * which take 0.2 s */
#define LIMIT_GRAMMAR_BUILD_BYTES (40u << 20)
/* steps of building a grammar, up to 20 ns: at most 0.15 s */
#define LIMIT_GRAMMAR_BUILD_FUEL 7500000u
/* derivatives that decide whether one regex is empty; about 1 ms */
#define LIMIT_GRAMMAR_EMPTY_STEPS 2000u
/* a count in a regex or a rule; more are written as unbounded by generators */
#define LIMIT_GRAMMAR_COUNT (1u << 30)
/* derived states and masks of one grammar in the worker */
#define LIMIT_GRAMMAR_CACHE_BYTES (64u << 20)
/* members of an object in a schema; OpenAI allows 5,000 in a whole schema */
#define LIMIT_SCHEMA_MEMBERS 5000u
/* items of one parser row; JSON has about 40, an object one for each member that may come */
#define LIMIT_GRAMMAR_ROW_ITEMS 8192u
/* masks of chains of terminals of one grammar; dropped when they are more */
#define LIMIT_GRAMMAR_MASK_BYTES (16u << 20)
/* chains of terminals in one mask; JSON has up to about 100, and grammars with more are walked
 * with the parser */
#define LIMIT_GRAMMAR_CHAINS 2000u
/* parser items of one mask or one token; about 0.2 s */
#define LIMIT_GRAMMAR_STEP_ITEMS 4000000u
/* steps of deriving states in one mask or one token; about 40 ms */
#define LIMIT_GRAMMAR_STEP_FUEL 4000000u
/* sets of members read by one answer: objects times their members; and their bits, 32 a word */
#define LIMIT_GRAMMAR_GROUP_STATES (1u << 19)
#define LIMIT_GRAMMAR_GROUP_WORDS  (1u << 22)
/* parser items of one answer: 16 bytes each */
#define LIMIT_GRAMMAR_ANSWER_ITEMS (2u << 20)

/* --- OpenAI's Responses API ------------------------------------------------------------------- */

/* records that can be found; --response-store-bytes usually binds earlier */
#define LIMIT_STORED_RESPONSES 16384u
/* of one stored response's file; the request's body and its items, each up to 1 GiB */
#define LIMIT_STATE_FILE_BYTES (4ull << 30)
/* answers of an earlier process that are made at once; the rest waits, so that new requests have
 * places */
#define LIMIT_RESUMED_AT_ONCE 16u
/* items of a continued conversation; a longer prompt exceeds LIMIT_TEMPLATE_OUTPUT */
#define LIMIT_CHAIN_BYTES (16u << 20)
/* pairs; the OpenAI API's bound */
#define LIMIT_RESPONSE_METADATA 16u
/* the OpenAI API's bound is 64 characters */
#define LIMIT_RESPONSE_METADATA_KEY_BYTES 256u
/* the OpenAI API's bound is 512 characters */
#define LIMIT_RESPONSE_METADATA_VALUE_BYTES 2048u
/* one page of input items; the OpenAI API's bound */
#define LIMIT_LISTED_ITEMS 100u

/* --- Resized images, as the worker gets them -------------------------------------------------- */

/* images of one request: a hundred pages and their crops; Anthropic accepts 100 */
#define LIMIT_REQUEST_IMAGES 256u
/* image records of one request: an image has up to two, a video one for each temporal patch, of which
 * 768 frames (the largest number that a published processor samples) are 384 */
#define LIMIT_REQUEST_RECORDS 768u
/* pixels; preprocessors keep the aspect ratio, so thin images are long */
#define LIMIT_IMAGE_SIDE 16384u
/* all tiles of an image; Qwen3-VL's own bound, the largest published */
#define LIMIT_IMAGE_PIXELS (1u << 24)
/* tiles of an image; SmolVLM and Idefics 3 make at most 17 */
#define LIMIT_IMAGE_TILES 64u
/* grids of tiles that an image processor chooses from; LLaVA-OneVision has 36 */
#define LIMIT_IMAGE_GRIDS 64u
/* placeholders of an image: LIMIT_IMAGE_PIXELS in squares of 32 */
#define LIMIT_IMAGE_TOKENS 16384u
/* position of a temporal patch after the first one of its video: 9 hours of Qwen2.5-VL's two a second.
 * Rotary angles are exact to a million positions */
#define LIMIT_VIDEO_TIME (1u << 16)
/* frames of one video that are shown; Qwen's processors sample at most as many */
#define LIMIT_VIDEO_FRAMES 768u
/* resized pixels of the shown frames of one video: 768 of Qwen2-VL's smallest */
#define LIMIT_VIDEO_PIXELS (80u << 20)
/* pixels of one request in the slab; --slab-bytes usually binds earlier */
#define LIMIT_REQUEST_IMAGE_BYTES (1u << 30)
/* maximum of --vision-cache-size; the list is walked for every image */
#define LIMIT_KEPT_IMAGES 4096u
/* pixels held by all sequences of one worker: 180 images of 4 M pixels */
#define LIMIT_QUEUED_IMAGE_BYTES (2ull << 30)

/* --- Hub ---------------------------------------------------------------------------------------- */

/* the list of a repository's files; about 300 bytes a file */
#define LIMIT_HUB_LISTING_BYTES (32u << 20)
/* files of a repository or of a snapshot; the largest published models have about 1,000 */
#define LIMIT_HUB_FILES 65536u
/* a file's name with its folders */
#define LIMIT_HUB_FILE_NAME_BYTES 512u
/* folders above a file in a repository; published ones have up to 3 */
#define LIMIT_HUB_FOLDERS 16u
/* a signed URL of an object store has about 2,000 */
#define LIMIT_HUB_URL_BYTES 16384u
/* a renamed repository, its storage, a mirror */
#define LIMIT_HUB_REDIRECTS 5u
/* an access token; published ones have about 40 */
#define LIMIT_HUB_TOKEN_BYTES 4096u
/* a file of 1 PiB; sums of LIMIT_HUB_FILES of them stay within 64 bits */
#define LIMIT_HUB_FILE_BYTES (1ull << 50)

/* --- HTTP ------------------------------------------------------------------------------------- */

/* request line and headers, and trailers; browsers stay below 16 kB */
#define LIMIT_HTTP_HEAD_BYTES 32768u
/* headers of a request; clients send 10 to 30 */
#define LIMIT_HTTP_HEADERS 100u
/* a chunk-size line with its extensions */
#define LIMIT_HTTP_CHUNK_LINE_BYTES 256u
/* a longer X-Request-Id of a client is replaced */
#define LIMIT_HTTP_REQUEST_ID_BYTES 128u
/* bytes that arrive after a request while it is handled; real clients send none */
#define LIMIT_HTTP_PENDING_BYTES 65536u
/* bodies arriving at once, together, in multiples of --max-body-bytes */
#define LIMIT_HTTP_HELD_BODIES 32u
/* unread bytes of all slow readers together, in multiples of --stream-buffer-bytes */
#define LIMIT_HTTP_UNSENT_STREAMS 64u
/* fields that a handler adds to its request's log line */
#define LIMIT_HTTP_NOTES 8u
/* of headers that a handler adds to a reply; clients take heads of some 8 to 64 KiB */
#define LIMIT_HTTP_ADDED_HEADER_BYTES 4096u
/* dashboards that are open at a time */
#define LIMIT_STATUS_STREAMS 32u
/* bytes and prompts of --warm-prompts */
#define LIMIT_WARM_BYTES   (64u << 20)
#define LIMIT_WARM_PROMPTS 1024u
/* one for each of a large team's programs */
#define LIMIT_API_KEYS 1024u
/* the longest issued by a known service has 164 */
#define LIMIT_API_KEY_BYTES 512u
/* bytes of --api-key-file */
#define LIMIT_API_KEY_FILE (1u << 20)
/* bytes of --tls-key: an RSA key of 16,384 bits is 13 KB */
#define LIMIT_TLS_KEY_FILE (1u << 16)
/* "https://", a host name of 253, ':' and a port */
#define LIMIT_CORS_ORIGIN_BYTES 267u
/* sockets passed by a service manager */
#define LIMIT_LISTEN_SOCKETS 8u

/* --- Several models ---------------------------------------------------------------------------- */

/* in --models-dir; each loaded one has processes and threads of its own */
#define LIMIT_MODELS 64u
/* Replaced instances of models whose last requests still run: each may hold a copy of its weights. */
#define LIMIT_RETIRED_INSTANCES 4u
/* options in a section of shoal.ini */
#define LIMIT_MODEL_SETTINGS 64u
/* requests that wait for a model that is not loaded; each holds a body */
#define LIMIT_MODEL_WAITS 256u

/* --- The command line ------------------------------------------------------------------------- */

/* values of an option that may be repeated */
#define LIMIT_OPTION_REPEATS 64u

/* --- Logs ------------------------------------------------------------------------------------- */

/* the message of one line */
#define LIMIT_LOG_WORDS_BYTES 2048u
/* one text value of an event, before escaping */
#define LIMIT_LOG_VALUE_BYTES 256u

/* --- Checkpoints ------------------------------------------------------------------------------ */

/* files of a checkpoint; the largest published ones have 163 */
#define LIMIT_CHECKPOINT_FILES 1024u
/* their list, which is one argument of a worker: the kernel allows 128 kB */
#define LIMIT_CHECKPOINT_FILES_BYTES (120u << 10)
/* of these, files that a server holds open for its workers; one descriptor each */
#define LIMIT_OPENED_FILES 256u

/* --- Templates -------------------------------------------------------------------------------- */

/* the largest published template has about 30 kB */
#define LIMIT_TEMPLATE_BYTES (256u << 10)
/* evaluated nodes, read text and taken memory: 0.1 to 0.25 s of CPU. 4,096 short messages need about 600,000, but
 * Gemma 4's template, which reads all messages for each one, needs 7,000,000 for 1,000 */
#define LIMIT_TEMPLATE_STEPS 12000000u
/* more of them for each byte of the variables' strings: templates copy and search long messages */
#define LIMIT_TEMPLATE_BYTE_STEPS 2u
/* nesting of expressions and blocks in the source */
#define LIMIT_TEMPLATE_DEPTH 64u
/* the evaluator's recursion, about 1 kB of stack each: 25 nested macros */
#define LIMIT_TEMPLATE_CALL_DEPTH 400u
/* variables of all scopes together; published templates have under 100 */
#define LIMIT_TEMPLATE_NAMES 4096u
/* memory of one rendering: output, its provenance, and copies while both grow */
#define LIMIT_TEMPLATE_MEMORY (256u << 20)
/* bytes of a rendered prompt */
#define LIMIT_TEMPLATE_OUTPUT (16u << 20)

/* --- Answers ---------------------------------------------------------------------------------- */

/* name of a function or parameter, or an id; the API's names have 64 */
#define LIMIT_TOOL_NAME_BYTES 256u
/* calls of one answer; parallel calls are a handful */
#define LIMIT_TOOL_CALLS 128u
/* text of one call, held until it is complete: a written file */
#define LIMIT_TOOL_CALL_BYTES (8u << 20)
/* nesting of arguments; LIMIT_JSON_DEPTH's reason */
#define LIMIT_TOOL_DEPTH 64u

/* --- Schemas and regular expressions of requests ------------------------------------------------ */

/* bytes of one regular expression; published patterns stay below 10,000 */
#define LIMIT_REGEX_BYTES 65536u
/* anchors and look-aheads one after the other in one match; recursion of the compiler */
#define LIMIT_REGEX_DEPTH 256u
/* parts of a schema that have a rule of their own */
#define LIMIT_SCHEMA_STATES (1u << 16)
/* memory of the schema compiler beside the grammar builder's */
#define LIMIT_SCHEMA_WORK_BYTES (24u << 20)

/* --- Shared memory ---------------------------------------------------------------------------- */

/* records of one ring */
#define LIMIT_RING_RECORDS 65536u
/* maximum of --slab-bytes */
#define LIMIT_SLAB_BYTES (1ull << 32)
/* maximum of --workers */
#define LIMIT_WORKERS 16u
/* Vulkan devices of one machine; the largest machines have 16 */
#define LIMIT_DEVICES 16u
/* Devices that the layers of one model are split over: a machine has no more of one kind. */
#define LIMIT_SPLIT_DEVICES 8u

/* --- Worker ----------------------------------------------------------------------------------- */

/* sequences admitted at once by one worker */
#define LIMIT_SEQUENCES 1024u
/* rows (tokens) of one step */
#define LIMIT_STEP_ROWS 4096u
/* drafted tokens that one step verifies for one sequence: a step of 32 rows takes several times as long as one of
 * one row on every device, so longer drafts delay other sequences for little */
#define LIMIT_DRAFT_TOKENS 31u
/* milliseconds of --itl-target-ms: one minute */
#define LIMIT_ITL_TARGET_MS 60000u
/* rows of a vision tower at once: 17 tiles of 512 x 512 in patches of 16, or one image of
 * 2,000 x 2,000 in patches of 14 */
#define LIMIT_PATCH_ROWS 20480u
/* prompt ids of all sequences of one worker: 256 MB */
#define LIMIT_QUEUED_TOKENS (64u << 20)
/* compute threads of a worker */
#define LIMIT_THREADS 256u

/* --- LoRA adapters ---------------------------------------------------------------------------- */

/* adapters of a model at once */
#define LIMIT_ADAPTERS 64u
/* rank of an adapter; published ones have 4 to 256 */
#define LIMIT_ADAPTER_RANK 256u
/* bytes of an adapter's tensors: rank 256 on all projections of a 70B model in F16 is 1.6 GB */
#define LIMIT_ADAPTER_BYTES (4ull << 30)
/* bytes of an adapter's name with its NUL; names of models have as many */
#define LIMIT_ADAPTER_NAME_BYTES 256u

#endif
