/*
 * Measures the worker's steps without processes, rings or HTTP: prompt steps of N rows, then decode
 * steps of B sequences with one row each, with a real checkpoint.
 *
 *   step_bench --model FILE [--threads T] [--prompts 128,512] [--batches 1,8] [--decode 64]
 *              [--context 128] [--tier best] [--device cpu|vulkan[:N]|A+B] [--step-depth 2]
 *              [--kv-cache-type f16] [--kv-bits B] [--kv-key-bits B] [--kv-value-bits B]
 *              [--kv-quant-scheme S] [--activation-bits 8|16] [--cpu-time] [--profile]
 *              [--pipeline-cache FOLDER] [--batch-invariant] [--vulkan-tier T]
 *              [--image 1024x1024] encode an image of this size (a model with vision), then answer
 *                                  a prompt with it by one token
 *              [--beside 1,16,64]  decode one sequence in steps that also have so many rows of
 *                                  another one's prompt
 *              [--drafted 1,4,16]  decode one sequence in steps of so many rows, each with a draw, as
 *                                  if all but the first were drafted tokens
 *              [--tokens 1,2,3]    instead of measuring: feed these ids, print the greedy
 *                                  continuation and resident memory
 *              [--perplexity]      of these ids, each predicted from all before it
 *
 * With a device such as vulkan:0+vulkan:1 the layers are split over several, and chunks of a prompt are
 * launched before the ones before are done, and decodes alternate in two halves, so that all devices work.
 *
 * Each figure is the best of --repeat runs (default 3), because other programs on the machine can
 * only slow a run down. Decodes have a context of random keys and values on a Vulkan device, and of
 * zeros on the CPU. An idle GPU starts at a third of its clock, so there prompts and images run for
 * two seconds before they are timed.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/device_name.h"
#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "tests/support/vulkan_kv_noise.h"
#include "worker/backend/host/backend.h"
#include "worker/model/model.h"

#define BATCH_MAX           256
#define CONTEXT_MAX         131072
#define PROMPT_CHUNK        2048
#define BLOCKS_PER_SEQUENCE (CONTEXT_MAX / KV_BLOCK_TOKENS)
#define NUMBERS_MAX         4096
#define SCORED_ROWS         64u
#define WARM_S              2.0
#define IMAGE_WORDS         32u /* tokens of text after an image */

struct number_list {
    uint32_t count;
    uint32_t values[NUMBERS_MAX];
};

struct bench {
    const char *model_path;
    uint32_t decode_steps;
    uint32_t context;
    uint32_t repeat;
    bool cpu_time;
    bool perplexity;
    struct image_shape image; /* tiles 0: none */
    struct number_list prompts;
    struct number_list batches;
    struct number_list beside;
    struct number_list drafted;
    struct number_list tokens;
    struct kv_quantization_request kv_request;
    struct backend_options options;
    struct device_set devices; /* the layers are split over them */
    bool on_vulkan;
    struct model *model;
    struct backend *backend;
    const uint32_t *feature_rows; /* of the step that is launched next, or NULL */
    uint32_t first_sequence;      /* likewise */
    uint32_t blocks[BATCH_MAX][BLOCKS_PER_SEQUENCE];
};

/* Wall-clock seconds, or with --cpu-time the CPU seconds of this process, which with one thread do
 * not depend on other programs. */
static double now_s(const struct bench *bench)
{
    struct timespec now;
    clock_gettime(bench->cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct number_list parse_list(const char *text)
{
    struct number_list list = {0};
    while (*text && list.count < NUMBERS_MAX) {
        char *end;
        list.values[list.count++] = (uint32_t)strtoul(text, &end, 10);
        text = *end == ',' ? end + 1 : "";
    }
    return list;
}

static enum cpu_tier parse_tier(const char *name)
{
    enum cpu_tier tier;
    if (cpu_tier_parse(name, &tier) == 0)
        return tier;
    fprintf(stderr, "unknown tier %s\n", name);
    exit(2);
}

static enum kv_cache_type parse_kv_type(const char *name)
{
    enum kv_cache_type type;
    if (kv_cache_type_parse(name, &type) == 0)
        return type;
    fprintf(stderr, "unknown KV cache type %s\n", name);
    exit(2);
}

static uint32_t parse_half_bits(const char *text)
{
    uint32_t half_bits;
    if (kv_half_bits_parse(text, &half_bits) == 0)
        return half_bits;
    fprintf(stderr, "%s is no number of bits\n", text);
    exit(2);
}

static enum kv_quant_scheme parse_scheme(const char *name)
{
    enum kv_quant_scheme scheme;
    if (kv_quant_scheme_parse(name, &scheme) == 0)
        return scheme;
    fprintf(stderr, "unknown scheme %s\n", name);
    exit(2);
}

static void parse_device(struct bench *bench, const char *name)
{
    if (device_set_parse(name, &bench->devices) == 0) {
        bench->on_vulkan = device_set_kind(&bench->devices) == DEVICE_VULKAN;
        bench->options.vulkan.device = bench->devices.devices[0].index;
        bench->options.stage_count = bench->devices.count > 1 ? bench->devices.count : 0;
        for (uint32_t i = 0; i < bench->options.stage_count; i++)
            bench->options.stages[i].device = bench->devices.devices[i];
        return;
    }
    fprintf(stderr, "unknown device %s\n", name);
    exit(2);
}

static void parse_vulkan_tier(struct bench *bench, const char *name)
{
    if (vulkan_tier_parse(name, &bench->options.vulkan.tier_limit) == 0)
        return;
    fprintf(stderr, "unknown tier %s\n", name);
    exit(2);
}

static void parse_image(struct bench *bench, const char *text)
{
    char *end;
    bench->image.tiles = 1;
    bench->image.width = (uint32_t)strtoul(text, &end, 10);
    bench->image.height = *end == 'x' ? (uint32_t)strtoul(end + 1, NULL, 10) : 0;
}

/* The largest number of positions of a sequence in any of the measurements. */
static uint32_t longest_sequence(const struct bench *bench)
{
    uint32_t longest = bench->context + bench->decode_steps;
    if (bench->tokens.count + bench->decode_steps > longest)
        longest = bench->tokens.count + bench->decode_steps;
    for (uint32_t i = 0; i < bench->prompts.count; i++)
        if (bench->prompts.values[i] > longest)
            longest = bench->prompts.values[i];
    for (uint32_t i = 0; i < bench->beside.count; i++)
        if (bench->context + bench->beside.values[i] > longest)
            longest = bench->context + bench->beside.values[i];
    return longest < CONTEXT_MAX ? longest : CONTEXT_MAX;
}

/* Sequences of the largest batch. */
static uint32_t most_sequences(const struct bench *bench)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < bench->batches.count; i++)
        if (bench->batches.values[i] > most)
            most = bench->batches.values[i];
    must(most <= BATCH_MAX);
    return bench->beside.count > 0 && most < 2 ? 2 : most;
}

static void parse_options(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {{"model", required_argument, NULL, 'm'},
                                            {"vulkan-tier", required_argument, NULL, 'T'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"activation-bits", required_argument, NULL, 'a'},
                                            {"prompts", required_argument, NULL, 'p'},
                                            {"batches", required_argument, NULL, 'b'},
                                            {"beside", required_argument, NULL, 'w'},
                                            {"drafted", required_argument, NULL, 'D'},
                                            {"decode", required_argument, NULL, 'd'},
                                            {"context", required_argument, NULL, 'c'},
                                            {"repeat", required_argument, NULL, 'r'},
                                            {"tier", required_argument, NULL, 'i'},
                                            {"kv-cache-type", required_argument, NULL, 'v'},
                                            {"kv-bits", required_argument, NULL, 'q'},
                                            {"kv-key-bits", required_argument, NULL, 'y'},
                                            {"kv-value-bits", required_argument, NULL, 'l'},
                                            {"kv-quant-scheme", required_argument, NULL, 's'},
                                            {"tokens", required_argument, NULL, 'k'},
                                            {"cpu-time", no_argument, NULL, 'u'},
                                            {"device", required_argument, NULL, 'e'},
                                            {"perplexity", no_argument, NULL, 'x'},
                                            {"profile", no_argument, NULL, 'f'},
                                            {"step-depth", required_argument, NULL, 'h'},
                                            {"pipeline-cache", required_argument, NULL, 'o'},
                                            {"image", required_argument, NULL, 'g'},
                                            {"batch-invariant", no_argument, NULL, 'n'},
                                            {NULL, 0, NULL, 0}};
    bench->options.vulkan.tier_limit = VULKAN_TIER_HIGHEST;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'm': bench->model_path = optarg; break;
        case 't': bench->options.threads = (uint32_t)atoi(optarg); break;
        case 'a': bench->options.activation_bits = (uint32_t)atoi(optarg); break;
        case 'p': bench->prompts = parse_list(optarg); break;
        case 'b': bench->batches = parse_list(optarg); break;
        case 'w': bench->beside = parse_list(optarg); break;
        case 'D': bench->drafted = parse_list(optarg); break;
        case 'd': bench->decode_steps = (uint32_t)atoi(optarg); break;
        case 'c': bench->context = (uint32_t)atoi(optarg); break;
        case 'r': bench->repeat = (uint32_t)atoi(optarg); break;
        case 'i': bench->options.cpu_tier = parse_tier(optarg); break;
        case 'v': bench->options.kv_type = parse_kv_type(optarg); break;
        case 'q': bench->kv_request.half_bits = parse_half_bits(optarg); break;
        case 'y': bench->kv_request.key_half_bits = parse_half_bits(optarg); break;
        case 'l': bench->kv_request.value_half_bits = parse_half_bits(optarg); break;
        case 's': bench->kv_request.scheme = parse_scheme(optarg); break;
        case 'u': bench->cpu_time = true; break;
        case 'x': bench->perplexity = bench->options.keeps_logits = true; break;
        case 'e': parse_device(bench, optarg); break;
        case 'f': bench->options.profile = true; break;
        case 'h': bench->options.step_depth = (uint32_t)atoi(optarg); break;
        case 'o': bench->options.vulkan.pipeline_cache = optarg; break;
        case 'n': bench->options.vulkan.batch_invariant = true; break;
        case 'T': parse_vulkan_tier(bench, optarg); break;
        case 'g': parse_image(bench, optarg); break;
        case 'k': bench->tokens = parse_list(optarg); break;
        default: exit(2);
        }
    }
    if (!bench->model_path) {
        fprintf(stderr, "--model FILE is needed\n");
        exit(2);
    }
}

/* Sets the options for encoding bench->image; returns the tokens of a prompt with it. */
static uint32_t decide_image(struct bench *bench)
{
    const struct model_vision *vision = model_vision(bench->model);
    struct error_text error = {{0}};
    if (bench->image.tiles == 0)
        return 0;
    if (!vision || model_vision_check(vision, bench->image, &error) != RESULT_OK) {
        fprintf(stderr, "no such image: %s\n",
                vision ? error.text : model_no_vision_reason(bench->model));
        exit(1);
    }
    bench->options.vision = model_vision_plan(bench->model);
    bench->options.max_patch_rows = model_vision_patch_rows(vision, bench->image);
    bench->options.feature_rows = model_vision_feature_rows(vision, bench->image);
    return bench->options.feature_rows + IMAGE_WORDS;
}

/* Unless --tokens gives a text, decodes read a context of random rows. */
static void fill_kv_cache(struct bench *bench)
{
    struct error_text error;
    if (!bench->on_vulkan || bench->options.stage_count > 0 || bench->tokens.count != 0)
        return;
    if (vulkan_kv_noise_fill(vulkan_backend_program(bench->backend), bench->options.kv_blocks,
                             &error) == RESULT_OK)
        return;
    fprintf(stderr, "%s\n", error.text);
    exit(1);
}

static void load(struct bench *bench)
{
    struct error_text error = {{0}};
    double start = now_s(bench);
    struct kv_quantization quantization;
    if (model_open(bench->model_path, &bench->model, &error) != RESULT_OK ||
        kv_quantization_resolve(&bench->kv_request, &quantization, &error) != RESULT_OK ||
        model_quantize_kv(bench->model, &quantization, &error) != RESULT_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    uint32_t image_tokens = decide_image(bench), longest = longest_sequence(bench);
    longest = image_tokens > longest ? image_tokens : longest;
    uint32_t blocks = (longest + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    for (uint32_t g = 0; g < model_plan(bench->model)->kv.group_count; g++)
        bench->options.kv_blocks[g] = most_sequences(bench) * blocks;
    bench->options.state_slots = BATCH_MAX;
    bench->backend = bench->options.stage_count > 0 ? split_backend_create()
                     : bench->on_vulkan             ? vulkan_backend_create()
                                                    : cpu_backend_create();
    if (bench->backend->interface->load(bench->backend, model_plan(bench->model), &bench->options,
                                        NULL, NULL, &error) != RESULT_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    fill_kv_cache(bench);
    for (uint32_t s = 0; s < most_sequences(bench); s++)
        for (uint32_t b = 0; b < blocks; b++)
            bench->blocks[s][b] = s * blocks + b;
    char types[256];
    plan_weight_types(model_plan(bench->model), types, sizeof types);
    printf("%.2f bits a weight: %s\n", plan_weight_bits(model_plan(bench->model)), types);
    printf("%s, %s, %.1f MB packed, loaded in %.2f s\n", bench->model_path,
           bench->backend->interface->description(bench->backend),
           (double)bench->backend->interface->weights_bytes(bench->backend) * 1e-6,
           now_s(bench) - start);
}

static void launch(struct bench *bench, const struct step_batch *batch)
{
    struct error_text error;
    if (bench->backend->interface->step_launch(bench->backend, batch, &error) == RESULT_OK)
        return;
    fprintf(stderr, "%s\n", error.text);
    exit(1);
}

/* Begins one step: `sequences` sequences of `rows` rows each from `position`; draws the last row of
 * each when `draws`. */
static void launch_step(struct bench *bench, uint32_t sequences, uint32_t rows, uint32_t position,
                        const uint32_t *ids, bool draws)
{
    static struct step_sequence parts[BATCH_MAX];
    static struct row_sampling samplings[BATCH_MAX];
    static uint32_t logit_rows[BATCH_MAX];
    static struct sampling_params params;
    params = sampling_params_default();
    for (uint32_t s = 0; s < sequences; s++) {
        parts[s] = (struct step_sequence){.first_row = s * rows,
                                          .row_count = rows,
                                          .first_position = position,
                                          .state_slot = bench->first_sequence + s,
                                          .state_source = STATE_SLOT_NONE,
                                          .state_copy = STATE_SLOT_NONE};
        for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
            parts[s].block_tables[g] = bench->blocks[bench->first_sequence + s];
        logit_rows[s] = s * rows + rows - 1;
        samplings[s] = (struct row_sampling){.params = &params, .position = position + rows};
    }
    struct step_batch batch = {.row_count = sequences * rows,
                               .token_ids = ids,
                               .sequence_count = sequences,
                               .sequences = parts,
                               .logit_row_count = draws ? sequences : 0,
                               .logit_rows = logit_rows,
                               .samplings = samplings,
                               .feature_rows = bench->feature_rows};
    launch(bench, &batch);
}

static void wait_step(struct bench *bench, struct sampled_token *results)
{
    struct error_text error;
    if (bench->backend->interface->step_wait(bench->backend, results, &error) != RESULT_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

static void run_step(struct bench *bench, uint32_t sequences, uint32_t rows, uint32_t position,
                     const uint32_t *ids, bool draws, struct sampled_token *results)
{
    launch_step(bench, sequences, rows, position, ids, draws);
    wait_step(bench, results);
}

/* Ids that differ up to the size of the vocabulary. */
static uint32_t token_id(const struct bench *bench, uint32_t i)
{
    return (100 + i * 37 % 20000) % model_plan(bench->model)->config.vocab_tokens;
}

/* End of the warm-up, during which the device is kept busy. */
static double warm_end(const struct bench *bench)
{
    return bench->on_vulkan ? now_s(bench) + WARM_S : 0.0;
}

static void read_prompt(struct bench *bench, uint32_t tokens)
{
    static uint32_t ids[PROMPT_CHUNK];
    struct sampled_token result;
    for (uint32_t i = 0; i < PROMPT_CHUNK; i++)
        ids[i] = token_id(bench, i);
    const struct backend_interface *interface = bench->backend->interface;
    uint32_t depth = bench->options.stage_count > 0 ? interface->step_depth(bench->backend) : 1;
    uint32_t under_way = 0;
    for (uint32_t done = 0; done < tokens;) {
        uint32_t rows = tokens - done < PROMPT_CHUNK ? tokens - done : PROMPT_CHUNK;
        done += rows;
        launch_step(bench, 1, rows, done - rows, ids, done == tokens);
        if (++under_way < depth)
            continue;
        wait_step(bench, &result);
        under_way--;
    }
    for (; under_way > 0; under_way--)
        wait_step(bench, &result);
}

static void measure_prompt(struct bench *bench, uint32_t tokens)
{
    double best = 1e9;
    for (double end = warm_end(bench); now_s(bench) < end;)
        read_prompt(bench, tokens);
    for (uint32_t r = 0; r < bench->repeat; r++) {
        double start = now_s(bench);
        read_prompt(bench, tokens);
        double took = now_s(bench) - start;
        best = took < best ? took : best;
    }
    printf("prompt %5u         %9.1f tok/s\n", tokens, tokens / best);
}

/* --- images ----------------------------------------------------------------------------------- */

static void encode(struct bench *bench, const uint8_t *pixels)
{
    const struct encode_image image = {.shape = bench->image,
                                       .pixels = pixels,
                                       .scale = {1.0f / 128, 1.0f / 128, 1.0f / 128},
                                       .bias = {-1, -1, -1}};
    const struct backend_interface *interface = bench->backend->interface;
    struct error_text error;
    enum result result =
        interface->encode_begin(bench->backend, &(struct encode_batch){1, &image}, &error);
    uint64_t left;
    if (result == RESULT_OK)
        result = interface->encode_part(bench->backend, UINT64_MAX, &left, &error);
    if (result != RESULT_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

/* Runs a prompt of the image and IMAGE_WORDS tokens of text, in steps of PROMPT_CHUNK rows. */
static void read_image(struct bench *bench)
{
    static uint32_t ids[PROMPT_CHUNK], features[PROMPT_CHUNK];
    uint32_t shown = bench->options.feature_rows, tokens = shown + IMAGE_WORDS;
    struct sampled_token result;
    for (uint32_t done = 0; done < tokens;) {
        uint32_t rows = tokens - done < PROMPT_CHUNK ? tokens - done : PROMPT_CHUNK;
        for (uint32_t i = 0; i < rows; i++) {
            ids[i] = token_id(bench, i);
            features[i] = done + i < shown ? done + i : ROW_FEATURE_NONE;
        }
        bench->feature_rows = features;
        run_step(bench, 1, rows, done, ids, done + rows == tokens, &result);
        bench->feature_rows = NULL;
        done += rows;
    }
}

/* Times an encoding together with a step after it, which waits for it, and subtracts the time of the
 * step alone. */
static void measure_image(struct bench *bench)
{
    uint32_t pixel_bytes = bench->image.width * bench->image.height * 3;
    uint8_t *pixels = must_alloc(pixel_bytes, 1);
    uint32_t id = token_id(bench, 0);
    struct sampled_token result;
    double encoded = 1e9, answered = 1e9;
    for (uint32_t i = 0; i < pixel_bytes; i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    for (double end = warm_end(bench); now_s(bench) < end;) {
        encode(bench, pixels);
        run_step(bench, 1, 1, 0, &id, true, &result);
    }
    for (uint32_t r = 0; r < bench->repeat; r++) {
        double start = now_s(bench);
        encode(bench, pixels);
        run_step(bench, 1, 1, 0, &id, true, &result);
        double both = now_s(bench);
        run_step(bench, 1, 1, 0, &id, true, &result);
        double alone = now_s(bench) - both;
        encoded = both - start - alone < encoded ? both - start - alone : encoded;
        start = now_s(bench);
        encode(bench, pixels);
        read_image(bench);
        answered = now_s(bench) - start < answered ? now_s(bench) - start : answered;
    }
    printf("image %ux%u    encoded in %.1f ms (%u patches, %u features), first token after %u "
           "words in %.1f ms\n",
           bench->image.width, bench->image.height, encoded * 1e3, bench->options.max_patch_rows,
           bench->options.feature_rows, IMAGE_WORDS, answered * 1e3);
    free(pixels);
}

/* The number of different tokens of a step. Rows of the same token and past choose the same experts,
 * so a step of them reads fewer. */
static uint32_t count_distinct(const struct sampled_token *results, uint32_t count)
{
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = 0;
        while (results[before].token != results[i].token)
            before++;
        distinct += before == i;
    }
    return distinct;
}

/* Launches a step ahead if the backend can: each step takes the tokens that the previous one draws.
 * Returns the number of different tokens of the last step. */
static uint32_t decode(struct bench *bench, uint32_t sequences)
{
    struct sampled_token results[BATCH_MAX];
    uint32_t ids[BATCH_MAX];
    bool ahead = bench->backend->interface->step_depth(bench->backend) > 1;
    for (uint32_t s = 0; s < sequences; s++)
        ids[s] = token_id(bench, s);
    launch_step(bench, sequences, 1, bench->context, ids, true);
    for (uint32_t i = 1; i < bench->decode_steps; i++) {
        if (!ahead)
            wait_step(bench, results);
        for (uint32_t s = 0; s < sequences; s++)
            ids[s] = ahead ? STEP_TOKEN_SAMPLED | s : results[s].token;
        launch_step(bench, sequences, 1, bench->context + i, ids, true);
        if (ahead)
            wait_step(bench, results);
    }
    wait_step(bench, results);
    return count_distinct(results, sequences);
}

/* Two halves of the sequences alternate, as the scheduler has them where several devices share the layers:
 * the step of one is launched before that of the other is waited for. */
static uint32_t decode_halves(struct bench *bench, uint32_t sequences)
{
    struct sampled_token results[2][BATCH_MAX];
    uint32_t ids[BATCH_MAX];
    const uint32_t first[2] = {0, sequences / 2};
    const uint32_t count[2] = {sequences / 2, sequences - sequences / 2};
    for (uint32_t step = 0; step < 2 * bench->decode_steps; step++) {
        uint32_t half = step % 2, round = step / 2;
        if (round > 0)
            wait_step(bench, results[half]);
        for (uint32_t s = 0; s < count[half]; s++)
            ids[s] = round > 0 ? results[half][s].token : token_id(bench, first[half] + s);
        bench->first_sequence = first[half];
        launch_step(bench, count[half], 1, bench->context + round, ids, true);
    }
    bench->first_sequence = 0;
    wait_step(bench, results[0]);
    wait_step(bench, results[1]);
    return count_distinct(results[0], count[0]) + count_distinct(results[1], count[1]);
}

static void measure_decode(struct bench *bench, uint32_t sequences)
{
    double best = 1e9;
    uint32_t distinct = 0;
    for (uint32_t r = 0; r < bench->repeat; r++) {
        double start = now_s(bench);
        distinct = bench->options.stage_count > 0 && sequences > 1 ? decode_halves(bench, sequences)
                                                                   : decode(bench, sequences);
        double took = now_s(bench) - start;
        best = took < best ? took : best;
    }
    printf("decode batch %3u    %9.1f tok/s   %.3f ms a step (context %u, %u different tokens)\n",
           sequences, sequences * bench->decode_steps / best, best * 1e3 / bench->decode_steps,
           bench->context, distinct);
}

/* A step in which the first sequence decodes at `position` and the second one has `rows` rows from
 * bench->context; draws a token only for the first one. */
static void launch_beside(struct bench *bench, uint32_t rows, uint32_t position, uint32_t id)
{
    static uint32_t ids[PROMPT_CHUNK];
    static struct sampling_params params;
    params = sampling_params_default();
    const struct row_sampling sampling = {.params = &params, .position = position + 1};
    const uint32_t logit_row = 0;
    struct step_sequence parts[2] = {{.row_count = 1,
                                      .first_position = position,
                                      .state_source = STATE_SLOT_NONE,
                                      .state_copy = STATE_SLOT_NONE},
                                     {.first_row = 1,
                                      .row_count = rows,
                                      .first_position = bench->context,
                                      .state_slot = 1,
                                      .state_source = STATE_SLOT_NONE,
                                      .state_copy = STATE_SLOT_NONE}};
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
            parts[s].block_tables[g] = bench->blocks[s];
    ids[0] = id;
    for (uint32_t i = 0; i < rows; i++)
        ids[1 + i] = token_id(bench, i);
    const struct step_batch batch = {.row_count = 1 + rows,
                                     .token_ids = ids,
                                     .sequence_count = 2,
                                     .sequences = parts,
                                     .logit_row_count = 1,
                                     .logit_rows = &logit_row,
                                     .samplings = &sampling};
    launch(bench, &batch);
}

static void measure_beside(struct bench *bench, uint32_t rows)
{
    struct sampled_token result = {.token = token_id(bench, 0)};
    bool ahead = bench->backend->interface->step_depth(bench->backend) > 1;
    double best = 1e9;
    must(rows < PROMPT_CHUNK);
    for (uint32_t r = 0; r < bench->repeat; r++) {
        double start = now_s(bench);
        launch_beside(bench, rows, bench->context, result.token);
        for (uint32_t i = 1; i < bench->decode_steps; i++) {
            if (!ahead)
                wait_step(bench, &result);
            launch_beside(bench, rows, bench->context + i,
                          ahead ? STEP_TOKEN_SAMPLED : result.token);
            if (ahead)
                wait_step(bench, &result);
        }
        wait_step(bench, &result);
        double took = now_s(bench) - start;
        best = took < best ? took : best;
    }
    printf("beside %5u rows of a prompt  %.3f ms a step (context %u)\n", rows,
           best * 1e3 / bench->decode_steps, bench->context);
}

/* Steps as speculative decoding runs them: `rows` rows of one sequence, each with a draw. */
static void measure_drafted(struct bench *bench, uint32_t rows)
{
    uint32_t ids[BATCH_MAX], logit_rows[BATCH_MAX];
    struct row_sampling samplings[BATCH_MAX];
    struct sampled_token results[BATCH_MAX];
    struct sampling_params params = sampling_params_default();
    struct step_sequence part = {
        .row_count = rows, .state_source = STATE_SLOT_NONE, .state_copy = STATE_SLOT_NONE};
    must(rows > 0 && rows <= BATCH_MAX);
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
        part.block_tables[g] = bench->blocks[0];
    for (uint32_t i = 0; i < rows; i++) {
        ids[i] = token_id(bench, i);
        logit_rows[i] = i;
    }
    const struct step_batch batch = {.row_count = rows,
                                     .token_ids = ids,
                                     .sequence_count = 1,
                                     .sequences = &part,
                                     .logit_row_count = rows,
                                     .logit_rows = logit_rows,
                                     .samplings = samplings};
    double best = 1e9;
    for (uint32_t r = 0; r < bench->repeat; r++) {
        double start = now_s(bench);
        for (uint32_t step = 0; step < bench->decode_steps; step++) {
            part.first_position = bench->context + step;
            for (uint32_t i = 0; i < rows; i++)
                samplings[i] = (struct row_sampling){.params = &params,
                                                     .position = part.first_position + i + 1};
            launch(bench, &batch);
            wait_step(bench, results);
        }
        double took = now_s(bench) - start;
        best = took < best ? took : best;
    }
    printf("drafted rows %3u   %.3f ms a step\n", rows, best * 1e3 / bench->decode_steps);
}

static void print_resident(void)
{
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "Rss", 3) == 0 || strncmp(line, "VmHWM", 5) == 0 ||
            strncmp(line, "VmRSS", 5) == 0)
            fputs(line, stdout);
    if (status)
        fclose(status);
}

static void print_continuation(struct bench *bench)
{
    struct sampled_token result;
    uint32_t count = bench->tokens.count;
    run_step(bench, 1, count, 0, bench->tokens.values, true, &result);
    for (uint32_t i = 0; i < bench->decode_steps; i++) {
        printf("%u ", result.token);
        run_step(bench, 1, 1, count + i, &result.token, true, &result);
    }
    printf("\n");
}

/* ln of the probability that `logits` give to `token`. */
static double log_probability(const float *logits, uint32_t vocab, uint32_t token)
{
    double highest = (double)logits[0];
    double sum = 0.0;
    for (uint32_t t = 1; t < vocab; t++)
        highest = fmax(highest, (double)logits[t]);
    for (uint32_t t = 0; t < vocab; t++)
        sum += exp((double)logits[t] - highest);
    return (double)logits[token] - highest - log(sum);
}

static void print_perplexity(struct bench *bench)
{
    const struct sampling_params greedy = sampling_params_default();
    struct row_sampling samplings[SCORED_ROWS];
    struct sampled_token results[SCORED_ROWS];
    uint32_t rows[SCORED_ROWS];
    struct error_text error;
    uint32_t vocab = model_plan(bench->model)->config.vocab_tokens;
    uint32_t end = bench->tokens.count - 1; /* nothing follows the last one */
    double sum = 0.0;
    for (uint32_t i = 0; i < SCORED_ROWS; i++) {
        rows[i] = i;
        samplings[i] = (struct row_sampling){.params = &greedy};
    }
    for (uint32_t from = 0; from < end; from += SCORED_ROWS) {
        uint32_t count = end - from < SCORED_ROWS ? end - from : SCORED_ROWS;
        struct step_sequence part = {.row_count = count,
                                     .first_position = from,
                                     .state_source = STATE_SLOT_NONE,
                                     .state_copy = STATE_SLOT_NONE};
        for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
            part.block_tables[g] = bench->blocks[0];
        struct step_batch batch = {.row_count = count,
                                   .token_ids = bench->tokens.values + from,
                                   .sequence_count = 1,
                                   .sequences = &part,
                                   .logit_row_count = count,
                                   .logit_rows = rows,
                                   .samplings = samplings};
        if (backend_step_run(bench->backend, &batch, results, &error) != RESULT_OK) {
            fprintf(stderr, "%s\n", error.text);
            exit(1);
        }
        const float *logits = bench->backend->interface->last_logits(bench->backend);
        for (uint32_t i = 0; i < count; i++)
            sum += log_probability(logits + (size_t)i * vocab, vocab,
                                   bench->tokens.values[from + i + 1]);
    }
    printf("perplexity %.5f of %u tokens\n", exp(-sum / end), end);
}

int main(int argc, char **argv)
{
    static struct bench bench = {.decode_steps = 64,
                                 .context = 128,
                                 .repeat = 3,
                                 .prompts = {2, {128, 512}},
                                 .batches = {3, {1, 4, 8}},
                                 .options = {.max_step_rows = PROMPT_CHUNK,
                                             .max_logit_rows = BATCH_MAX,
                                             .drop_source_pages = true}};
    parse_options(&bench, argc, argv);
    load(&bench);
    if (bench.perplexity && bench.tokens.count > 1) {
        print_perplexity(&bench);
    } else if (bench.tokens.count > 0) {
        print_continuation(&bench);
    } else {
        if (bench.image.tiles > 0)
            measure_image(&bench);
        for (uint32_t i = 0; i < bench.prompts.count; i++)
            measure_prompt(&bench, bench.prompts.values[i]);
        for (uint32_t i = 0; i < bench.batches.count; i++)
            measure_decode(&bench, bench.batches.values[i]);
        for (uint32_t i = 0; i < bench.beside.count; i++)
            measure_beside(&bench, bench.beside.values[i]);
        for (uint32_t i = 0; i < bench.drafted.count; i++)
            measure_drafted(&bench, bench.drafted.values[i]);
    }
    print_resident();
    fflush(stdout);
    bench.backend->interface->destroy(bench.backend);
    model_close(bench.model);
    return 0;
}
