/*
 * Generated facts behind utf8_nfc.c; see the opening comment of utf8_nfc_table.c. All three tables
 * are sorted for binary search: by `first`, by `composed`, and by the (first, second) of the entry
 * that an index names.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_UTF8_NFC_TABLE_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_UTF8_NFC_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct nfc_class {
    uint32_t first;
    uint32_t last; /* inclusive */
    uint8_t combining_class;
};
extern const struct nfc_class nfc_classes[];
extern const size_t nfc_class_count;

struct nfc_decomposition {
    uint32_t composed;
    uint32_t first;
    uint32_t second; /* 0: none */
};
extern const struct nfc_decomposition nfc_decompositions[];
extern const size_t nfc_decomposition_count;

extern const uint16_t nfc_compositions[];
extern const size_t nfc_composition_count;

#endif
