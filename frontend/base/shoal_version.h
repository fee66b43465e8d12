/*
 * The version of the program, as `shoal --version` and the API report it.
 */
#ifndef SHOAL_FRONTEND_BASE_SHOAL_VERSION_H
#define SHOAL_FRONTEND_BASE_SHOAL_VERSION_H

#define SHOAL_VERSION "0.1.0"

#endif
