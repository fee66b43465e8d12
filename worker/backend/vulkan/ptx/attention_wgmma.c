/*
 * Attention of many rows (prompts, images) over the paged f16 cache in Hopper's warpgroup matrix units: the
 * contract of shaders/attention_matrix.comp.
 *
 * A group has a tile's rows, each with head_tile query heads of one KV head: 128 queries, 64 to each of
 * two warpgroups, which keep them, and their sums over the head, in registers. Keys and values pass
 * through two slots each in shared memory, SPAN positions at a time. In a round a warpgroup starts the
 * scores of the next span and then the sums of this one, and computes the next one's weights while
 * the sums run. Copies of the span after that go on meanwhile.
 *
 * Scores lie in the registers that the factor A of the second product wants, so weights never leave
 * them. A row's maximum is only updated, and its sums rescaled, when it grows by more than
 * RESCALE_SLACK: weights are at most 2^RESCALE_SLACK.
 *
 * A context may be split over groups (grid y): the last one to finish adds the parts in order.
 * Positions that no query of the tile sees are not read; their keys and values are zeros.
 */
// variant: 64 256 -DDIM=64
// variant: 80 256 -DDIM=80
// variant: 128 256 -DDIM=128
#include "worker/backend/vulkan/ptx/hopper.h"

#define THREADS       256u
#define SPAN          48u
#define BLOCK_TOKENS  16u
#define CHUNKS        (DIM / 8u)          /* sixteen bytes of a position's key */
#define HALF_BYTES    (SPAN * 128u)       /* 64 columns of a span */
#define HALVES        ((DIM + 63u) / 64u) /* of a key */
#define SLOT_BYTES    (HALVES * HALF_BYTES)
#define LOADS         ((SPAN * CHUNKS + THREADS - 1) / THREADS)
#define COLUMNS       (DIM / 2u)  /* sums of a lane */
#define SCORES        (SPAN / 2u) /* of a lane */
#define TILE_BYTES    8192u       /* staged_halves.glsl */
#define RESCALE_SLACK 6.0f
#define NOTHING       -1e30f
#define MASKED        -1e38f
#define LOG2_E        1.4426950408889634f
#define HALF_LARGEST  65504.0f

enum { FORM_F32 = 1, FORM_F16 = 2, FORM_STAGED = 16 };
enum { KEYS, VALUES };

extern SHARED __attribute__((aligned(1024))) u8 shared_bytes[];

#define LOW(word)  ((u32)(word))
#define HIGH(word) ((u32)((word) >> 32))

/* struct vulkan_attention_rows_push; then enum vulkan_attention_wgmma_constant, two to a word. */
#define PARAMETERS                                                                                 \
    u64 qkv, u64 keys, u64 values, u64 items, u64 sequences, u64 tables, u64 partials,             \
        u64 counters, u64 out_f32, u64 out_f16, u64 out_q8, u64 out_terms, u64 kv_tables,          \
        u64 sights, u64 sinks, u64 norms, u64 forms_group, u64 tile_root, u64 window_kv,           \
        u64 stride_offset, u64 scale_cap, u64 sinks_spans

struct tile {
    u32 sequence, first_row, row_count, first_position;
};

INLINE float float_of(u32 bits)
{
    float x;
    __asm__("mov.b32 %0, %1;" : "=f"(x) : "r"(bits));
    return x;
}

INLINE u32 word_at(u64 at, u64 index)
{
    return ((const GLOBAL u32 *)at)[index];
}

INLINE float larger(float a, float b)
{
    return a > b ? a : b;
}

INLINE float of_lane_xor(float x, u32 mask)
{
    float r;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
                     : "=f"(r)
                     : "f"(x), "r"(mask));
    return r;
}

INLINE bool any_lane(bool is)
{
    u32 r;
    __asm__ volatile("{\n.reg .pred p, q;\nsetp.ne.u32 p, %1, 0;\n"
                     "vote.sync.any.pred q, p, 0xffffffff;\nselp.u32 %0, 1, 0, q;\n}"
                     : "=r"(r)
                     : "r"((u32)is));
    return r != 0;
}

/* Two halves, `low` in the low bits. */
INLINE u32 pair_of(float low, float high)
{
    u32 r;
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

INLINE float clamp_half(float x)
{
    x = x > HALF_LARGEST ? HALF_LARGEST : x;
    return x < -HALF_LARGEST ? -HALF_LARGEST : x;
}

/* Sixteen bytes, or zeros. */
INLINE void copy_chunk(u32 to, u64 from, bool there)
{
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(there ? 16u : 0u)
                     : "memory");
}

INLINE void copies_commit(void)
{
    __asm__ volatile("cp.async.commit_group;" ::: "memory");
}

/* This thread's copies but the last `left` groups have arrived, for products of the whole group too. */
#define COPIES_ARRIVE(left)                                                                        \
    __asm__ volatile("cp.async.wait_group " #left ";\nfence.proxy.async;\nbar.sync 0;" ::          \
                         : "memor"                                                                 \
                           "y")

#define S8(d, i) S4(d, i), S4(d, i + 4)
#define R8_2     "%16,%17,%18,%19,%20,%21,%22,%23"
#define R8_4     "%32,%33,%34,%35,%36,%37,%38,%39"
#define PRODUCT_OF(n, more, turned, sums, a0, a1, a2, a3, b)                                       \
    "{\n.reg .pred p;\nsetp.ne.u32 p, " more ", 0;\n"                                              \
    "wgmma.mma_async.sync.aligned.m64n" n "k16.f32.f16.f16 {" sums "}, {" a0 "," a1 "," a2 "," a3  \
    "}, " b ", p, 1, 1, " turned ";\n}"

/* s = or += a times the keys that `b` describes. */
#define SCORE_PRODUCT(more, s, a, b)                                                               \
    __asm__ volatile(                                                                              \
        PRODUCT_OF("48", more, "0", R16_0 "," R8_2, "%24", "%25", "%26", "%27", "%28")             \
        : S16(s, 0), S8(s, 16)                                                                     \
        : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b))

/* d += a times the values that `b` describes, whose columns are contiguous. */
INLINE void add_values(float *d, const u32 *a, u64 b)
{
#if DIM == 128
    __asm__ volatile(PRODUCT_OF("128", "1", "1", R16_0 "," R16_1 "," R16_2 "," R16_3, "%64", "%65",
                                "%66", "%67", "%68")
                     : S16(d, 0), S16(d, 16), S16(d, 32), S16(d, 48)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#elif DIM == 80
    __asm__ volatile(
        PRODUCT_OF("80", "1", "1", R16_0 "," R16_1 "," R8_4, "%40", "%41", "%42", "%43", "%44")
        : S16(d, 0), S16(d, 16), S8(d, 32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
    __asm__ volatile(PRODUCT_OF("64", "1", "1", R16_0 "," R16_1, "%32", "%33", "%34", "%35", "%36")
                     : S16(d, 0), S16(d, 16)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

/* A slot: per 64 columns rows of 128 bytes, eight of them 1,024, in the 128-byte swizzle: the sixteen
 * bytes c of row r lie at c ^ (r % 8). As values, eight rows are a step of the columns of A, and
 * the next 64 columns lie HALF_BYTES further. */
INLINE u64 slot_descriptor(u32 at, bool is_values)
{
    u64 leading = is_values && HALVES > 1 ? HALF_BYTES >> 4 : 1;
    return (u64)((at & 0x3ffff) >> 4) | leading << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

/* What a group works on. */
struct work {
    struct tile tile;
    u32 group_heads, head_tile, kv_heads, kv_head, first_head;
    u32 window, first_seen, begin, end, split, splits;
    u64 table; /* its block table */
    float scale, cap;
    bool spans;
};

/* A lane's two rows h of its warpgroup's queries. */
struct lane_rows {
    u32 query[2]; /* of the tile */
    u32 own[2];   /* position; spans: end of the positions that it sees */
    float maximum[2], total[2];
};

INLINE bool row_exists(const struct work *w, u32 query)
{
    u32 head = w->first_head - w->kv_head * w->group_heads + query % w->head_tile;
    return query / w->head_tile < w->tile.row_count && head < w->group_heads;
}

/* --- copies --- */

struct chunk_blocks {
    u32 at[LOADS];
};

INLINE u32 chunk_row(u32 load)
{
    return (THREAD + load * THREADS) / CHUNKS;
}

/* A block of which no query of the tile sees a position may have been given back. */
INLINE bool is_read(const struct work *w, u32 position)
{
    return position >= w->first_seen && position < w->end;
}

INLINE void find_blocks(const struct work *w, u32 first, struct chunk_blocks *blocks)
{
    UNROLL for (u32 i = 0; i < LOADS; i++)
    {
        u32 position = first + chunk_row(i);
        blocks->at[i] = is_read(w, position) && chunk_row(i) < SPAN
                            ? word_at(w->table, position / BLOCK_TOKENS)
                            : 0;
    }
}

/* Starts copies of keys, or values, of the span from `first` on. */
INLINE void copy_span(const struct work *w, u64 region, u32 slot, u32 first,
                      const struct chunk_blocks *blocks)
{
    UNROLL for (u32 i = 0; i < LOADS; i++)
    {
        u32 row = chunk_row(i), chunk = (THREAD + i * THREADS) % CHUNKS, position = first + row;
        if (SPAN * CHUNKS % THREADS != 0 && row >= SPAN)
            continue;
        u64 at = ((u64)blocks->at[i] * w->kv_heads + w->kv_head) * BLOCK_TOKENS +
                 position % BLOCK_TOKENS;
        copy_chunk(slot + chunk / 8 * HALF_BYTES + row * 128 + 16 * (chunk % 8 ^ row % 8),
                   region + at * (2 * DIM) + 16 * chunk, is_read(w, position));
    }
}

/* --- products --- */

/* Queries in the layout of A, scaled for powers of two. */
INLINE void take_queries(const struct work *w, const struct lane_rows *rows, u64 qkv, u32 stride,
                         u32 offset, u32 *query)
{
    UNROLL for (u32 h = 0; h < 2; h++)
    {
        u32 q = rows->query[h];
        bool there = row_exists(w, q);
        u64 row = w->tile.first_row + (there ? q / w->head_tile : 0);
        u32 head = w->first_head + (there ? q % w->head_tile : 0);
        const GLOBAL float *from =
            (const GLOBAL float *)qkv + row * stride + offset + head * DIM + THREAD % 4 * 2;
        UNROLL for (u32 i = 0; i < DIM / 8; i++)
        {
            float a = clamp_half(from[8 * i] * w->scale),
                  b = clamp_half(from[8 * i + 1] * w->scale);
            query[i / 2 * 4 + i % 2 * 2 + h] = there ? pair_of(a, b) : 0;
        }
    }
}

INLINE void start_scores(float *s, const u32 *query, u32 slot)
{
    u64 b = slot_descriptor(slot, false);
    products_begin();
    SCORE_PRODUCT("0", s, query, b);
    UNROLL for (u32 k = 1; k < DIM / 16; k++)
        SCORE_PRODUCT("1", s, query + 4 * k, b + (k / 4 * HALF_BYTES + k % 4 * 32) / 16);
    products_commit();
}

/* Registers of products that are done: what reads them stays after the wait. */
INLINE void hold_scores(float *s)
{
    __asm__ volatile("" : S16(s, 0), S8(s, 16)::"memory");
}

INLINE void hold_sums(float *d)
{
    UNROLL for (u32 i = 0; i < COLUMNS; i += 8) __asm__ volatile("" : S8(d, i)::"memory");
}

INLINE void start_sums(float *sums, const u32 *weights, u32 slot)
{
    u64 b = slot_descriptor(slot, true);
    products_begin();
    UNROLL for (u32 k = 0; k < SPAN / 16; k++) add_values(sums, weights + 4 * k, b + k * 2048 / 16);
    products_commit();
}

/* --- the running softmax --- */

INLINE void mask(const struct work *w, const struct lane_rows *rows, u32 first, float *s)
{
    UNROLL for (u32 i = 0; i < SCORES; i++)
    {
        u32 h = i / 2 % 2, position = first + i / 4 * 8 + THREAD % 4 * 2 + i % 2;
        bool seen = w->spans ? position >= w->first_seen && position < rows->own[h]
                             : position <= rows->own[h];
        seen = seen && position < w->end && (w->window == 0 || position + w->window > rows->own[h]);
        s[i] = seen ? s[i] : MASKED;
    }
}

/* Scores of the span from `first` on become weights; whether sums must be multiplied by factor[h]. */
INLINE bool weigh(const struct work *w, struct lane_rows *rows, u32 first, float *s, u32 *weights,
                  float *factor)
{
    if (w->cap > 0) /* cap * tanh(score / cap), shaders/score_cap.glsl */
        UNROLL for (u32 i = 0; i < SCORES; i++) s[i] =
            w->cap * LOG2_E * (1.0f - divide(2.0f, 1.0f + power_of_2(s[i] * divide(2.0f, w->cap))));
    if (first + SPAN > w->tile.first_position + 1 || first + SPAN > w->end || w->window > 0 ||
        (w->spans && first < w->first_seen))
        mask(w, rows, first, s);
    bool grows[2];
    float top[2];
    UNROLL for (u32 h = 0; h < 2; h++)
    {
        float t = MASKED;
        UNROLL for (u32 j = 0; j < SPAN / 8; j++) t =
            larger(t, larger(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        t = larger(t, of_lane_xor(t, 1));
        top[h] = larger(t, of_lane_xor(t, 2));
        grows[h] = top[h] > rows->maximum[h] + RESCALE_SLACK;
        factor[h] = grows[h] ? power_of_2(rows->maximum[h] - top[h]) : 1.0f;
        rows->maximum[h] = grows[h] ? top[h] : rows->maximum[h];
        rows->total[h] *= factor[h];
    }
    UNROLL for (u32 i = 0; i < SCORES; i += 2)
    {
        u32 h = i / 2 % 2;
        float a = power_of_2(s[i] - rows->maximum[h]), b = power_of_2(s[i + 1] - rows->maximum[h]);
        rows->total[h] += a + b;
        weights[i / 2] = pair_of(a, b);
    }
    return any_lane(grows[0] || grows[1]);
}

INLINE void rescale(float *sums, const float *factor)
{
    UNROLL for (u32 i = 0; i < COLUMNS; i++) sums[i] *= factor[i / 2 % 2];
}

/* --- output --- */

/* The place that staged_half() of staged_halves.glsl gives. */
INLINE u64 staged_half(u32 row, u32 column, u32 columns)
{
    u32 f = column % 32 / 4, e = column % 4, chunk = f % 2 * 2 + e % 2;
    u64 tile = (u64)(row / 128) * (columns / 32) + column / 128 * 4 + f / 2;
    return tile * (TILE_BYTES / 2) + row % 128 * 32 + 8 * (chunk ^ (row / 2 % 4)) +
           column / 32 % 4 * 2 + e / 2;
}

struct target {
    u64 f32, f16;
    u32 forms;
};

INLINE void put(const struct work *w, const struct target *to, u32 query, u32 column, float a,
                float b)
{
    if (!row_exists(w, query))
        return;
    u32 columns = w->kv_heads * w->group_heads * DIM,
        row = w->tile.first_row + query / w->head_tile;
    column += (w->first_head + query % w->head_tile) * DIM;
    u64 at = (u64)row * columns + column;
    if (to->forms & FORM_F32) {
        ((GLOBAL float *)to->f32)[at] = a;
        ((GLOBAL float *)to->f32)[at + 1] = b;
    }
    if (to->forms & FORM_F16)
        ((GLOBAL u32 *)to->f16)[at / 2] = pair_of(clamp_half(a), clamp_half(b));
    if (to->forms & FORM_STAGED) {
        ((GLOBAL u16 *)to->f16)[staged_half(row, column, columns)] = half_of(a);
        ((GLOBAL u16 *)to->f16)[staged_half(row, column + 1, columns)] = half_of(b);
    }
}

/* exp(sink - top) of the query's head, where heads have sinks; `top` in powers of two. */
INLINE float sink_weight(const struct work *w, u64 sinks, u32 query, float top)
{
    u32 head = min(w->first_head + query % w->head_tile, w->kv_heads * w->group_heads - 1);
    return sinks ? power_of_2(float_of(word_at(sinks, head)) * LOG2_E - top) : 0.0f;
}

INLINE void write_sums(const struct work *w, const struct target *to, u64 sinks,
                       const struct lane_rows *rows, const float *sums)
{
    UNROLL for (u32 h = 0; h < 2; h++)
    {
        u32 q = rows->query[h];
        float factor = divide(1.0f, rows->total[h] + sink_weight(w, sinks, q, rows->maximum[h]));
        UNROLL for (u32 j = 0; j < COLUMNS / 4; j++)
            put(w, to, q, 8 * j + THREAD % 4 * 2, sums[4 * j + 2 * h] * factor,
                sums[4 * j + 2 * h + 1] * factor);
    }
}

/* --- parts of split contexts: f32 [items][columns][splits][4 + COLUMNS][THREADS] --- */

INLINE u64 part_index(void)
{
    return (u64)(GROUPS_Z - 1 - GROUP_Z) * GROUPS_X + GROUP_X;
}

INLINE GLOBAL float *part_at(u64 partials, u32 split)
{
    return (GLOBAL float *)partials +
           (part_index() * GROUPS_Y + split) * ((4 + COLUMNS) * THREADS) + THREAD;
}

/* Whether the other splits' parts are written too. */
INLINE bool parts_complete(const struct work *w, u64 counters, u32 shared)
{
    u32 before;
    group_barrier();
    if (THREAD == 0) {
        u64 counter = counters + 4 * part_index();
        __asm__ volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                         : "=r"(before)
                         : "l"(counter)
                         : "memory");
        if (before == w->splits - 1)
            *(GLOBAL u32 *)counter = 0;
        shared_store(shared, before);
    }
    group_barrier();
    __asm__ volatile("ld.shared.u32 %0, [%1];" : "=r"(before) : "r"(shared) : "memory");
    return before == w->splits - 1;
}

INLINE void write_part(const struct work *w, u64 partials, const struct lane_rows *rows,
                       const float *sums)
{
    GLOBAL float *to = part_at(partials, w->split);
    UNROLL for (u32 h = 0; h < 2; h++)
    {
        to[h * THREADS] = rows->maximum[h];
        to[(2 + h) * THREADS] = rows->total[h];
    }
    UNROLL for (u32 i = 0; i < COLUMNS; i++) to[(4 + i) * THREADS] = sums[i];
}

INLINE void add_parts(const struct work *w, u64 partials, struct lane_rows *rows, float *sums)
{
    UNROLL for (u32 h = 0; h < 2; h++) rows->maximum[h] = NOTHING, rows->total[h] = 0;
    UNROLL for (u32 i = 0; i < COLUMNS; i++) sums[i] = 0;
    ROLLED for (u32 s = 0; s < w->splits; s++)
    {
        const GLOBAL float *from = part_at(partials, s);
        float old[2], fresh[2];
        UNROLL for (u32 h = 0; h < 2; h++)
        {
            float top = from[h * THREADS], higher = larger(top, rows->maximum[h]);
            old[h] = power_of_2(rows->maximum[h] - higher);
            fresh[h] = power_of_2(top - higher);
            rows->total[h] = rows->total[h] * old[h] + from[(2 + h) * THREADS] * fresh[h];
            rows->maximum[h] = higher;
        }
        UNROLL for (u32 i = 0; i < COLUMNS; i++) sums[i] =
            sums[i] * old[i / 2 % 2] + from[(4 + i) * THREADS] * fresh[i / 2 % 2];
    }
}

/* --- the kernel --- */

INLINE u32 divide_up(u32 a, u32 b)
{
    return (a + b - 1) / b;
}

INLINE u32 root_above(u32 factor, u32 x)
{
    float r;
    __asm__("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"((float)x));
    return (u32)(r * (float)factor) + 1;
}

/* The positions of the group; false if there are none. */
INLINE bool find_work(struct work *w, u64 items, u64 sequences, u64 tables, u64 sights,
                      u32 kv_group, u32 root)
{
    u32 head_tiles = divide_up(w->group_heads, w->head_tile);
    w->kv_heads = GROUPS_X / head_tiles;
    w->kv_head = GROUP_X / head_tiles;
    w->first_head = w->kv_head * w->group_heads + GROUP_X % head_tiles * w->head_tile;
    /* The last tiles see the most positions, so they begin first. */
    w->tile = ((const GLOBAL struct tile *)items)[GROUPS_Z - 1 - GROUP_Z];
    if (w->tile.row_count == 0 || w->tile.row_count * w->head_tile > 128)
        return false;
    w->table = tables + 4ull * word_at(sequences, (u64)w->tile.sequence * 8 + 4 + kv_group);
    u32 first = w->tile.first_position, last = first + w->tile.row_count;
    w->first_seen = w->window > 0 && first + 1 > w->window ? first + 1 - w->window : 0;
    if (w->spans) { /* ends never decrease from row to row, and all rows have the same begin */
        last = word_at(sights, (u64)(w->tile.first_row + w->tile.row_count - 1) * 8 + 5);
        u32 begin = word_at(sights, (u64)w->tile.first_row * 8 + 4);
        w->first_seen = w->first_seen > begin ? w->first_seen : begin;
    }
    u32 aligned = w->first_seen / BLOCK_TOKENS * BLOCK_TOKENS;
    u32 least = root_above(root, last - aligned);
    least = least > 4 * SPAN ? least : 4 * SPAN;
    u32 share = divide_up(last - aligned, GROUPS_Y);
    share = divide_up(share > least ? share : least, SPAN) * SPAN;
    w->splits = divide_up(last - aligned, share);
    w->split = GROUP_Y;
    w->begin = aligned + w->split * share;
    w->end = min(last, w->begin + share);
    return w->split < w->splits;
}

INLINE void init_rows(const struct work *w, u64 sights, struct lane_rows *rows)
{
    UNROLL for (u32 h = 0; h < 2; h++)
    {
        u32 q = THREAD / 32 * 16 + THREAD % 32 / 4 + 8 * h, row = q / w->head_tile;
        rows->query[h] = q;
        rows->own[h] = w->tile.first_position + row;
        if (w->spans)
            rows->own[h] =
                word_at(sights, (u64)(w->tile.first_row + min(row, w->tile.row_count - 1)) * 8 + 5);
        rows->maximum[h] = NOTHING;
        rows->total[h] = 0;
    }
}

/* What copies of further spans need. */
struct copying {
    u64 keys, values;
    u32 shared;
    struct chunk_blocks next; /* of the span from `first` on */
};

/* Adds the span before `first`, whose weights are `weights`, and weighs the one from `first` on. Slots:
 * values of the former and keys of the span after the latter have `slot`. */
INLINE void visit_span(const struct work *w, struct lane_rows *rows, struct copying *c, u32 first,
                       u32 slot, const u32 *query, float *sums, const u32 *weights, u32 *ahead)
{
    u32 key_slots = c->shared, value_slots = c->shared + 2 * SLOT_BYTES;
    float factor[2], s[SCORES];
    UNROLL for (u32 i = 0; i < SCORES; i++) s[i] = 0;
    COPIES_ARRIVE(0); /* all have read what the slots held before */
    start_scores(s, query, key_slots + (slot ^ 1) * SLOT_BYTES);
    start_sums(sums, weights, value_slots + slot * SLOT_BYTES);
    copy_span(w, c->values, value_slots + (slot ^ 1) * SLOT_BYTES, first, &c->next);
    find_blocks(w, first + SPAN, &c->next);
    copy_span(w, c->keys, key_slots + slot * SLOT_BYTES, first + SPAN, &c->next);
    copies_commit();
    PRODUCTS_WAIT(1);
    hold_scores(s);
    bool rescales = weigh(w, rows, first, s, ahead, factor);
    PRODUCTS_WAIT(0);
    hold_sums(sums);
    if (rescales)
        rescale(sums, factor);
}

INLINE void last_sums(float *sums, const u32 *weights, u32 shared, u32 slot)
{
    COPIES_ARRIVE(0);
    start_sums(sums, weights, shared + (2 + slot) * SLOT_BYTES);
    PRODUCTS_WAIT(0);
    hold_sums(sums);
}

KERNEL kernel(PARAMETERS)
{
    (void)out_q8, (void)out_terms, (void)kv_tables, (void)norms;
    struct work w = {.group_heads = HIGH(forms_group),
                     .head_tile = LOW(tile_root),
                     .window = LOW(window_kv),
                     .scale = float_of(LOW(scale_cap)) * LOG2_E,
                     .cap = float_of(HIGH(scale_cap)),
                     .spans = HIGH(sinks_spans) != 0};
    if (!find_work(&w, items, sequences, tables, sights, HIGH(window_kv), HIGH(tile_root)))
        return;
    u32 shared = shared_address(shared_bytes);
    struct copying step = {.keys = keys, .values = values, .shared = shared};
    struct chunk_blocks blocks;
    find_blocks(&w, w.begin, &blocks);
    find_blocks(&w, w.begin + SPAN, &step.next);
    copy_span(&w, keys, shared, w.begin, &blocks);
    copies_commit();
    copy_span(&w, values, shared + 2 * SLOT_BYTES, w.begin, &blocks);
    copy_span(&w, keys, shared + SLOT_BYTES, w.begin + SPAN, &step.next);
    copies_commit();
    struct lane_rows rows;
    init_rows(&w, sights, &rows);
    u32 query[DIM / 4];
    take_queries(&w, &rows, qkv, LOW(stride_offset), HIGH(stride_offset), query);
    float sums[COLUMNS], s[SCORES], factor[2];
    UNROLL for (u32 i = 0; i < COLUMNS; i++) sums[i] = 0;
    UNROLL for (u32 i = 0; i < SCORES; i++) s[i] = 0;
    u32 even[SCORES / 2], odd[SCORES / 2];
    COPIES_ARRIVE(1);
    start_scores(s, query, shared);
    PRODUCTS_WAIT(0);
    hold_scores(s);
    weigh(&w, &rows, w.begin, s, even, factor);
    u32 first = w.begin + SPAN;
    ROLLED while (true)
    {
        if (first >= w.end) {
            last_sums(sums, even, shared, 0);
            break;
        }
        visit_span(&w, &rows, &step, first, 0, query, sums, even, odd);
        first += SPAN;
        if (first >= w.end) {
            last_sums(sums, odd, shared, 1);
            break;
        }
        visit_span(&w, &rows, &step, first, 1, query, sums, odd, even);
        first += SPAN;
    }
    UNROLL for (u32 h = 0; h < 2; h++)
    {
        rows.total[h] += of_lane_xor(rows.total[h], 1);
        rows.total[h] += of_lane_xor(rows.total[h], 2);
    }
    u64 own_sinks = LOW(sinks_spans) ? sinks : 0;
    if (w.splits > 1) {
        write_part(&w, partials, &rows, sums);
        if (!parts_complete(&w, counters, shared))
            return;
        add_parts(&w, partials, &rows, sums);
    }
    const struct target to = {out_f32, out_f16, LOW(forms_group)};
    write_sums(&w, &to, own_sinks, &rows, sums);
}
