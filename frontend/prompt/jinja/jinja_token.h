/*
 * The lexer's result: one flat array of tokens. Texts point into the compiled template's arena.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_TOKEN_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jinja_token_type {
    TOKEN_END, /* of the template */
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_ADD,
    TOKEN_SUB,
    TOKEN_MUL,
    TOKEN_DIV,
    TOKEN_FLOORDIV,
    TOKEN_MOD,
    TOKEN_POW,
    TOKEN_TILDE,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LBRACE,
    TOKEN_RBRACE,
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_LT,
    TOKEN_LE,
    TOKEN_GT,
    TOKEN_GE,
    TOKEN_ASSIGN,
    TOKEN_DOT,
    TOKEN_COLON,
    TOKEN_PIPE,
    TOKEN_COMMA,
    TOKEN_SEMICOLON,
};

struct jinja_token {
    enum jinja_token_type type;
    int line;
    const char *text; /* of data, names and strings (unescaped); of operators as written */
    size_t text_bytes;
    int64_t integer;
    double real;
};

struct jinja_token_list {
    struct jinja_token *tokens; /* the last one is TOKEN_END */
    size_t count;
    size_t capacity;
};

#endif
