/*
 * 1 or 0: whether the test is built with a sanitizer. Code is many times slower there, so a test may
 * do fewer repetitions and leave out bounds on time and memory.
 */
#ifndef SHOAL_TESTS_SUPPORT_SANITIZED_H
#define SHOAL_TESTS_SUPPORT_SANITIZED_H

/* gcc defines macros, clang 14 has features. */
#ifdef __has_feature
#define SANITIZED_ADDRESS __has_feature(address_sanitizer)
#define SANITIZED_THREAD  __has_feature(thread_sanitizer)
#else
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
#endif

#define SANITIZED (SANITIZED_ADDRESS || SANITIZED_THREAD)

#endif
