/*
 * Runs one op on any backend through the public interface (worker/backend/host/backend.h).
 *
 * A trial is a whole small plan: embed_rows loads the op's inputs from tables of random numbers, then
 * the op runs, and gather_rows copies its output to the logits, which last_logits() returns. So a
 * backend needs no entry points for tests. The vocabulary has as many tokens as the op has output
 * columns.
 *
 *   describe a case -> op_trial_create() -> op_trial_run() on one backend after the other
 *                   -> compare the outputs with each other, or with a formula over the inputs
 *
 * tests/ops/<stem>_test.c has the cases of an op (op_case_list.h), op_check.h the loops over them.
 */
#ifndef SHOAL_TESTS_SUPPORT_OP_TRIAL_H
#define SHOAL_TESTS_SUPPORT_OP_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/host/backend.h"

#define OP_TRIAL_SEQUENCES 2u
#define OP_TRIAL_STEPS     8u

/* The last input is the initial output of ops that add to it. */
#define OP_TRIAL_INPUTS (OP_INPUTS_MAX + 1u)

struct op_trial_weight {
    enum ggml_type type;
    uint32_t rows; /* 0: no such weight */
    uint32_t columns;
};

/*
 * A case of kv_write or of attention runs both ops. Rows are queries | keys | values from the slice's
 * offset on. A case of kv_write has no queries: its keys are the queries, and with a window of 1 the
 * output is the values.
 *
 * A case of moe_linear with `experts.wide` is a whole mixture: its weights are the gate's and up's
 * stacks (or one of both) and then the down's, and moe_gate, moe_linear and moe_combine come behind
 * it; input 2, where there is one, is what the sum is added to.
 *
 * Ops that take a route have scores for their second input, from which moe_route makes it; those of
 * moe_linear's weights are stacks of as many experts.
 */
struct op_trial_experts {
    uint32_t wide; /* columns of the gate; 0: no mixture */
    struct moe_gate_params gate;
};

struct op_case {
    enum op_stem stem;
    union op_params params;
    uint32_t input_columns[OP_TRIAL_INPUTS]; /* 0: no such input */
    enum ggml_type input_type;               /* of the tables: F16 numbers survive an f16 cache */
    float input_scale;                       /* of the first input; the others' is 1 */
    uint32_t output_columns;
    struct op_trial_weight weights[OP_WEIGHTS_MAX];
    struct moe_route_params route; /* of ops that take a route */
    struct op_trial_experts experts;
    bool in_place;         /* the output is the last input */
    bool on_logit_rows;    /* gather_rows comes before the op */
    uint32_t wanted_every; /* of a step's rows every n-th is an output, the last one always */
    uint32_t window;       /* kv_write, attention: of the cache and the op */
    struct kv_quantization quantization; /* likewise */
    bool latent;                         /* likewise: rows are queries | keys */
    struct rope_config rope;
    bool
        defers; /* recurrent ops: all rows of a step but its first are deferred and late in the next */
    /* Linear ops: not 0, the seed of two adapters; in step n sequence s has adapter (s + n) % 3, where
     * 0 is none. */
    uint64_t adapter_seed;
    uint32_t first_positions[OP_TRIAL_SEQUENCES];
    uint32_t steps[OP_TRIAL_STEPS][OP_TRIAL_SEQUENCES]; /* rows; a step without any ends the list */
};

/* An output row, in the order of output. */
struct op_trial_row {
    uint32_t token;
    uint32_t sequence;
    uint32_t position;
};

struct op_trial;

/* The same case gives the same inputs and weights. */
struct op_trial *op_trial_create(const struct op_case *c);
void op_trial_destroy(struct op_trial *trial);

const struct op_case *op_trial_case(const struct op_trial *trial);
/* Description for a failing test: "linear q4_1 17|16|1 x 512". */
const char *op_trial_name(const struct op_trial *trial);
uint32_t op_trial_row_count(const struct op_trial *trial); /* of outputs */
struct op_trial_row op_trial_row(const struct op_trial *trial, uint32_t output);
/* [input_columns[input]] f32: what the op reads for that output row, scale included. */
const float *op_trial_input(const struct op_trial *trial, uint32_t input, uint32_t output);
/* The same for any position of a sequence of the trial. */
const float *op_trial_input_at(const struct op_trial *trial, uint32_t input, uint32_t sequence,
                               uint32_t position);
/* [weights[weight].rows, columns] as f32, of each expert. */
const float *op_trial_weight(const struct op_trial *trial, uint32_t weight);

/*
 * Loads the trial into the new `backend`, which the caller destroys, and runs all steps. Of `options`
 * the trial uses threads, cpu_tier and kv_type and sets the others. outputs: [row count,
 * output_columns]. Returns false if the backend answers RESULT_UNSUPPORTED, with the reason in
 * *error; any other error fails the test.
 */
bool op_trial_run(struct op_trial *trial, struct backend *backend,
                  const struct backend_options *options, float *outputs, struct error_text *error);

#endif
