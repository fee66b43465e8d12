/*
 * What the kernels of this folder need of PTX, as C: special registers, asynchronous copies into shared
 * memory with their barriers, and warpgroup matrix products. Compiled for nvptx64 alone.
 * Source of the instructions: NVIDIA's "Parallel Thread Execution ISA", version 8.0.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PTX_HOPPER_H
#define SHOAL_WORKER_BACKEND_VULKAN_PTX_HOPPER_H

#include <stdbool.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));

#define KERNEL __attribute__((nvptx_kernel)) void
#define INLINE static inline __attribute__((always_inline))
#define SHARED __attribute__((address_space(3)))
#define GLOBAL __attribute__((address_space(1)))
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")

#define THREAD   ((u32)__nvvm_read_ptx_sreg_tid_x())
#define GROUP_X  ((u32)__nvvm_read_ptx_sreg_ctaid_x())
#define GROUP_Y  ((u32)__nvvm_read_ptx_sreg_ctaid_y())
#define GROUP_Z  ((u32)__nvvm_read_ptx_sreg_ctaid_z())
#define GROUPS_X ((u32)__nvvm_read_ptx_sreg_nctaid_x())
#define GROUPS_Y ((u32)__nvvm_read_ptx_sreg_nctaid_y())
#define GROUPS_Z ((u32)__nvvm_read_ptx_sreg_nctaid_z())

INLINE void group_barrier(void)
{
    __asm__ volatile("bar.sync 0;" ::: "memory");
}

INLINE void warp_barrier(void)
{
    __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

/* --- pairs of halves in a register --- */

INLINE u32 add_halves(u32 a, u32 b)
{
    u32 r;
    __asm__("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

INLINE u32 multiply_halves(u32 a, u32 b)
{
    u32 r;
    __asm__("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

/* a * b + c, rounded once */
INLINE u32 fuse_halves(u32 a, u32 b, u32 c)
{
    u32 r;
    __asm__("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

/* Two E2M1 numbers, in the low four bits of each half of a register, times 2 as halves: their bits are those of a
 * half with other biases. */
INLINE u32 halves_of_e2m1(u32 pair)
{
    return multiply_halves((pair & 0x00070007u) << 9 | (pair & 0x00080008u) << 12, 0x78007800u);
}

/* Bytes of `low` (0 … 3) and `high` (4 … 7) that the four selectors name. */
INLINE u32 select_bytes(u32 low, u32 high, u32 selectors)
{
    u32 r;
    __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(selectors));
    return r;
}

/* (v & mask) | 0x64006400: bytes or nibbles as the halves 1024 + code; mask is a constant. */
#define CODES_AS_HALVES(v, mask)                                                                   \
    ({                                                                                             \
        u32 r_;                                                                                    \
        __asm__("lop3.b32 %0, %1, %2, 0x64006400, 0xea;" : "=r"(r_) : "r"(v), "n"(mask));          \
        r_;                                                                                        \
    })

/* The low, or the high, half of a register twice. */
INLINE u32 lows_twice(u32 v)
{
    u32 r;
    __asm__("prmt.b32 %0, %1, 0, 0x1010;" : "=r"(r) : "r"(v));
    return r;
}

INLINE u32 highs_twice(u32 v)
{
    u32 r;
    __asm__("prmt.b32 %0, %1, 0, 0x3232;" : "=r"(r) : "r"(v));
    return r;
}

/* The low, or the high, halves of two registers. */
INLINE u32 lows_together(u32 low, u32 high)
{
    u32 r;
    __asm__("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(r) : "r"(low), "r"(high));
    return r;
}

INLINE u32 highs_together(u32 low, u32 high)
{
    u32 r;
    __asm__("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(r) : "r"(low), "r"(high));
    return r;
}

/* An integer of -1,024 - 128 … 0 as a half, for constants. */
INLINE u32 half_bits_of(int value)
{
    u32 magnitude = (u32)-value, exponent = 0;
    while (magnitude >> exponent > 1)
        exponent++;
    return magnitude == 0
               ? 0
               : 0x8000u | (exponent + 15) << 10 | ((magnitude << 10 >> exponent) & 0x3ffu);
}

/* Rounded, within f16's finite range. */
INLINE u16 half_of(float value)
{
    u16 half;
    value = value > 65504.0f ? 65504.0f : value;
    value = value < -65504.0f ? -65504.0f : value;
    __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

/* Two floats as halves, within f16's finite range; `low` in the low half. */
INLINE u32 halves_of_floats(float low, float high)
{
    u32 r;
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    __asm__("min.f16x2 %0, %0, %1;" : "+r"(r) : "r"(0x7bff7bffu));
    __asm__("max.f16x2 %0, %0, %1;" : "+r"(r) : "r"(0xfbfffbffu));
    return r;
}

/* Two E4M3 numbers as halves, exactly. */
INLINE u32 halves_of_e4m3(u32 pair)
{
    u32 r;
    __asm__("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)pair));
    return r;
}

INLINE float float_of_half(u32 half)
{
    float r;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((u16)half));
    return r;
}

INLINE float bits_as_float(u32 bits)
{
    return __builtin_bit_cast(float, bits);
}

INLINE float power_of_2(float x)
{
    float r;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

INLINE float divide(float a, float b)
{
    float r;
    __asm__("div.approx.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

INLINE u32 min(u32 a, u32 b)
{
    return a < b ? a : b;
}

/* --- shared memory, by addresses there --- */

INLINE u32 shared_address(SHARED void *at)
{
    return (u32)(u64)at;
}

/* Sixteen bytes that no kernel writes while this one runs. The second-level cache gets the 256 bytes around
 * them at once: pieces of 64 bytes, from many rows of weights, would keep memory from its full rate. */
INLINE u32x4 load_line(u64 at)
{
    u32 a, b, c, d;
    __asm__("ld.global.nc.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
            : "l"(at));
    return (u32x4){a, b, c, d};
}

INLINE void shared_store(u32 at, u32 value)
{
    __asm__ volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}

INLINE void arrival_init(u32 at, u32 arrivals)
{
    __asm__ volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

/* After arrival_init(), by the same thread, before a group_barrier(). */
INLINE void arrival_publish(void)
{
    __asm__ volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __asm__ volatile("fence.proxy.async;" ::: "memory");
}

/* Arrives, and expects that copies will bring so many bytes. */
INLINE void arrival_expect(u32 at, u32 bytes)
{
    __asm__ volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                     : "memory");
}

INLINE void arrival_wait(u32 at, u32 parity)
{
    u32 done;
    do {
        __asm__ volatile("{\n.reg .pred p;\n"
                         "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, p;\n}"
                         : "=r"(done)
                         : "r"(at), "r"(parity)
                         : "memory");
    } while (!done);
}

/* Copies bytes (a multiple of 16) from memory; `barrier` counts them as they arrive. */
INLINE void copy_bulk(u32 to, u64 from, u32 bytes, u32 barrier)
{
    __asm__ volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];" ::"r"(to),
                     "l"(from), "r"(bytes), "r"(barrier)
                     : "memory");
}

/* Adds 1 to a counter in shared memory that wraps to 0 after `last`; returns what it was. */
INLINE u32 count_arrival(u32 at, u32 last)
{
    u32 before;
    __asm__ volatile("atom.acq_rel.cta.shared.inc.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "r"(at), "r"(last)
                     : "memory");
    return before;
}

/* --- products of a warpgroup: 64 outputs (A, from registers) by N rows (B, in shared memory) --- */

/* B's rows are 64 bytes, eight of them 512, in the 64-byte swizzle: the sixteen bytes c of row r lie at
 * c ^ (r / 2 % 4). */
INLINE u64 factor_descriptor(u32 at)
{
    return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | (u64)(512 >> 4) << 32 | 2ull << 62;
}

INLINE void products_begin(void)
{
    __asm__ volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

INLINE void products_commit(void)
{
    __asm__ volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

#define PRODUCTS_WAIT(left)                                                                        \
    __asm__ volatile("wgmma.wait_group.sync.aligned " #left ";" ::: "memory")

#define S4(d, i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define S16(d, i) S4(d, i), S4(d, i + 4), S4(d, i + 8), S4(d, i + 12)
#define R4        "%0,%1,%2,%3"
#define R8        R4 ",%4,%5,%6,%7"
#define R16_0     "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define R16_1     "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R16_2     "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define R16_3     "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define MULTIPLY(n, sums, a0, a1, a2, a3, b)                                                       \
    "{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"                                                     \
    "wgmma.mma_async.sync.aligned.m64n" n "k16.f32.f16.f16 {" sums "}, {" a0 "," a1 "," a2 "," a3  \
    "}, " b ", p, 1, 1, 0;\n}"

/* d[rows / 2] += A B: a[4] are the halves of this lane, `b` describes 16 columns of the rows: 8, 16, 32,
 * 64 or 128, a constant. */
INLINE void multiply(u32 rows, float *d, const u32 *a, u64 b)
{
    if (rows == 128)
        __asm__ volatile(
            MULTIPLY("128", R16_0 "," R16_1 "," R16_2 "," R16_3, "%64", "%65", "%66", "%67", "%68")
            : S16(d, 0), S16(d, 16), S16(d, 32), S16(d, 48)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else if (rows == 64)
        __asm__ volatile(MULTIPLY("64", R16_0 "," R16_1, "%32", "%33", "%34", "%35", "%36")
                         : S16(d, 0), S16(d, 16)
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else if (rows == 32)
        __asm__ volatile(MULTIPLY("32", R16_0, "%16", "%17", "%18", "%19", "%20")
                         : S16(d, 0)
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else if (rows == 16)
        __asm__ volatile(MULTIPLY("16", R8, "%8", "%9", "%10", "%11", "%12")
                         : S4(d, 0), S4(d, 4)
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else
        __asm__ volatile(MULTIPLY("8", R4, "%4", "%5", "%6", "%7", "%8")
                         : S4(d, 0)
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* --- products of a warp: 16 outputs (A, from registers) by 8 rows (B) -------------------------------- */

/* Four matrices of 8 rows by 8 halves; lane t gives the address of row t % 8 of matrix t / 8, and of matrix m gets
 * the halves 2 (t % 4) and the next of row t / 4 in b[m]. */
INLINE void load_matrices(u32 *b, u32 at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                     : "r"(at)
                     : "memory");
}

/* d[4] += A B: a[4] and b[2] are the halves of this lane. */
INLINE void multiply_warp(float *d, const u32 *a, const u32 *b)
{
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : S4(d, 0)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
