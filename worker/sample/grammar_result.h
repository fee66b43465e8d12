/* The outcomes of matching. */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_RESULT_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_RESULT_H

enum grammar_result {
    GRAMMAR_OK = 0,
    GRAMMAR_REFUSED, /* a token is not allowed, or the blob is corrupt */
    GRAMMAR_FUEL,    /* the grammar takes too much work at this place */
    GRAMMAR_MEMORY
};

#endif
