/*
 * Regular expressions over bytes as a table of shared nodes: equal expressions have one id. Counted
 * repetition, intersection and complement are nodes of their own, so none is ever written out.
 *
 * The constructors normalize (neutral and absorbing elements, concatenations nested to the right,
 * alternatives sorted without duplicates), so that the derivatives of an expression are finitely
 * many. Derivatives: Brzozowski, "Derivatives of regular expressions" (1964).
 *
 * Every node and step is paid from `fuel` and `bytes_limit`; a constructor that cannot pay returns
 * REGEX_FAILED and sets `failure`. REGEX_FAILED as an argument gives REGEX_FAILED.
 */
#ifndef SHOAL_PROTO_GRAMMAR_REGEX_H
#define SHOAL_PROTO_GRAMMAR_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGEX_NOTHING   0u /* no string */
#define REGEX_EMPTY     1u /* the empty string */
#define REGEX_ANYTHING  2u /* every byte string */
#define REGEX_FAILED    UINT32_MAX
#define REGEX_UNBOUNDED UINT32_MAX

enum regex_kind {
    REGEX_KIND_NOTHING = 0,
    REGEX_KIND_EMPTY,
    REGEX_KIND_SET,    /* one byte; a = index of its set */
    REGEX_KIND_CONCAT, /* a, then b; a is no CONCAT */
    REGEX_KIND_OR,     /* a or b; a is no OR; ids ascend along b */
    REGEX_KIND_AND,    /* a and b; the same order */
    REGEX_KIND_NOT,    /* every byte string that is not in a */
    REGEX_KIND_REPEAT, /* minimum to maximum times a; b unused */
    REGEX_KIND_COUNT
};

struct regex_node {
    uint32_t a;
    uint32_t b;
    uint32_t minimum;
    uint32_t maximum;
    uint32_t shortest; /* lower bound of the length of its strings, saturated */
    uint32_t longest;  /* upper bound; REGEX_UNBOUNDED: none is known */
    uint32_t mark;     /* the walk that reached it last */
    uint16_t depth;    /* nesting to the left: recursion of the derivative */
    uint8_t kind;
    uint8_t nullable : 1;   /* contains the empty string */
    uint8_t is_complex : 1; /* contains AND or NOT: emptiness needs a search */
    uint8_t liveness : 2;   /* enum regex_liveness, as far as known */
};

struct regex_byte_set {
    uint64_t words[4]; /* bit b % 64 of words[b / 64] is byte b */
};

enum regex_failure { REGEX_FINE = 0, REGEX_OUT_OF_FUEL, REGEX_OUT_OF_MEMORY, REGEX_TOO_DEEP };

struct regex_scratch {
    uint32_t *ids;
    size_t count;
    size_t capacity;
};

/* A derivative that was computed lately; at first NOTHING of NOTHING, which is right. */
struct regex_derived {
    uint32_t node;
    uint32_t result;
    uint8_t byte;
};

#define REGEX_LIVE_BYTES 4u
#define REGEX_LIVE_PATHS 4u
#define REGEX_PATH_BYTES 15u

/* Bytes that led from a node to one that is live. */
struct regex_live_path {
    uint8_t count; /* 0: free */
    uint8_t bytes[REGEX_PATH_BYTES];
};

struct regex_store {
    struct regex_node *nodes;
    uint32_t node_count;
    uint32_t node_capacity;
    struct regex_byte_set *sets;
    uint32_t set_count;
    uint32_t set_capacity;
    uint64_t *slots; /* hash table: hash, node id; 0: free */
    uint32_t slot_mask;
    uint32_t *set_slots;      /* of set index + 1 */
    uint32_t byte_nodes[256]; /* regex_byte(); REGEX_NOTHING: not made yet */
    uint32_t set_slot_mask;
    struct regex_derived *derived; /* [derived_mask + 1], an entry by hash of node and byte */
    uint32_t derived_mask;
    struct regex_scratch scratch;
    uint32_t walk;                        /* walks over nodes so far, see mark */
    uint8_t live_bytes[REGEX_LIVE_BYTES]; /* that ended searches, latest first; 0: none */
    struct regex_live_path live_paths[REGEX_LIVE_PATHS]; /* that searches found, latest first */
    uint64_t hash_key; /* drawn, so that clients cannot construct collisions */
    size_t bytes;
    size_t bytes_limit;
    uint64_t fuel; /* the owner may refill it and reset REGEX_OUT_OF_FUEL */
    enum regex_failure failure;
};

/* False: out of memory. */
bool regex_store_init(struct regex_store *store, size_t bytes_limit, uint64_t fuel);
void regex_store_fini(struct regex_store *store);
bool regex_spend(struct regex_store *store, uint64_t steps);
/* Pushes onto the scratch stack; false: failed, or the id is REGEX_FAILED. */
bool regex_scratch_push(struct regex_store *store, uint32_t id);
/* Alternatives of the ids above `base`, which it pops. */
uint32_t regex_or_scratch(struct regex_store *store, size_t base);

static inline bool regex_is_kind(const struct regex_store *store, uint32_t id, enum regex_kind kind)
{
    return store->nodes[id].kind == kind;
}

uint32_t regex_set(struct regex_store *store, const uint64_t words[4]);
uint32_t regex_byte(struct regex_store *store, uint8_t byte);
uint32_t regex_concat(struct regex_store *store, uint32_t x, uint32_t y);
uint32_t regex_or(struct regex_store *store, uint32_t x, uint32_t y);
uint32_t regex_or_of(struct regex_store *store, const uint32_t *parts, size_t count);
uint32_t regex_and(struct regex_store *store, uint32_t x, uint32_t y);
/* Over all byte strings, valid UTF-8 or not. */
uint32_t regex_not(struct regex_store *store, uint32_t x);
uint32_t regex_repeat(struct regex_store *store, uint32_t x, uint32_t minimum, uint32_t maximum);

/* The strings s for which byte + s is in `node`. */
uint32_t regex_derivative(struct regex_store *store, uint32_t node, uint8_t byte);

/* Narrows *same to bytes with the same derivative as `byte`, by the sets that a first byte meets. */
void regex_same_derivative(struct regex_store *store, uint32_t node, uint8_t byte,
                           struct regex_byte_set *same);

/* Bytes that no set of `nodes` tells apart have one class. representative[c] is a byte of class c;
 * members[c] are all of them. */
struct regex_classes {
    uint8_t class_of[256];
    uint8_t representative[256];
    uint32_t count;
    struct regex_byte_set members[256]; /* [count] */
};
void regex_classes_init(struct regex_classes *classes);
void regex_classes_split(struct regex_classes *classes, const struct regex_byte_set *set);
/* Of all sets that `node` reaches; false: out of fuel or memory. */
bool regex_classes_of(struct regex_store *store, uint32_t node, struct regex_classes *classes);

/* True: every text of `node` is a text of x{0,}. False also if `steps` nodes do not decide it. */
bool regex_is_within(struct regex_store *store, uint32_t node, uint32_t x, uint32_t *steps);

enum regex_liveness { REGEX_LIVENESS_UNKNOWN = 0, REGEX_LIVE, REGEX_DEAD };
/* Whether some string matches `node`; unknown if `steps` derivatives do not decide it or the store
 * fails. `classes` are of all sets that it reaches; NULL: they are found if they are needed. */
enum regex_liveness regex_liveness(struct regex_store *store, uint32_t node,
                                   const struct regex_classes *classes, uint32_t steps);

#endif
