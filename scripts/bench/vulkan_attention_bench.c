/*
 * Measures attention and what happens to heads before it, by shape and by tuning, outside any
 * model.
 *
 * Each line of the case file is one variant; it is run as a chain of dispatches with barriers
 * between them, as the layers of a step, each on a cache of its own where the pool allows.
 * Printed are the microseconds of one dispatch, the bytes of keys and values per second that they
 * come to, and for rows of prompts the products per second that causal attention needs.
 *
 *     name what head_dim heads kv_heads window sequences rows context | N=value ...
 *
 * `what`: decode, fused (rotating and writing too), prompt (rows at the end of the context, as
 * tiles), heads (rope_kv_write alone), uniform:K:V and turboquant:K:V (over codes, K and V bits of
 * keys and values: decodes, or with several rows a prompt), heads:uniform:K:V and
 * heads:turboquant:K:V (rope_kv_write of codes). N is a specialization constant (vulkan_push.h) set
 * to something else than the policy's choice; x=value and y=value set the grid, t=value the rows of
 * a tile, b=value how many different blocks there are (few: from cache), r=1 that no lane's
 * registers are known, m=1 that there are no matrix units, n=value the dispatches of the chain
 * where they take long. It checks no results (tests/vulkan does).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/kv_quantization.h"
#include "proto/must.h"
#include "tests/support/kv_noise.h"
#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/backend/vulkan/device/vulkan_register_probe.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/backend/vulkan/weights/vulkan_kv_tables.h"
#include "worker/plan/kv_codec.h"
#include "worker/plan/kv_layout.h"

#define REPEATS     15u
#define CHAIN       32u
#define WARM_UP_MS  20.0
#define CASES_MAX   512u
#define STAGE_BYTES (64ull << 20)
#define CODES_SIDES 2048u         /* blocks of a head that differ; the cache repeats them */
#define CODES_PLACE (32ull << 20) /* in the stage */
#define TURNS_PLACE (60ull << 20) /* likewise, of levels and rotations */
#define WORK_BYTES  (512ull << 20)

struct bench_case {
    char name[32], what[32], changes[160];
    struct kv_quantization quantization; /* of codes */
    uint32_t head_dim, heads, kv_heads, window, sequences, rows, context;
};

struct bench {
    struct vulkan_device *device;
    struct vulkan_kernels *kernels;
    struct vulkan_commands *commands;
    struct vulkan_buffer stage, cache, work;
    struct kv_quantization made; /* whose codes lie in the stage */
    uint32_t made_dim;
};

/* One case made ready. */
struct bench_run {
    const struct vulkan_kernel *kernel;
    struct vulkan_grid grid;
    struct vulkan_attention_rows_push attention;
    struct vulkan_rope_kv_write_push heads;
    bool heads_only;
    uint64_t key_bytes, value_bytes; /* of a layer's regions */
    uint64_t copies;
    uint32_t chain; /* dispatches that are timed, behind one that is not */
    double bytes, products;
};

static void check(enum result result, const struct error_text *error)
{
    if (result == RESULT_OK)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void run_once(struct bench *bench)
{
    struct error_text error;
    check(vulkan_commands_run(bench->commands, &error), &error);
}

static struct vulkan_attention_shape shape_of(const struct bench_case *c)
{
    return (struct vulkan_attention_shape){
        .head_dim = c->head_dim,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .window = c->window,
        .stride = (c->heads + 2 * c->kv_heads) * c->head_dim,
        .key_offset = c->heads * c->head_dim,
        .value_offset = (c->heads + c->kv_heads) * c->head_dim,
        .scale = 1.0f / sqrtf((float)c->head_dim),
        .rope_dims = c->head_dim,
        .magnitude = 1.0f,
        .codes = {.scheme = c->quantization.scheme,
                  .key_half_bits = c->quantization.key_half_bits,
                  .value_half_bits = c->quantization.value_half_bits,
                  .group_dims = kv_codec_group_size(&c->quantization, c->head_dim)},
    };
}

/* The value of `key` among the changes, or 0. */
static uint32_t find_change(const char *changes, const char *key)
{
    const char *at = strstr(changes, key);
    return at ? (uint32_t)strtoul(at + strlen(key), NULL, 10) : 0;
}

/* Sequences, rows, tiles, tables and frequencies, in the stage buffer; returns the tiles. */
struct step_places {
    uint64_t rows, sequences, tiles, tables, frequencies;
    uint32_t tile_count;
};

static struct step_places fill_step(struct bench *bench, const struct bench_case *c,
                                    uint32_t tile_rows)
{
    uint32_t each = (c->context + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    uint32_t rows = c->sequences * c->rows, blocks = each * c->sequences;
    struct vulkan_step_row *step_rows = bench->stage.mapped;
    struct vulkan_step_sequence *sequences = (struct vulkan_step_sequence *)(step_rows + rows);
    struct vulkan_step_tile *tiles = (struct vulkan_step_tile *)(sequences + c->sequences);
    struct step_places places = {.tile_count = 0};
    for (uint32_t s = 0; s < c->sequences; s++) {
        uint32_t first = c->context - c->rows;
        sequences[s] = (struct vulkan_step_sequence){s * c->rows, c->rows, first, 0, {s * each}};
        for (uint32_t r = 0; r < c->rows; r++)
            step_rows[s * c->rows + r] =
                (struct vulkan_step_row){.position = first + r, .sequence = s};
        for (uint32_t r = 0; r < c->rows; r += tile_rows) /* the longest first */
            tiles[places.tile_count++] =
                (struct vulkan_step_tile){s, s * c->rows + r, 0, first + r};
    }
    for (uint32_t i = 0; i < places.tile_count; i++) {
        uint32_t left = c->rows - (tiles[i].first_row - tiles[i].sequence * c->rows);
        tiles[i].row_count = left < tile_rows ? left : tile_rows;
    }
    for (uint32_t i = 0; i < places.tile_count / 2; i++) {
        struct vulkan_step_tile held = tiles[i];
        tiles[i] = tiles[places.tile_count - 1 - i];
        tiles[places.tile_count - 1 - i] = held;
    }
    uint32_t *tables = (uint32_t *)(tiles + places.tile_count);
    uint32_t different = find_change(c->changes, " b=");
    for (uint32_t i = 0; i < blocks; i++) /* scattered: an odd step goes through all */
        tables[i] = (uint32_t)((uint64_t)i * (2 * (blocks / 3) + 1) % blocks) %
                    (different > 0 ? different : blocks);
    float *frequencies = (float *)(tables + (blocks + 3) / 4 * 4);
    for (uint32_t i = 0; i < c->head_dim / 2; i++)
        frequencies[i] = powf(10000.0f, -2.0f * (float)i / (float)c->head_dim);
    must((uint8_t *)(frequencies + c->head_dim) <= (uint8_t *)bench->stage.mapped + STAGE_BYTES);
    places.rows = bench->stage.address;
    places.sequences = places.rows + (uint64_t)((uint8_t *)sequences - (uint8_t *)step_rows);
    places.tiles = places.rows + (uint64_t)((uint8_t *)tiles - (uint8_t *)step_rows);
    places.tables = places.rows + (uint64_t)((uint8_t *)tables - (uint8_t *)step_rows);
    places.frequencies = places.rows + (uint64_t)((uint8_t *)frequencies - (uint8_t *)step_rows);
    return places;
}

/* "12=1 y=4": constants, and the grid. */
static void apply_changes(const char *changes, struct vulkan_specialization *specialization,
                          struct vulkan_grid *grid)
{
    char key[8];
    unsigned value;
    int used;
    while (sscanf(changes, " %7[^=]=%u%n", key, &value, &used) == 2) {
        if (strcmp(key, "y") == 0)
            grid->y = value;
        else if (strcmp(key, "x") == 0)
            grid->x = value;
        else if (key[0] >= '0' && key[0] <= '9' && strtoul(key, NULL, 10) < specialization->count)
            specialization->values[strtoul(key, NULL, 10)] = value;
        changes += used;
    }
}

static void make_heads(struct bench *bench, const struct bench_case *c, struct bench_run *run)
{
    struct vulkan_attention_shape shape = shape_of(c);
    struct step_places places = fill_step(bench, c, 1);
    struct vulkan_heads_task task = {.parts = VULKAN_HEADS_ROPE | VULKAN_HEADS_WRITE,
                                     .rows = c->sequences * c->rows,
                                     .head_dim = c->head_dim,
                                     .heads = c->heads,
                                     .kv_heads = c->kv_heads,
                                     .rope_dims = c->head_dim,
                                     .codes = shape.codes};
    struct vulkan_heads_choice choice = vulkan_attention_policy_heads(&bench->device->facts, &task);
    struct error_text error;
    run->heads_only = true;
    run->heads =
        (struct vulkan_rope_kv_write_push){.qkv = bench->work.address,
                                           .queries_f16 = bench->work.address + WORK_BYTES / 2,
                                           .frequencies = places.frequencies,
                                           .rows = places.rows,
                                           .sequences = places.sequences,
                                           .tables = places.tables,
                                           .stride = shape.stride,
                                           .key_offset = shape.key_offset,
                                           .value_offset = shape.value_offset,
                                           .magnitude = 1.0f,
                                           .codec = bench->stage.address + TURNS_PLACE};
    apply_changes(c->changes, &choice.specialization, &choice.grid);
    run->grid = choice.grid;
    run->bytes = (double)task.rows *
                 (shape.stride * 4 + c->heads * c->head_dim * 4 + c->kv_heads * c->head_dim * 4);
    check(vulkan_kernels_get(bench->kernels, choice.shader, &choice.specialization, &run->kernel,
                             &error),
          &error);
}

static void make_attention(struct bench *bench, const struct bench_case *c, struct bench_run *run)
{
    struct vulkan_facts known = bench->device->facts;
    const struct vulkan_facts *facts = &known;
    known.matrix_registers = known.matrix_registers && find_change(c->changes, " r=") == 0;
    if (find_change(c->changes, " m=") > 0)
        known.tier = VULKAN_DOT;
    bool codes = c->quantization.scheme != KV_QUANT_NONE;
    struct vulkan_attention_task task = {.shape = shape_of(c),
                                         .tiles = strcmp(c->what, "prompt") == 0 ||
                                                  (codes && c->rows > 1),
                                         .items = c->sequences,
                                         .forms = VULKAN_FORM_F32,
                                         .fuse = strcmp(c->what, "fused") == 0};
    uint32_t tile_rows = find_change(c->changes, " t=");
    struct step_places places = fill_step(
        bench, c,
        tile_rows > 0 ? tile_rows : vulkan_attention_policy_tile_rows(facts, &task.shape));
    struct error_text error;
    if (task.tiles)
        task.items = places.tile_count;
    else
        task.reach = vulkan_attention_policy_reach(c->context);
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(facts, &task);
    apply_changes(c->changes, &choice.specialization, &choice.grid);
    uint64_t out = bench->work.address + WORK_BYTES / 4;
    run->attention = (struct vulkan_attention_rows_push){
        .qkv = bench->work.address,
        .items = places.tiles,
        .sequences = places.sequences,
        .tables = places.tables,
        .counters = bench->work.address + WORK_BYTES * 3 / 4,
        .partials = bench->work.address + WORK_BYTES / 2,
        .outputs = {out, out + WORK_BYTES / 16, out + WORK_BYTES / 8, out + WORK_BYTES / 5},
        .frequencies = c->quantization.scheme == KV_QUANT_TURBOQUANT
                           ? bench->stage.address + TURNS_PLACE
                           : places.frequencies,
        .query_norm = places.frequencies,
        .key_norm = places.frequencies,
        .epsilon = 1e-5f};
    run->grid = choice.grid;
    uint64_t seen = c->window > 0 && c->window < c->context ? c->window : c->context;
    run->bytes = 4.0 * (double)(c->sequences * seen * c->kv_heads * c->head_dim);
    if (codes)
        run->bytes = (double)(c->sequences * seen * c->kv_heads) / KV_BLOCK_TOKENS *
                     kv_codec_head_bytes(&c->quantization, c->head_dim);
    run->products = 4.0 * c->sequences * c->rows * c->heads * c->head_dim *
                    ((double)seen - (c->window > 0 ? 0.0 : c->rows / 2.0));
    check(vulkan_kernels_get(bench->kernels, choice.shader, &choice.specialization, &run->kernel,
                             &error),
          &error);
}

/* Random rows of one side, CODES_SIDES blocks, from byte `at` of the stage on. */
static void make_codes(struct bench *bench, const struct kv_side *side, enum kv_noise_stream stream,
                       uint64_t at)
{
    must(at + (uint64_t)CODES_SIDES * side->bytes <= TURNS_PLACE);
    kv_noise_codes(side, stream, CODES_SIDES, (uint8_t *)bench->stage.mapped + at);
}

/* Those over and over into the cache. */
static void copy_codes(struct bench *bench, const struct kv_side *side, uint64_t at,
                       uint64_t target, uint64_t bytes)
{
    uint64_t whole = (uint64_t)CODES_SIDES * side->bytes;
    for (uint64_t done = 0; done < bytes; done += whole)
        vulkan_commands_copy(bench->commands, &bench->stage, at, &bench->cache, target + done,
                             bytes - done < whole ? bytes - done : whole);
}

/* Codes of every layer; they are made anew only where the case before had others. */
static void fill_codes(struct bench *bench, const struct bench_case *c, const struct bench_run *run)
{
    struct error_text error;
    struct kv_codec codec;
    kv_codec_init(&codec, &c->quantization, c->head_dim);
    uint64_t values = CODES_PLACE + (uint64_t)CODES_SIDES * codec.key.bytes;
    if (codec.key.rotated) {
        must(TURNS_PLACE + vulkan_kv_tables_bytes(c->head_dim) <= STAGE_BYTES);
        vulkan_kv_tables_fill((void *)((uint8_t *)bench->stage.mapped + TURNS_PLACE), &codec);
    }
    if (memcmp(&bench->made, &c->quantization, sizeof bench->made) != 0 ||
        bench->made_dim != c->head_dim) {
        make_codes(bench, &codec.key, KV_NOISE_KEYS, CODES_PLACE);
        make_codes(bench, &codec.value, KV_NOISE_VALUES, values);
        bench->made = c->quantization;
        bench->made_dim = c->head_dim;
    }
    check(vulkan_commands_begin(bench->commands, &error), &error);
    for (uint64_t i = 0; i < run->copies && i <= run->chain; i++) {
        uint64_t at = i * (run->key_bytes + run->value_bytes);
        copy_codes(bench, &codec.key, CODES_PLACE, at, run->key_bytes);
        copy_codes(bench, &codec.value, values, at + run->key_bytes, run->value_bytes);
    }
    check(vulkan_commands_end(bench->commands, &error), &error);
    run_once(bench);
    kv_codec_fini(&codec);
}

static void record_chain(struct bench *bench, struct bench_run *run)
{
    struct error_text error;
    check(vulkan_commands_begin(bench->commands, &error), &error);
    for (uint32_t i = 0; i <= run->chain; i++) {
        uint64_t keys =
            bench->cache.address + i % run->copies * (run->key_bytes + run->value_bytes);
        run->attention.keys = run->heads.keys = keys;
        run->attention.values = run->heads.values = keys + run->key_bytes;
        if (i == 1)
            vulkan_commands_timestamp(bench->commands, 0);
        if (run->heads_only)
            vulkan_commands_dispatch(bench->commands, run->kernel, &run->heads, sizeof run->heads,
                                     run->grid);
        else
            vulkan_commands_dispatch(bench->commands, run->kernel, &run->attention,
                                     sizeof run->attention, run->grid);
        vulkan_commands_barrier(bench->commands);
    }
    vulkan_commands_timestamp(bench->commands, 1);
    check(vulkan_commands_end(bench->commands, &error), &error);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct bench_run make_run(struct bench *bench, const struct bench_case *c)
{
    uint32_t chain = find_change(c->changes, " n=");
    struct bench_run run = {.chain = chain > 0 ? chain : CHAIN};
    if (strncmp(c->what, "heads", strlen("heads")) == 0)
        make_heads(bench, c, &run);
    else
        make_attention(bench, c, &run);
    return run;
}

static void run_case(struct bench *bench, const struct bench_case *c)
{
    struct bench_run run = make_run(bench, c);
    double ns[REPEATS];
    uint64_t blocks =
        (uint64_t)c->sequences * ((c->context + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS);
    run.key_bytes = run.value_bytes = blocks * KV_BLOCK_TOKENS * c->kv_heads * c->head_dim * 2;
    if (c->quantization.scheme != KV_QUANT_NONE) {
        run.key_bytes = blocks * c->kv_heads * kv_codec_key_bytes(&c->quantization, c->head_dim);
        run.value_bytes =
            blocks * c->kv_heads * kv_codec_value_bytes(&c->quantization, c->head_dim);
    }
    run.copies = bench->cache.bytes / (run.key_bytes + run.value_bytes);
    if (run.copies == 0) {
        printf("%-12s needs a larger pool\n", c->name);
        return;
    }
    if (c->quantization.scheme != KV_QUANT_NONE)
        fill_codes(bench, c, &run);
    record_chain(bench, &run);
    /* An idle device clocks down. */
    for (double ms = 0; ms < WARM_UP_MS;
         ms += vulkan_commands_elapsed_ns(bench->commands, 0, 1) / 1e6)
        run_once(bench);
    for (uint32_t i = 0; i < REPEATS; i++) {
        run_once(bench);
        ns[i] = vulkan_commands_elapsed_ns(bench->commands, 0, 1) / run.chain;
    }
    qsort(ns, REPEATS, sizeof *ns, compare_doubles);
    double middle = ns[REPEATS / 2];
    printf("%-10s %-6s d%u h%u/%u w%u s%u r%u c%u |%s: %.2f us %.0f GB/s", c->name, c->what,
           c->head_dim, c->heads, c->kv_heads, c->window, c->sequences, c->rows, c->context,
           c->changes, middle / 1e3, run.bytes / middle);
    if (c->rows > 1 && !run.heads_only)
        printf(" %.1f TFLOP/s", run.products / middle / 1e3);
    printf("\n");
    fflush(stdout);
}

/* Small numbers everywhere (f32 and f16 alike), counters 0. */
static void open_bench(struct bench *bench, uint32_t device, uint64_t pool_bytes)
{
    struct error_text error;
    const struct vulkan_device_options options = {.index = device,
                                                  .tier_limit = VULKAN_TIER_HIGHEST};
    check(vulkan_device_open(&options, &bench->device, &error), &error);
    check(vulkan_kernels_create(bench->device, NULL, &bench->kernels, &error), &error);
    bench->device->facts.matrix_registers = vulkan_register_probe(bench->device, bench->kernels);
    check(vulkan_commands_create(bench->device, VULKAN_QUEUE_COMPUTE, 2, &bench->commands, &error),
          &error);
    check(vulkan_buffer_create(bench->device, VULKAN_UPLOAD, STAGE_BYTES, "stage", &bench->stage,
                               &error),
          &error);
    check(vulkan_buffer_create(bench->device, VULKAN_DEVICE, pool_bytes, "cache", &bench->cache,
                               &error),
          &error);
    check(vulkan_buffer_create(bench->device, VULKAN_DEVICE, WORK_BYTES, "work", &bench->work,
                               &error),
          &error);
    check(vulkan_commands_begin(bench->commands, &error), &error);
    vulkan_commands_fill(bench->commands, &bench->cache, 0, pool_bytes, 0x30003400);
    vulkan_commands_fill(bench->commands, &bench->work, 0, WORK_BYTES * 3 / 4, 0x3C003C00);
    vulkan_commands_fill(bench->commands, &bench->work, WORK_BYTES * 3 / 4, WORK_BYTES / 4, 0);
    check(vulkan_commands_end(bench->commands, &error), &error);
    run_once(bench);
}

static void close_bench(struct bench *bench)
{
    vulkan_commands_destroy(bench->commands);
    vulkan_kernels_destroy(bench->kernels);
    vulkan_buffer_destroy(bench->device, &bench->stage);
    vulkan_buffer_destroy(bench->device, &bench->cache);
    vulkan_buffer_destroy(bench->device, &bench->work);
    vulkan_device_close(bench->device);
}

/* "uniform:8:8", "turboquant:3.5:4"; "heads:" may stand before it */
static bool read_codes(const char *what, struct kv_quantization *quantization)
{
    char scheme[16], key_bits[4], value_bits[4];
    what += strncmp(what, "heads:", strlen("heads:")) == 0 ? strlen("heads:") : 0;
    return sscanf(what, "%15[^:]:%3[^:]:%3s", scheme, key_bits, value_bits) == 3 &&
           kv_quant_scheme_parse(scheme, &quantization->scheme) == 0 &&
           kv_half_bits_parse(key_bits, &quantization->key_half_bits) == 0 &&
           kv_half_bits_parse(value_bits, &quantization->value_half_bits) == 0;
}

static bool read_case(char *line, struct bench_case *c)
{
    memset(c, 0, sizeof *c);
    char *changes = strchr(line, '|');
    line[strcspn(line, "\n")] = '\0';
    if (changes)
        snprintf(c->changes, sizeof c->changes, "%s", changes + 1);
    return sscanf(line, "%31s %31s %u %u %u %u %u %u %u", c->name, c->what, &c->head_dim, &c->heads,
                  &c->kv_heads, &c->window, &c->sequences, &c->rows, &c->context) == 9 &&
           (!strchr(c->what, ':') || read_codes(c->what, &c->quantization));
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    struct bench_case *list = must_alloc(CASES_MAX, sizeof *list);
    uint32_t count = 0;
    char line[256];
    if (argc < 3) {
        fprintf(stderr, "usage: %s CASES POOL_MB [DEVICE]\n", argv[0]);
        return 1;
    }
    FILE *cases = fopen(argv[1], "r");
    must(cases);
    open_bench(&bench, argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
               strtoull(argv[2], NULL, 10) << 20);
    while (count < CASES_MAX && fgets(line, sizeof line, cases))
        if (line[0] != '#')
            count += read_case(line, &list[count]);
    for (uint32_t i = 0; i < count; i++) /* no pauses to compile in, which clock a device down */
        (void)make_run(&bench, &list[i]);
    for (uint32_t i = 0; i < count; i++)
        run_case(&bench, &list[i]);
    free(list);
    fclose(cases);
    close_bench(&bench);
    return 0;
}
