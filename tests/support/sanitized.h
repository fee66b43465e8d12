/*
 * Which sanitizer a test runs under (1 or 0), as gcc tells it: everything takes many times longer
 * there, so that a test may do less of the same, and a bound on time or memory says nothing.
 */
#ifndef SHOAL_TESTS_SUPPORT_SANITIZED_H
#define SHOAL_TESTS_SUPPORT_SANITIZED_H

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED_ADDRESS 1
#else
#define SANITIZED_ADDRESS 0
#endif

#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREAD 1
#else
#define SANITIZED_THREAD 0
#endif

#define SANITIZED (SANITIZED_ADDRESS || SANITIZED_THREAD)

#endif
