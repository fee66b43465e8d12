/*
 * Reading a checkpoint's settings with their ranges: the metadata keys of one architecture in a
 * GGUF ("llama.block_count" by "block_count"), or the members of a JSON object (config.json).
 *
 * The first key that is missing, of another type or out of range is kept as the reader's result and
 * words; every later read then does nothing and returns its least value. So a caller reads all it
 * wants and looks at `result` once.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_KEYS_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/gguf_file.h"
#include "proto/json_value.h"
#include "proto/result.h"

struct checkpoint_keys {
    const struct gguf_file *file; /* NULL: the keys are those of `object` */
    struct json_value object;
    char section[32]; /* what stands before a key's name and a dot: the architecture, or the name of
                         the member that the object is; may be empty */
    enum result result;
    struct error_text *error;
};

struct u32_range {
    uint32_t least;
    uint32_t most;
};
struct f32_range {
    float least;
    float most;
};

/* Required keys. */
uint32_t checkpoint_keys_u32(struct checkpoint_keys *keys, const char *name,
                             struct u32_range range);
float checkpoint_keys_f32(struct checkpoint_keys *keys, const char *name, struct f32_range range);

/* Optional keys: `absent` is returned unchecked when the key is not there. */
uint32_t checkpoint_keys_u32_or(struct checkpoint_keys *keys, const char *name,
                                struct u32_range range, uint32_t absent);
float checkpoint_keys_f32_or(struct checkpoint_keys *keys, const char *name, struct f32_range range,
                             float absent);
/* One of which null in JSON says that there is none: 0. */
float checkpoint_keys_f32_or_null(struct checkpoint_keys *keys, const char *name,
                                  struct f32_range range, float absent);
bool checkpoint_keys_bool_or(struct checkpoint_keys *keys, const char *name, bool absent);
/* Element `index` of a list of counts in a GGUF, of which there must be that many; or the count
 * itself, which converters write when all are the same. */
uint32_t checkpoint_keys_u32_at(struct checkpoint_keys *keys, const char *name, uint32_t index,
                                struct u32_range range);
/* One count for every layer, or an array of `count`, of at most LAYER_SIZES_MAX different ones: out
 * [count]. False, and out untouched, when the key is not there. */
#define LAYER_SIZES_MAX 4u
bool checkpoint_keys_u32_each(struct checkpoint_keys *keys, const char *name,
                              struct u32_range range, uint32_t count, uint32_t *out);
/* An absent string is empty. One of JSON is as the file spells it: with an escape in it it is
 * refused. */
struct gguf_string checkpoint_keys_string_or_empty(struct checkpoint_keys *keys, const char *name);
bool checkpoint_keys_is(struct gguf_string value, const char *word);

/* The keys of an object within the object; none where it is absent, RESULT_INVALID where it is no
 * object. Refusals go to the inner keys: checkpoint_keys_leave() brings them back. */
struct checkpoint_keys checkpoint_keys_enter(struct checkpoint_keys *keys, const char *name);
void checkpoint_keys_leave(struct checkpoint_keys *keys, const struct checkpoint_keys *inner);

/* A key that changes the computation in a way no family here knows: any value but `neutral` is
 * RESULT_UNSUPPORTED. Integer, float and bool keys alike. */
void checkpoint_keys_expect_neutral(struct checkpoint_keys *keys, const char *name, double neutral);
struct altering_key {
    const char *name;
    double neutral;
};
/* All of a table of such keys, but those in `own` (ends with NULL; NULL: none), which the caller
 * knows. */
void checkpoint_keys_expect_all_neutral(struct checkpoint_keys *keys,
                                        const struct altering_key *altering, size_t count,
                                        const char *const *own);

/* Keeps a refusal unless there is one already. */
void checkpoint_keys_refuse(struct checkpoint_keys *keys, enum result result, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));

#endif
