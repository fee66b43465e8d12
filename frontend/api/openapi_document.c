/*
 * The assembler copies the file into the program's constants; the Makefile has the dependency.
 */
#include "frontend/api/openapi_document.h"

__asm__(".section .rodata\n"
        "openapi_document_begin:\n"
        ".incbin \"frontend/api/openapi.json\"\n"
        "openapi_document_end:\n"
        ".previous\n");

extern const char openapi_document_begin[];
extern const char openapi_document_end[];

const char *openapi_document(size_t *bytes)
{
    *bytes = (size_t)(openapi_document_end - openapi_document_begin);
    return openapi_document_begin;
}
