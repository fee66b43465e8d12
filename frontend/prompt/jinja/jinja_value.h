/*
 * The values of templates: Python's, as far as a sandboxed template can reach them.
 *
 * All are immutable except namespaces, cyclers, joiners, loops and iterators; all are in an arena
 * (the compiled template's for literals, the rendering's for the others). Strings carry the
 * provenance of each byte.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_VALUE_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jinja_run;
struct jinja_call;
struct jinja_node;
struct jinja_frame;
struct jinja_buffer;

enum jinja_kind {
    JINJA_MISSING = 0, /* no value: an unset slot, an argument that was not passed */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_VIEW, /* dict.keys(), values(), items() */
    JINJA_RANGE,
    JINJA_ITERATOR, /* like Python's generators: consumed once, no length */
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_JOINER,
    JINJA_MACRO,
    JINJA_FUNCTION, /* a builtin, perhaps bound to a value */
    JINJA_KIND_COUNT
};

struct jinja_value {
    enum jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const struct jinja_string *string;
        const struct jinja_list *list; /* and tuple */
        const struct jinja_dict *dict;
        const struct jinja_undefined *undefined;
        const struct jinja_view *view;
        const struct jinja_range *range;
        struct jinja_iterator *iterator;
        struct jinja_dict *names; /* of a namespace */
        struct jinja_loop *loop;
        struct jinja_cycler *cycler;
        struct jinja_joiner *joiner;
        const struct jinja_macro *macro;
        const struct jinja_function *function;
    } as;
};

/*
 * `trust` has one entry per byte if the string has bytes of both kinds; if it is NULL, `trusted`
 * applies to all. `tail` is the growing buffer at whose end these bytes are, if any
 * (jinja_string_concat).
 */
struct jinja_string {
    const char *bytes;
    const uint8_t *trust;
    size_t length;
    struct jinja_buffer *tail;
    bool trusted;
    bool markup; /* result of `safe` or `escape`: joining it with plain text escapes that text */
};

struct jinja_list {
    const struct jinja_value *items;
    size_t count;
    bool group; /* a pair made by `groupby`, whose items are also named grouper and list */
};

/* Why a value is undefined: a given message, or an unknown name, or a member that an object of a
 * type lacks. */
struct jinja_undefined {
    const char *hint;
    const char *object_type;
    struct jinja_value name;
};

struct jinja_entry {
    struct jinja_value key;
    struct jinja_value value;
    uint64_t hash;
};

/* In order of insertion. `index` is a hash table of positions (0 is empty, i + 1 is entries[i]),
 * built for larger dictionaries. */
struct jinja_dict {
    struct jinja_entry *entries;
    size_t count;
    size_t capacity;
    uint32_t *index;
    size_t index_size; /* power of two, or 0 */
};

enum jinja_view_part { JINJA_VIEW_KEYS, JINJA_VIEW_VALUES, JINJA_VIEW_ITEMS };

struct jinja_view {
    const struct jinja_dict *dict;
    enum jinja_view_part part;
};

struct jinja_range {
    int64_t start;
    int64_t stop;
    int64_t step;
    size_t count;
};

/* Its items were computed at creation; `failure` is the message that the reader gets at their
 * end. */
struct jinja_iterator {
    const struct jinja_value *items;
    size_t count;
    size_t next;
    const char *failure; /* NULL: no failure */
};

struct jinja_cycler {
    const struct jinja_value *items;
    size_t count;
    size_t next;
};

struct jinja_joiner {
    struct jinja_value separator;
    bool used;
};

struct jinja_macro {
    const struct jinja_node *node;
    struct jinja_frame *outer;
};

typedef bool jinja_builtin(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out);

/*
 * A builtin's name, code and parameters: words separated by blanks; from the one after `|` on they
 * are optional. NULL: the builtin reads positional and keyword arguments itself.
 */
struct jinja_signature {
    const char *name;
    jinja_builtin *builtin;
    const char *parameters;
};

struct jinja_function {
    const struct jinja_signature *signature;
    struct jinja_value self; /* JINJA_MISSING for a free function */
};

static inline struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.kind = JINJA_NONE};
}

static inline struct jinja_value jinja_bool(bool boolean)
{
    return (struct jinja_value){.kind = JINJA_BOOL, .as.boolean = boolean};
}

static inline struct jinja_value jinja_int(int64_t integer)
{
    return (struct jinja_value){.kind = JINJA_INT, .as.integer = integer};
}

static inline struct jinja_value jinja_float(double real)
{
    return (struct jinja_value){.kind = JINJA_FLOAT, .as.real = real};
}

static inline struct jinja_value jinja_string(const struct jinja_string *string)
{
    return (struct jinja_value){.kind = JINJA_STRING, .as.string = string};
}

static inline bool jinja_is_absent(struct jinja_value value)
{
    return value.kind == JINJA_MISSING;
}

/* Python's type(value).__name__, as error messages show it. */
const char *jinja_value_type(struct jinja_value value);

bool jinja_value_truth(struct jinja_value value);

/* An int, or a bool as an int. */
bool jinja_value_integer(struct jinja_value value, int64_t *integer);

/* An int, bool or float as a double. */
bool jinja_value_real(struct jinja_value value, double *real);

/*
 * Python's == and <. They fail (return false, with the run's failure set) only at a bound or, for
 * <, for values that have no order.
 */
bool jinja_value_equal(struct jinja_run *run, struct jinja_value left, struct jinja_value right,
                       bool *equal);
bool jinja_value_less(struct jinja_run *run, struct jinja_value left, struct jinja_value right,
                      bool *less);

/* Fails for values that Python calls unhashable. Equal values have equal hashes. */
bool jinja_value_hash(struct jinja_run *run, struct jinja_value value, uint64_t *hash);

#endif
