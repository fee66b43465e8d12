/*
 * A vision plan is a plan like any other (cpu_program.c). It runs through the same walk, over
 * patches instead of tokens, one part at a time. Its tensors keep their values between parts; steps
 * of the text model in between use other tensors.
 *
 * A part is a unit of ops over some rows. Every op but attention and convolutions computes a row from that row
 * alone, or a feature from its square of rows, so a stage can run over one slice of rows after the
 * other. A unit ends where a stage ends, where an op begins that needs all rows, and before the rows that it read are
 * overwritten.
 * The cost of a row differs between units, so parts are measured in multiply-adds: a caller that
 * asks for a number of patch rows times stages gets as much work as these take on average over the
 * batch.
 *
 * Each worker packs the weights privately. Towers are a small part of a checkpoint.
 */
#include "worker/backend/cpu/cpu_image_encoder.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

/* Approximate costs in multiply-adds of a matrix product, measured with the demo model's tower
 * (AVX-512). Errors here make the parts, and the steps that contain one, uneven in time. */
#define PLAIN_WORK       16u /* per value of other ops */
#define PIXELS_WORK      40u /* per value of a pixel */
#define SCORE_WORK       64u /* per head and row seen, beside the products */
#define CONVOLUTION_WORK 2u  /* per multiply-add of one over a map */
#define FEATURE_WORK     2u  /* factor of ops over features, of which a slice has few rows */

/* --- units ------------------------------------------------------------------------------------ */

/* Whether the op reads other rows than it writes, so that all of them must be computed before it. */
static bool reads_around(enum op_stem stem)
{
    return stem == OP_patch_attention || stem == OP_tile_attention || stem == OP_neighbour_rows ||
           stem == OP_near_attention || stem == OP_past_norm || stem == OP_conv_2d ||
           stem == OP_conv_depthwise;
}

/* Multiply-adds of a convolution for a row. */
static uint64_t convolution_work(const struct plan_op *op)
{
    bool depthwise = op->stem == OP_conv_depthwise;
    const struct conv_2d_params *params =
        depthwise ? &op->params.conv_depthwise.shape : &op->params.conv_2d;
    uint64_t each = (uint64_t)params->taps_y * params->taps_x * params->out.channels;
    each *= depthwise ? 1 : params->in.channels;
    return each * params->out.lines * params->out.columns;
}

static uint64_t op_row_work(const struct plan *plan, const struct plan_op *op)
{
    uint64_t work = 0, each = op->stem == OP_patch_rows ? PIXELS_WORK : PLAIN_WORK;
    for (uint32_t i = 0; i < OP_WEIGHTS_MAX && op->weights[i] != PLAN_NONE; i++) {
        const struct plan_weight *weight = &plan->weights[op->weights[i]];
        if (op_facts(op->stem)->weights == OP_WEIGHTS_PRODUCT)
            work += (uint64_t)weight->rows * weight->columns;
    }
    if (op->stem == OP_conv_2d || op->stem == OP_conv_depthwise)
        work += CONVOLUTION_WORK * convolution_work(op);
    plan_tensor_id made = op->output != PLAN_NONE ? op->output : op->inputs[0];
    work += each * plan->tensors[made].columns;
    uint32_t square = model_vision_square(&plan->vision);
    bool features = plan->tensors[made].rows == PLAN_ROWS_FEATURES;
    return features ? FEATURE_WORK * work / square + 1 : work;
}

static void add_tile_work(const struct cpu_image_encoder *vision, const struct plan_op *op,
                          struct vision_unit *unit)
{
    const struct plan *plan = vision->program.plan;
    const struct tile_attention_params *params = &op->params.tile_attention;
    double square = model_vision_square(&plan->vision), side = plan->vision.max_side;
    bool features = plan->tensors[op->inputs[0]].rows == PLAN_ROWS_FEATURES;
    unit->pair_work = 2 * (uint64_t)params->queries.heads * params->queries.head_dim +
                      (uint64_t)SCORE_WORK * params->queries.heads;
    if (features)
        unit->pair_share = 1 / (square * square);
    else if (params->window > 0 && side > params->window)
        unit->pair_share = params->window / side * params->window / side;
}

/* Ops [first_op, end_op), of which no other than the first reads around. */
static void add_unit(struct cpu_image_encoder *vision, uint32_t first_op, uint32_t end_op)
{
    const struct plan *plan = vision->program.plan;
    const struct plan_op *first = &plan->ops[first_op];
    struct vision_unit unit = {.first_op = first_op, .end_op = end_op, .pair_share = 1};
    if (first->stem == OP_patch_attention) {
        const struct patch_attention_params *params = &first->params.patch_attention;
        uint64_t columns = (uint64_t)params->queries.heads * params->queries.head_dim;
        vision->units[vision->unit_count++] =
            (struct vision_unit){.first_op = first_op,
                                 .end_op = first_op + 1,
                                 .keys_only = true,
                                 .row_work = 2 * PLAIN_WORK * columns};
        unit.pair_work = 2 * columns + (uint64_t)SCORE_WORK * params->queries.heads;
        unit.windowed = params->windowed;
    }
    if (first->stem == OP_tile_attention)
        add_tile_work(vision, first, &unit);
    for (uint32_t i = first_op; i < end_op; i++)
        unit.row_work += op_row_work(plan, &plan->ops[i]);
    vision->units[vision->unit_count++] = unit;
}

/* Whether op `index` overwrites what op `first` reads around its rows. */
static bool overwrites(const struct plan *plan, uint32_t first, uint32_t index)
{
    bool keeps = plan->ops[first].stem == OP_patch_attention; /* a copy of keys and values */
    uint32_t read = plan->ops[first].stem == OP_past_norm ? 1 : 0;
    return reads_around(plan->ops[first].stem) && !keeps &&
           plan->ops[index].output == plan->ops[first].inputs[read];
}

static void list_units(struct cpu_image_encoder *vision)
{
    const struct plan *plan = vision->program.plan;
    uint32_t begin = 0;
    vision->units = must_alloc(2 * plan->op_count, sizeof *vision->units);
    for (uint32_t stage = 0; stage <= plan->vision.stages; stage++) {
        uint32_t end = plan->stage_ends[stage];
        for (uint32_t i = begin + 1; i < end; i++) {
            if (!reads_around(plan->ops[i].stem) && !overwrites(plan, begin, i))
                continue;
            add_unit(vision, begin, i);
            begin = i;
        }
        if (end > begin)
            add_unit(vision, begin, end);
        begin = end;
    }
}

/* --- start and end
 * -------------------------------------------------------------------------------- */

static enum result load_weights(struct cpu_image_encoder *vision,
                                const struct backend_options *options, struct thread_pool *pool,
                                backend_progress_fn *progress, void *context,
                                struct error_text *error)
{
    struct backend_options own = *options;
    own.has_vault = false;
    return cpu_weights_load(&vision->program.weights, pool, &own, progress, context, error);
}

/* `features`: initialized, or NULL: the encoder has its own. */
static enum result init(struct cpu_image_encoder *vision, struct cpu_feature_pool *features,
                        const struct backend_options *options, const struct cpu_kernels *kernels,
                        struct thread_pool *pool, backend_progress_fn *progress, void *context,
                        struct error_text *error)
{
    const struct plan *plan = options->vision;
    const struct backend_options sizes = {.activation_bits = options->activation_bits,
                                          .max_patch_rows = options->max_patch_rows};
    must(sizes.max_patch_rows > 0 && sizes.max_patch_rows <= LIMIT_PATCH_ROWS);
    enum result result = cpu_program_init(&vision->program, plan, &sizes, kernels, NULL, error);
    if (result == RESULT_OK)
        result = cpu_walk_init(&vision->step, &vision->program, pool, error);
    if (result == RESULT_OK)
        result = image_patches_init(&vision->patches, plan, sizes.max_patch_rows, error);
    uint64_t patch_bytes = model_vision_row_bytes(&plan->vision);
    if (result == RESULT_OK)
        result = lazy_memory_reserve(&vision->pixels, sizes.max_patch_rows * patch_bytes, false,
                                     "pixels of images", error);
    if (result == RESULT_OK && !features)
        result = cpu_feature_pool_init(&vision->features, options->feature_rows,
                                       model_vision_feature_columns(&plan->vision), error);
    if (result == RESULT_OK)
        result = load_weights(vision, options, pool, progress, context, error);
    if (result == RESULT_OK)
        list_units(vision);
    vision->unit = vision->unit_count;
    vision->step.patches = &vision->patches;
    vision->step.features = features ? features : &vision->features;
    vision->step.heartbeat = options->heartbeat;
    return result;
}

enum result cpu_image_encoder_init(struct cpu_image_encoder *vision,
                                   const struct backend_options *options,
                                   const struct cpu_kernels *kernels, struct thread_pool *pool,
                                   backend_progress_fn *progress, void *context,
                                   struct error_text *error)
{
    return init(vision, NULL, options, kernels, pool, progress, context, error);
}

enum result cpu_image_encoder_init_sound(struct cpu_image_encoder *vision,
                                         struct cpu_image_encoder *images,
                                         const struct backend_options *options,
                                         const struct cpu_kernels *kernels,
                                         struct thread_pool *pool, backend_progress_fn *progress,
                                         void *context, struct error_text *error)
{
    struct backend_options own = *options;
    own.vision = options->vision->sound;
    return init(vision, &images->features, &own, kernels, pool, progress, context, error);
}

void cpu_image_encoder_fini(struct cpu_image_encoder *vision)
{
    if (!vision->program.plan)
        return;
    cpu_walk_fini(&vision->step);
    cpu_program_fini(&vision->program);
    image_patches_fini(&vision->patches);
    lazy_memory_release(&vision->pixels);
    cpu_feature_pool_fini(&vision->features);
    free(vision->units);
}

static void check_room(const struct cpu_image_encoder *vision)
{
    for (uint32_t f = 0; f < vision->patches.features; f++)
        must(vision->patches.feature_rows[f] == PATCH_FEATURE_NONE ||
             vision->patches.feature_rows[f] < vision->step.features->rows);
    for (uint32_t i = 0; i < vision->patches.mix_count; i++)
        must(vision->patches.mixes[i].pool_row < vision->step.features->rows);
}

/* --- the batch -------------------------------------------------------------------------------- */

/* Number of pairs of rows that attend to each other. */
static double pairs_of(const struct patch_spans *spans)
{
    double pairs = 0;
    for (uint32_t s = 0; s < spans->count; s++)
        pairs += (double)spans->spans[s].rows * (double)spans->spans[s].keys;
    return pairs;
}

/* Multiply-adds of a patch row, averaged over the batch. */
static double row_work(const struct cpu_image_encoder *vision, const struct vision_unit *unit)
{
    const struct image_patches *patches = &vision->patches;
    double work = (double)unit->row_work;
    if (unit->pair_work > 0)
        work += unit->pair_share * (double)unit->pair_work *
                pairs_of(unit->windowed ? &patches->windows : &patches->whole) / patches->rows;
    return work;
}

static void run_rows(struct cpu_image_encoder *vision, uint32_t rows)
{
    const struct vision_unit *unit = &vision->units[vision->unit];
    const struct patch_part part = {vision->row, vision->row + rows, unit->keys_only};
    cpu_walk_run_part(&vision->step, unit->first_op, unit->end_op, &part);
    vision->row += rows;
    if (vision->row < vision->patches.rows)
        return;
    vision->row = 0;
    vision->unit++;
}

/* The first unit reads them after the caller has released its own. */
static void copy_pixels(struct cpu_image_encoder *vision)
{
    uint8_t *copy = vision->pixels.bytes;
    for (uint32_t t = 0; t < vision->patches.tile_count; t++) {
        struct encode_image *image = &vision->patches.tiles[t].image;
        size_t bytes = model_vision_tile_bytes(image->shape);
        memcpy(copy, image->pixels, bytes);
        image->pixels = copy;
        copy += bytes;
    }
    must(copy <= (uint8_t *)vision->pixels.bytes + vision->pixels.byte_count);
}

void cpu_image_encoder_begin(struct cpu_image_encoder *vision, const struct encode_batch *batch)
{
    image_patches_arrange(&vision->patches, batch);
    check_room(vision);
    copy_pixels(vision);
    vision->unit = vision->row = 0;
    vision->work = 0;
    for (uint32_t u = 0; u < vision->unit_count; u++)
        vision->work += vision->patches.rows * row_work(vision, &vision->units[u]);
    vision->work_left = vision->work;
}

/* Rows of the current unit that fit: whole slices, at least `least`, or all that are left. */
static uint32_t rows_within(const struct cpu_image_encoder *vision, double work, uint32_t least)
{
    uint32_t square = image_patches_square(&vision->patches);
    const struct vision_unit *unit = &vision->units[vision->unit];
    uint32_t slice = (CPU_VISION_SLICE_ROWS + square - 1) / square * square;
    uint32_t left = vision->patches.rows - vision->row;
    double slices = work / (slice * row_work(vision, unit));
    if (slices < least)
        slices = least; /* also for a negative number: more work was done than was asked for */
    return slices * slice < left ? (uint32_t)slices * slice : left;
}

uint64_t cpu_image_encoder_run(struct cpu_image_encoder *vision, uint64_t work)
{
    uint64_t all = (uint64_t)vision->patches.rows * vision->program.plan->vision.stages;
    double one = vision->work / (double)all; /* multiply-adds per unit of `work` */
    double room = (double)work * one, done = 0;
    must(vision->unit < vision->unit_count);
    while (vision->unit < vision->unit_count) {
        /* At least two, so that the rounded remainder decreases. */
        uint32_t rows = rows_within(vision, room - done, done < 2 * one ? 1 : 0);
        if (rows == 0)
            break;
        done += rows * row_work(vision, &vision->units[vision->unit]);
        run_rows(vision, rows);
    }
    vision->work_left -= done;
    if (vision->unit == vision->unit_count)
        return 0;
    return vision->work_left >= one ? (uint64_t)(vision->work_left / one) : 1;
}
