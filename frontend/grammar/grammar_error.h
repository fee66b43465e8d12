/* Where and why a schema, regex or grammar text cannot be compiled, as text for the client. */
#ifndef SHOAL_FRONTEND_GRAMMAR_GRAMMAR_ERROR_H
#define SHOAL_FRONTEND_GRAMMAR_GRAMMAR_ERROR_H

#include <stdbool.h>

/* Texts are NUL-terminated; longer ones are cut. */
struct grammar_error {
    char pointer[256]; /* JSON pointer into a schema; "line 3, column 7" of a text; or "" */
    char keyword[64];  /* the keyword or construct, or "" */
    char message[256]; /* a clause: "look-around is not supported" */
    bool about_tools;  /* of a request with tools and another form */
};

#endif
