/*
 * An image reader that decodes in the test's own process.
 */
#ifndef SHOAL_TESTS_SUPPORT_DIRECT_READER_H
#define SHOAL_TESTS_SUPPORT_DIRECT_READER_H

#include "frontend/image/image_reader.h"

extern const struct image_reader direct_reader;

#endif
