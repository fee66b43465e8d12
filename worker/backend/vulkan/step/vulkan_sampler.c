/*
 * The host's side of sampling: parameters into records, one to five dispatches, results out.
 *
 * A record has all parameters of its row, so a step may mix any kinds of rows. Biases, uploaded
 * counts and masks follow each other in one buffer of pairs, which grows on demand. The device needs each
 * biased token once, so biases of the same token, which a request may repeat, are added up here.
 *
 * Logarithms of log-probabilities are taken here, in double, from the sum that the device gives.
 * They are of the logits as the model gives them, so the device copies rows before biases or
 * penalties change them: into a buffer of each slot, which grows on demand.
 *
 * Nothing but memory is kept between steps: each step fills its slot anew.
 */
#include "worker/backend/vulkan/step/vulkan_sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/step/vulkan_host_draws.h"
#include "worker/sample/fixed_weight.h"
#include "worker/sample/logit_walk.h"
#include "worker/sample/token_counts.h"

#define FIRST_ENTRIES    16384u                              /* pairs: 128 kB a slot */
#define BIASES_MAX       (LIMIT_LOGIT_BIAS + ROW_BARRED_MAX) /* bars are biases of -infinity */
#define BIAS_SLOTS       (2u * BIASES_MAX)
#define SEEN_REPEATED    (1u << 20) /* bits of a count's entry (shaders/sample_scan.comp) */
#define SEEN_FREQUENCY   (SEEN_REPEATED - 1)
#define SEEN_PRESENT     (1u << 21)
#define NO_TOKEN         UINT32_MAX
#define ROW_RESULT_BYTES sizeof(struct vulkan_sampler_result)

enum vulkan_sampler_flag {
    SAMPLER_LOGPROB = 1,
    SAMPLER_PENALTIES = 2,
    SAMPLER_HISTORY = 4,
    SAMPLER_MASS = 8,
    SAMPLER_FILTERS = 16,
    SAMPLER_EXPLAIN = 32
};

/* SampleRecord of shaders/sample_rows.glsl. */
struct vulkan_sampler_record {
    uint32_t flags;
    uint32_t position;
    uint32_t forced; /* or NO_TOKEN */
    uint32_t top_k;
    float temperature;
    float top_p;
    float min_p;
    float repetition;
    float presence;
    float frequency;
    uint32_t seed[2];
    uint32_t bias_first;
    uint32_t bias_count;
    uint32_t count_first;
    uint32_t count_count;
    uint32_t repetition_from; /* positions that count for each penalty */
    uint32_t presence_from;
    uint32_t frequency_from;
    uint32_t raw_at; /* copy of the row before it changes, or NO_TOKEN */
    float inverse_temperature;
    float typical_p;
    float top_n_sigma;
    uint32_t top_logprobs;
    uint32_t mask_first; /* its entry, or NO_TOKEN */
    uint32_t unused;
};
_Static_assert(sizeof(struct vulkan_sampler_record) == 104, "byte map");

/* SampleResult there. */
struct vulkan_sampler_result {
    uint32_t token;
    float distance;        /* its logit minus the largest */
    uint64_t natural_mass; /* of the row at temperature 1; 0: no logit above -infinity */
    /* SAMPLER_EXPLAIN: of the unchanged logits */
    float largest;
    float logit; /* the token's */
    uint32_t best_count;
    uint32_t rank;
    struct {
        uint32_t token;
        float logit;
    } best[LIMIT_TOP_LOGPROBS];
};
_Static_assert(sizeof(struct vulkan_sampler_result) == 192, "byte map");

/* The CPU sampler adds up weights in the same chunks. */
_Static_assert(VULKAN_SAMPLE_CHUNK == LOGIT_CHUNK && VULKAN_SAMPLE_SCANNERS == LOGIT_CHUNK_THREADS,
               "chunks of sums");

/* A bias or a count. */
struct entry {
    uint32_t token;
    uint32_t value;
};

struct slot {
    uint32_t row_count;
    uint32_t *flags; /* [max_rows] of the records */
    struct vulkan_buffer copies;
    struct vulkan_buffer records; /* [max_rows] */
    struct vulkan_buffer entries;
    struct vulkan_buffer results; /* [max_rows] */
    struct vulkan_buffer drawn;   /* [max_rows] */
};

struct vulkan_sampler {
    const struct vulkan_device *device;
    struct vulkan_kernels *kernels;
    struct vulkan_sampler_options options;
    uint32_t chunk_count;
    const struct vulkan_kernel *scan;
    const struct vulkan_kernel *plain_scan; /* of greedy steps */
    const struct vulkan_kernel *draw;
    const struct vulkan_kernel *spread;
    const struct vulkan_kernel *filter;
    const struct vulkan_kernel *explain;
    struct slot slots[VULKAN_SAMPLER_SLOTS];
    struct vulkan_buffer parts; /* of one step at a time, as the next three */
    struct vulkan_buffer spreads;
    struct vulkan_buffer block_keys;
    struct vulkan_buffer arrivals;
    /* Tokens of the row's biases, open-addressed; a slot counts when its stamp is the row's. */
    uint64_t stamp;
    uint64_t bias_stamps[BIAS_SLOTS];
    uint32_t bias_at[BIAS_SLOTS];
    struct logit_bias_entry biases[BIASES_MAX];
};

/* --- making --- */

/* Creates the sampling kernels that are missing. */
static enum result make_kernels(struct vulkan_sampler *sampler, uint32_t work,
                                struct error_text *error)
{
    struct vulkan_kernels *kernels = sampler->kernels;
    struct vulkan_specialization scan = {
        .count = VULKAN_SAMPLE_CONSTANTS,
        .values = {VULKAN_SAMPLE_SCANNERS, VULKAN_SAMPLE_SCANNERS}};
    struct vulkan_specialization draw = scan;
    struct vulkan_specialization plain = scan;
    plain.values[VULKAN_SAMPLE_PLAIN] = 1;
    uint32_t max = sampler->device->facts.max_invocations;
    draw.values[VULKAN_SAMPLE_COMPACT] = sampler->device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    draw.values[VULKAN_SAMPLE_INVOCATIONS] =
        max < VULKAN_SAMPLE_DRAWERS ? VULKAN_SAMPLE_SCANNERS : VULKAN_SAMPLE_DRAWERS;
    const struct {
        uint32_t work;
        const char *shader;
        const struct vulkan_specialization *specialization;
        const struct vulkan_kernel **kernel;
    } wanted[] = {
        {VULKAN_SAMPLER_ANY, "sample_scan", &scan, &sampler->scan},
        {VULKAN_SAMPLER_DRAWS, "sample_draw", &draw, &sampler->draw},
        {VULKAN_SAMPLER_FILTERS, "sample_spread", &scan, &sampler->spread},
        {VULKAN_SAMPLER_FILTERS, "sample_filter", &draw, &sampler->filter},
        {VULKAN_SAMPLER_EXPLAINS, "sample_explain", &draw, &sampler->explain},
    };
    if (work == 0)
        return sampler->plain_scan ? RESULT_OK
                                   : vulkan_kernels_get(kernels, "sample_scan", &plain,
                                                        &sampler->plain_scan, error);
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < sizeof wanted / sizeof wanted[0] && result == RESULT_OK; i++)
        if ((wanted[i].work & work) && !*wanted[i].kernel)
            result = vulkan_kernels_get(kernels, wanted[i].shader, wanted[i].specialization,
                                        wanted[i].kernel, error);
    return result;
}

static enum result make_entries(struct vulkan_sampler *sampler, struct slot *slot, uint64_t count,
                                struct error_text *error)
{
    vulkan_buffer_destroy(sampler->device, &slot->entries);
    return vulkan_buffer_create(sampler->device, VULKAN_UPLOAD, count * sizeof(struct entry),
                                "sampling parameters", &slot->entries, error);
}

static enum result make_slot(struct vulkan_sampler *sampler, struct slot *slot,
                             struct error_text *error)
{
    const struct vulkan_device *device = sampler->device;
    uint64_t rows = sampler->options.max_rows;
    slot->flags = must_alloc(rows, sizeof *slot->flags);
    enum result result = make_entries(sampler, slot, FIRST_ENTRIES, error);
    if (result == RESULT_OK)
        result =
            vulkan_buffer_create(device, VULKAN_UPLOAD, rows * sizeof(struct vulkan_sampler_record),
                                 "sampling parameters", &slot->records, error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_READBACK, rows * ROW_RESULT_BYTES,
                                      "sampled tokens", &slot->results, error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_DEVICE, rows * sizeof(uint32_t),
                                      "sampled tokens", &slot->drawn, error);
    return result;
}

/* Initial state: no workgroup has arrived and no token is drawn. */
static enum result clear_buffers(const struct vulkan_sampler *sampler, struct error_text *error)
{
    struct vulkan_commands *commands;
    enum result result =
        vulkan_commands_create(sampler->device, VULKAN_QUEUE_COMPUTE, 0, &commands, error);
    if (result != RESULT_OK)
        return result;
    result = vulkan_commands_begin(commands, error);
    if (result == RESULT_OK) {
        vulkan_commands_fill(commands, &sampler->arrivals, 0, sampler->arrivals.bytes, 0);
        for (uint32_t i = 0; i < VULKAN_SAMPLER_SLOTS; i++)
            vulkan_commands_fill(commands, &sampler->slots[i].drawn, 0,
                                 sampler->slots[i].drawn.bytes, 0);
        vulkan_commands_barrier(commands);
        result = vulkan_commands_end(commands, error);
    }
    if (result == RESULT_OK)
        result = vulkan_commands_run(commands, error);
    vulkan_commands_destroy(commands);
    return result;
}

static enum result make_buffers(struct vulkan_sampler *sampler, struct error_text *error)
{
    const struct vulkan_device *device = sampler->device;
    uint64_t rows = sampler->options.max_rows;
    uint64_t chunks = rows * sampler->chunk_count;
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < VULKAN_SAMPLER_SLOTS && result == RESULT_OK; i++)
        result = make_slot(sampler, &sampler->slots[i], error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_DEVICE, chunks * VULKAN_SAMPLE_PART_BYTES,
                                      "sampling", &sampler->parts, error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_DEVICE, chunks * VULKAN_SAMPLE_PART_BYTES,
                                      "sampling", &sampler->spreads, error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_DEVICE,
                                      chunks * VULKAN_SAMPLE_SCANNERS * sizeof(uint32_t),
                                      "sampling", &sampler->block_keys, error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_DEVICE, rows * sizeof(uint32_t), "sampling",
                                      &sampler->arrivals, error);
    return result == RESULT_OK ? clear_buffers(sampler, error) : result;
}

enum result vulkan_sampler_create(const struct vulkan_device *device,
                                  struct vulkan_kernels *kernels,
                                  const struct vulkan_sampler_options *options,
                                  struct vulkan_sampler **created, struct error_text *error)
{
    must(options->vocab_tokens > 0 && options->vocab_tokens <= LIMIT_VOCAB_TOKENS);
    must(options->max_rows > 0 && options->max_rows <= LIMIT_SEQUENCES);
    struct vulkan_sampler *sampler = must_alloc(1, sizeof *sampler);
    sampler->device = device;
    sampler->kernels = kernels;
    sampler->options = *options;
    sampler->chunk_count = (options->vocab_tokens + VULKAN_SAMPLE_CHUNK - 1) / VULKAN_SAMPLE_CHUNK;
    enum result result = make_buffers(sampler, error);
    if (result == RESULT_OK && !options->kernels_when_needed)
        result = make_kernels(sampler, 0, error);
    if (result == RESULT_OK && !options->kernels_when_needed)
        result = make_kernels(sampler, VULKAN_SAMPLER_WORKS - 1, error);
    if (result != RESULT_OK) {
        vulkan_sampler_destroy(sampler);
        return result;
    }
    *created = sampler;
    return RESULT_OK;
}

void vulkan_sampler_destroy(struct vulkan_sampler *sampler)
{
    if (!sampler)
        return;
    const struct vulkan_device *device = sampler->device;
    for (uint32_t i = 0; i < VULKAN_SAMPLER_SLOTS; i++) {
        struct slot *slot = &sampler->slots[i];
        free(slot->flags);
        vulkan_buffer_destroy(device, &slot->copies);
        vulkan_buffer_destroy(device, &slot->records);
        vulkan_buffer_destroy(device, &slot->entries);
        vulkan_buffer_destroy(device, &slot->results);
        vulkan_buffer_destroy(device, &slot->drawn);
    }
    vulkan_buffer_destroy(device, &sampler->parts);
    vulkan_buffer_destroy(device, &sampler->spreads);
    vulkan_buffer_destroy(device, &sampler->block_keys);
    vulkan_buffer_destroy(device, &sampler->arrivals);
    free(sampler);
}

/* --- filling --- */

bool vulkan_sampler_draws_ahead(const struct vulkan_sampler *sampler,
                                const struct row_sampling *sampling)
{
    return (sampler->options.history != 0 || !sampling->counts) &&
           !vulkan_host_draws_wanted(sampling);
}

static uint32_t uploaded_counts(const struct vulkan_sampler *sampler,
                                const struct row_sampling *sampling)
{
    bool upload = row_sampling_has_penalties(sampling) && sampler->options.history == 0;
    return upload ? token_counts_size(sampling->counts) : 0;
}

/* Entries that a mask takes, two words each. */
static uint32_t mask_entries(const struct vulkan_sampler *sampler,
                             const struct row_sampling *sampling)
{
    uint32_t words = (sampler->options.vocab_tokens + 31) / 32;
    return sampling->mask && !sampling->is_forced ? (words + 1) / 2 : 0;
}

/* Whether biases, a mask or penalties change the row. */
static bool is_changed(const struct row_sampling *sampling)
{
    return !sampling->is_forced && (sampling->logit_bias_count > 0 || sampling->barred_count > 0 ||
                                    sampling->mask || row_sampling_has_penalties(sampling));
}

/* Whether the row needs sample_explain. The draw itself gives only the probability of the drawn
 * token of an unchanged row. */
static bool is_explained(const struct row_sampling *sampling)
{
    return sampling->wants_logprob &&
           (sampling->top_logprobs > 0 || sampling->is_forced || is_changed(sampling));
}

/* Makes room for copies of rows that are explained and change. */
static enum result reserve_copies(const struct vulkan_sampler *sampler, struct slot *slot,
                                  const struct row_sampling *samplings, uint32_t row_count,
                                  bool *moved, struct error_text *error)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < row_count; row++)
        count += is_explained(&samplings[row]) && is_changed(&samplings[row]);
    uint64_t row_bytes =
        VULKAN_SAMPLE_COPY_BYTES(sampler->options.vocab_tokens, sampler->chunk_count);
    if (count * row_bytes <= slot->copies.bytes)
        return RESULT_OK;
    uint32_t room = 1;
    while (room < count)
        room *= 2;
    *moved = true;
    vulkan_buffer_destroy(sampler->device, &slot->copies);
    return vulkan_buffer_create(sampler->device, VULKAN_DEVICE, room * row_bytes,
                                "rows for log-probabilities", &slot->copies, error);
}

static enum result reserve_entries(struct vulkan_sampler *sampler, struct slot *slot,
                                   const struct row_sampling *samplings, uint32_t row_count,
                                   bool *moved, struct error_text *error)
{
    uint64_t count = 0;
    for (uint32_t row = 0; row < row_count; row++)
        count += samplings[row].logit_bias_count + samplings[row].barred_count +
                 uploaded_counts(sampler, &samplings[row]) + mask_entries(sampler, &samplings[row]);
    *moved = count * sizeof(struct entry) > slot->entries.bytes;
    return *moved ? make_entries(sampler, slot, 2 * count, error) : RESULT_OK;
}

/* Where the row's bias for `token` is, or belongs, among sampler->bias_at. */
static uint32_t bias_slot(const struct vulkan_sampler *sampler, uint32_t token)
{
    uint32_t slot = (token * 0x9E3779B1u >> 16) % BIAS_SLOTS;
    while (sampler->bias_stamps[slot] == sampler->stamp &&
           sampler->biases[sampler->bias_at[slot]].token != token)
        slot = (slot + 1) % BIAS_SLOTS;
    return slot;
}

/* Adds a bias to sampler->biases, which has `count` tokens; returns the new count. */
static uint32_t add_bias(struct vulkan_sampler *sampler, uint32_t count,
                         struct logit_bias_entry bias)
{
    must(bias.token < sampler->options.vocab_tokens);
    uint32_t slot = bias_slot(sampler, bias.token);
    if (sampler->bias_stamps[slot] == sampler->stamp) {
        sampler->biases[sampler->bias_at[slot]].bias += bias.bias;
        return count;
    }
    sampler->bias_stamps[slot] = sampler->stamp;
    sampler->bias_at[slot] = count;
    sampler->biases[count] = bias;
    return count + 1;
}

/* Puts the row's biases, each token once, into sampler->biases; returns how many. */
static uint32_t collect_biases(struct vulkan_sampler *sampler, const struct row_sampling *sampling)
{
    uint32_t count = 0;
    must(sampling->logit_bias_count <= LIMIT_LOGIT_BIAS);
    must(sampling->barred_count <= ROW_BARRED_MAX);
    sampler->stamp++;
    for (uint32_t i = 0; i < sampling->logit_bias_count; i++)
        count = add_bias(sampler, count, sampling->logit_bias[i]);
    for (uint32_t i = 0; i < sampling->barred_count; i++)
        count = add_bias(sampler, count, (struct logit_bias_entry){sampling->barred[i], -INFINITY});
    return count;
}

/* Both return the number of entries written. */
static uint32_t write_biases(struct vulkan_sampler *sampler, const struct row_sampling *sampling,
                             struct entry *entries)
{
    uint32_t count = collect_biases(sampler, sampling);
    for (uint32_t i = 0; i < count; i++) {
        struct entry entry = {.token = sampler->biases[i].token};
        memcpy(&entry.value, &sampler->biases[i].bias, sizeof entry.value);
        entries[i] = entry;
    }
    return count;
}

static uint32_t count_bits(const struct sampling_params *params, struct token_count seen)
{
    bool repeated = seen.repetition > 0 && params->repetition_penalty != 1.0f;
    return (seen.frequency < SEEN_FREQUENCY ? seen.frequency : SEEN_FREQUENCY) |
           (repeated ? SEEN_REPEATED : 0) | (seen.presence > 0 ? SEEN_PRESENT : 0);
}

static uint32_t write_counts(const struct vulkan_sampler *sampler,
                             const struct row_sampling *sampling, struct entry *entries)
{
    uint32_t count = uploaded_counts(sampler, sampling);
    for (uint32_t i = 0; i < count; i++) {
        struct token_count seen = token_counts_at(sampling->counts, i);
        must(seen.token < sampler->options.vocab_tokens);
        entries[i] = (struct entry){seen.token, count_bits(sampling->params, seen)};
    }
    return count;
}

static uint32_t flags_of(const struct vulkan_sampler *sampler, const struct row_sampling *sampling)
{
    const struct sampling_params *params = sampling->params;
    bool cut = params->top_k > 0 && params->top_k < sampler->options.vocab_tokens;
    bool whole = params->top_p >= 1.0f && params->min_p <= 0.0f;
    bool typical = params->typical_p < 1.0f;
    bool sigma = params->top_n_sigma > 0.0f;
    uint32_t flags = 0;
    if (sampling->wants_logprob)
        flags |= is_explained(sampling) ? SAMPLER_EXPLAIN : SAMPLER_LOGPROB;
    if (row_sampling_has_penalties(sampling))
        flags |= SAMPLER_PENALTIES | (sampler->options.history != 0 ? SAMPLER_HISTORY : 0);
    if (params->temperature <= 0.0f)
        return flags;
    if (typical || sigma)
        return flags | SAMPLER_FILTERS | (cut || sigma ? 0 : SAMPLER_MASS);
    return flags | (!cut && (whole || params->top_p < 1.0f) ? SAMPLER_MASS : 0);
}

/* The first position that a penalty looks at; `first`: where what it counts begins. */
static uint32_t context_begin(const struct row_sampling *sampling, bool is_on, uint32_t context,
                              uint32_t first)
{
    if (!is_on)
        return UINT32_MAX;
    bool reaches_first = context == 0 || sampling->position < context;
    uint32_t begin = reaches_first ? 0 : sampling->position - context;
    return begin > first ? begin : first;
}

/* A record without biases and counts. For the device, a forced row has only its token. */
static struct vulkan_sampler_record record_of(const struct vulkan_sampler *sampler,
                                              const struct row_sampling *sampling)
{
    const struct sampling_params *params = sampling->params;
    struct vulkan_sampler_record record = {
        .flags = flags_of(sampler, sampling),
        .position = sampling->position,
        .forced = sampling->is_forced ? sampling->forced_token : NO_TOKEN,
        .top_k = params->top_k,
        .temperature = params->temperature,
        .top_p = params->top_p,
        .min_p = params->min_p,
        .repetition = params->repetition_penalty,
        .presence = params->presence_penalty,
        .frequency = params->frequency_penalty,
        .seed = {(uint32_t)params->seed, (uint32_t)(params->seed >> 32)},
        .repetition_from = context_begin(sampling, params->repetition_penalty != 1.0f,
                                         params->repetition_context, 0),
        .presence_from = context_begin(sampling, params->presence_penalty != 0.0f,
                                       params->presence_context, sampling->first_generated),
        .frequency_from = context_begin(sampling, params->frequency_penalty != 0.0f,
                                        params->frequency_context, sampling->first_generated),
        .raw_at = NO_TOKEN,
        .mask_first = NO_TOKEN,
        .inverse_temperature = logit_walk_inverse(params->temperature),
        .typical_p = params->typical_p,
        .top_n_sigma = params->top_n_sigma,
        .top_logprobs = sampling->top_logprobs,
    };
    if (sampling->is_forced) {
        record.temperature = 0.0f;
        record.flags &= SAMPLER_EXPLAIN;
    }
    return record;
}

static uint32_t work_of(const struct vulkan_sampler_record *record)
{
    uint32_t work = 0;
    if (record->temperature > 0.0f || (record->flags & SAMPLER_LOGPROB))
        work |= VULKAN_SAMPLER_DRAWS;
    if (record->flags & SAMPLER_FILTERS)
        work |= VULKAN_SAMPLER_FILTERS;
    if (record->flags & SAMPLER_EXPLAIN)
        work |= VULKAN_SAMPLER_EXPLAINS;
    bool is_plain = work == 0 && record->flags == 0 && record->bias_count == 0 &&
                    record->forced == NO_TOKEN && record->mask_first == NO_TOKEN;
    return is_plain ? 0 : work | VULKAN_SAMPLER_ANY;
}

enum result vulkan_sampler_fill(struct vulkan_sampler *sampler, uint32_t index,
                                const struct row_sampling *samplings, uint32_t row_count,
                                uint32_t *work, bool *moved, struct error_text *error)
{
    must(index < VULKAN_SAMPLER_SLOTS && row_count <= sampler->options.max_rows);
    struct slot *slot = &sampler->slots[index];
    enum result result = reserve_entries(sampler, slot, samplings, row_count, moved, error);
    if (result == RESULT_OK)
        result = reserve_copies(sampler, slot, samplings, row_count, moved, error);
    if (result != RESULT_OK)
        return result;
    struct vulkan_sampler_record *records = slot->records.mapped;
    struct entry *entries = slot->entries.mapped;
    uint32_t used = 0;
    uint32_t copied = 0;
    *work = 0;
    slot->row_count = row_count;
    for (uint32_t row = 0; row < row_count; row++) {
        const struct row_sampling *sampling = &samplings[row];
        struct vulkan_sampler_record record = record_of(sampler, sampling);
        record.bias_first = used;
        if (!sampling->is_forced)
            record.bias_count = write_biases(sampler, sampling, entries + used);
        used += record.bias_count;
        record.count_first = used;
        if (!sampling->is_forced)
            record.count_count = write_counts(sampler, sampling, entries + used);
        used += record.count_count;
        if (mask_entries(sampler, sampling) > 0) {
            record.mask_first = used;
            memcpy(entries + used, sampling->mask,
                   (sampler->options.vocab_tokens + 31) / 32 * sizeof *sampling->mask);
            used += mask_entries(sampler, sampling);
        }
        if (is_explained(sampling) && is_changed(sampling))
            record.raw_at = copied++;
        records[row] = record;
        slot->flags[row] = record.flags;
        *work |= work_of(&record);
    }
    return make_kernels(sampler, *work, error);
}

/* --- recording and reading --- */

void vulkan_sampler_record(const struct vulkan_sampler *sampler, uint32_t index, uint32_t work,
                           uint32_t row_count, const struct vulkan_sampler_step *step,
                           struct vulkan_commands *commands)
{
    must(index < VULKAN_SAMPLER_SLOTS && row_count <= sampler->options.max_rows);
    const struct slot *slot = &sampler->slots[index];
    const struct vulkan_sample_push push = {
        .logits = sampler->options.logits,
        .records = slot->records.address,
        .entries = slot->entries.address,
        .parts = sampler->parts.address,
        .block_keys = sampler->block_keys.address,
        .arrivals = sampler->arrivals.address,
        .drawn = slot->drawn.address,
        .results = slot->results.address,
        .rows = step->rows,
        .sequences = step->sequences,
        .tables = step->tables,
        .logit_rows = step->logit_rows,
        .history = sampler->options.history,
        .copies = slot->copies.address,
        .vocab_tokens = sampler->options.vocab_tokens,
        .chunk_count = sampler->chunk_count,
        .spreads = sampler->spreads.address,
    };
    const struct vulkan_grid chunks = {sampler->chunk_count, row_count, 1};
    const struct vulkan_grid rows = {row_count, 1, 1};
    if (row_count == 0)
        return;
    vulkan_commands_dispatch(commands, work == 0 ? sampler->plain_scan : sampler->scan, &push,
                             sizeof push, chunks);
    if (work & ~(uint32_t)VULKAN_SAMPLER_ANY)
        vulkan_commands_barrier(commands);
    if (work & VULKAN_SAMPLER_DRAWS)
        vulkan_commands_dispatch(commands, sampler->draw, &push, sizeof push, rows);
    if (work & VULKAN_SAMPLER_FILTERS) {
        vulkan_commands_dispatch(commands, sampler->spread, &push, sizeof push, chunks);
        vulkan_commands_barrier(commands);
        vulkan_commands_dispatch(commands, sampler->filter, &push, sizeof push, rows);
    }
    if (!(work & VULKAN_SAMPLER_EXPLAINS))
        return;
    if (work & VULKAN_SAMPLER_DRAWS)
        vulkan_commands_barrier(commands);
    vulkan_commands_dispatch(commands, sampler->explain, &push, sizeof push, rows);
}

uint64_t vulkan_sampler_drawn(const struct vulkan_sampler *sampler, uint32_t slot)
{
    must(slot < VULKAN_SAMPLER_SLOTS);
    return sampler->slots[slot].drawn.address;
}

/* Log-probabilities from the device's result of a row. */
static void tell(const struct vulkan_sampler_result *said, uint32_t flags,
                 struct sampled_token *sampled)
{
    if (!(flags & (SAMPLER_LOGPROB | SAMPLER_EXPLAIN)))
        return;
    sampled->logprob = -INFINITY;
    sampled->rank = flags & SAMPLER_EXPLAIN ? said->rank : 0;
    if (said->natural_mass == 0)
        return;
    double log_sum = log(fixed_weight_value(said->natural_mass));
    if (flags & SAMPLER_LOGPROB) {
        sampled->logprob = row_sampler_logprob(said->distance, 0.0f, log_sum);
        return;
    }
    sampled->logprob = row_sampler_logprob(said->logit, said->largest, log_sum);
    sampled->alternative_count = said->best_count;
    for (uint32_t i = 0; i < said->best_count; i++)
        sampled->alternatives[i] = (struct token_logprob){
            said->best[i].token, row_sampler_logprob(said->best[i].logit, said->largest, log_sum)};
}

/* Whether all tokens and the rank are of the vocabulary. */
static bool is_sound(const struct vulkan_sampler_result *said, uint32_t flags,
                     uint32_t vocab_tokens)
{
    bool sound = said->token < vocab_tokens;
    uint32_t count = flags & SAMPLER_EXPLAIN ? said->best_count : 0;
    if (count > LIMIT_TOP_LOGPROBS)
        return false;
    if (flags & SAMPLER_EXPLAIN)
        sound = sound && said->rank >= 1 && said->rank <= vocab_tokens;
    for (uint32_t i = 0; i < count; i++)
        sound = sound && said->best[i].token < vocab_tokens;
    return sound;
}

enum result vulkan_sampler_read(const struct vulkan_sampler *sampler, uint32_t index,
                                struct sampled_token *results, struct error_text *error)
{
    must(index < VULKAN_SAMPLER_SLOTS);
    const struct slot *slot = &sampler->slots[index];
    const struct vulkan_sampler_result *said = slot->results.mapped;
    uint32_t vocab_tokens = sampler->options.vocab_tokens;
    for (uint32_t row = 0; row < slot->row_count; row++) {
        if (!is_sound(&said[row], slot->flags[row], vocab_tokens))
            return error_set(error, RESULT_CORRUPT,
                             "the device named a token or rank past %u (drew %u), row %u of %u",
                             vocab_tokens, said[row].token, row, slot->row_count);
        results[row] = (struct sampled_token){.token = said[row].token};
        tell(&said[row], slot->flags[row], &results[row]);
    }
    return RESULT_OK;
}
