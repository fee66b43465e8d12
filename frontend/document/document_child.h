/*
 * Runs one of poppler's programs over the bytes of a PDF file, in a process of its own that
 * document_exec.h confines.
 */
#ifndef SHOAL_FRONTEND_DOCUMENT_DOCUMENT_CHILD_H
#define SHOAL_FRONTEND_DOCUMENT_DOCUMENT_CHILD_H

#include <stdatomic.h>
#include <stdint.h>

#include "frontend/image/data_uri.h"

#define DOCUMENT_ARGUMENTS_MOST 12u

struct document_run {
    const char *tool;             /* path of the program */
    const char *const *arguments; /* after the path; NULL-terminated, < DOCUMENT_ARGUMENTS_MOST */
    const uint8_t *bytes;         /* the file, its standard input */
    size_t byte_count;
    size_t most_output;
    const atomic_bool *cancelled; /* NULL, or true once the result is not wanted */
};

/*
 * Waits for the result, which is the caller's, and subtracts the CPU time used from *cpu_left_ms.
 * The error text refers to the file as "it". RESULT_INVALID: the program refuses the file or crashes;
 * RESULT_TOO_LARGE: over `most_output`, or *cpu_left_ms; RESULT_UNSUPPORTED: this system cannot run
 * the program or not confine it; RESULT_PEER_GONE: killed from outside, or without an end;
 * RESULT_CANCELLED, RESULT_IO.
 */
enum result document_child_run(const struct document_run *run, int64_t *cpu_left_ms,
                               struct file_bytes *output, struct error_text *error) RESULT_CHECKED;

#endif
