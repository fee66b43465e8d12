/*
 * Compares how often tokens were drawn with their probabilities, by chi-square.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAW_CHECK_H
#define SHOAL_TESTS_SUPPORT_DRAW_CHECK_H

#include <stdint.h>

struct draw_check {
    const char *name; /* for the message */
    uint32_t count;   /* of tokens */
    uint32_t draws;
    double deviations; /* of the normal distribution, at which chi-square is too large */
    double alone;      /* limit of chi-square if one token has nearly all draws */
};

/* p, drawn: [count]. A token that cannot be drawn must not be; tokens that are expected less than
 * five times count together. Fails the test if chi-square is over its limit. */
void draw_check(const struct draw_check *check, const double *p, const uint32_t *drawn);

#endif
