/*
 * What one format calls the tensors that families ask for. Families speak GGUF's names
 * ("blk.3.attn_q.weight"); a Hugging Face checkpoint says the same otherwise
 * ("model.layers.3.self_attn.q_proj.weight"), behind a prefix that depends on which class of model
 * was saved.
 */
#ifndef SHOAL_WORKER_PLAN_TENSOR_NAMING_H
#define SHOAL_WORKER_PLAN_TENSOR_NAMING_H

#include <stdbool.h>

#include "worker/plan/tensor_table.h"

/* The first '*' stands for a layer's number, a second for an expert's; in `stored` '^' stands for
 * the prefix. */
struct tensor_name {
    const char *asked;
    const char *stored;
};

/* How a family's tensors are named in one format. */
struct tensor_naming {
    const struct tensor_name *names; /* ends with {NULL, NULL} */
    const struct tensor_name *usual; /* for what no row of `names` is for; likewise, or NULL */
    const char *const *prefixes;     /* that may stand for '^', ends with NULL */
    const char *const *other_parts;  /* beginnings of tensors of a model's other parts (a vision
                                        tower), which are left alone; ends with NULL; NULL: none */
};

#define STORED_NAME_BYTES 128u

struct stored_name {
    char text[STORED_NAME_BYTES];
};

/* The prefix of this checkpoint: the first with which the tensor asked for as `probe` is there;
 * NULL when it is there with none. */
const char *tensor_naming_find_prefix(const struct tensor_naming *naming,
                                      const struct tensor_table *table, const char *probe);

/* Spells `asked` as stored, by the first row that matches; false, with *stored untouched, when the
 * format has no such tensor. */
bool tensor_naming_spell(const struct tensor_naming *naming, const char *prefix, const char *asked,
                         struct stored_name *stored);

/* The tensor asked for, under the first spelling that the table has; *stored says which. NULL where
 * it has none: *stored is then what tensor_naming_spell() makes of it. */
const struct checkpoint_tensor *tensor_naming_find(const struct tensor_naming *naming,
                                                   const struct tensor_table *table,
                                                   const char *prefix, const char *asked,
                                                   struct stored_name *stored);

/* Whether the tensor belongs to another part of the model. */
bool tensor_naming_is_other_part(const struct tensor_naming *naming, struct gguf_string name);

#endif
