/*
 * The unit of the paged KV cache: a block holds the keys and values of consecutive positions.
 */
#ifndef SHOAL_WORKER_PLAN_KV_BLOCK_H
#define SHOAL_WORKER_PLAN_KV_BLOCK_H

#include <stdint.h>

#define KV_BLOCK_TOKENS 16u        /* positions of a block */
#define KV_BLOCK_NONE   UINT32_MAX /* in a block table: no block */

#endif
