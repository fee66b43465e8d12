/*
 * Generated facts behind bert_text.c; both tables are sorted by `first` and do not overlap.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_BERT_TEXT_TABLE_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_BERT_TEXT_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum bert_class_bit {
    BERT_REMOVED = 1,     /* by clean_text */
    BERT_IDEOGRAPH = 2,   /* gets spaces around it by handle_chinese_chars */
    BERT_NONSPACING = 4,  /* removed by strip_accents */
    BERT_PUNCTUATION = 8, /* a word by itself */
};

struct bert_class {
    uint32_t first;
    uint32_t last; /* inclusive */
    uint8_t bits;  /* enum bert_class_bit */
};
extern const struct bert_class bert_classes[];
extern const size_t bert_class_count;

/* first, first + step … last become lower case by adding `difference`. */
struct bert_lower_run {
    uint32_t first;
    uint32_t last;
    uint8_t step;
    int32_t difference;
};
extern const struct bert_lower_run bert_lower_runs[];
extern const size_t bert_lower_run_count;

#endif
