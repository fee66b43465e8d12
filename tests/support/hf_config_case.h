/*
 * Reads a config.json made of a base and further members, through the family that it names. If a
 * member occurs twice, the last one counts.
 */
#ifndef SHOAL_TESTS_SUPPORT_HF_CONFIG_CASE_H
#define SHOAL_TESTS_SUPPORT_HF_CONFIG_CASE_H

#include "worker/model/family_registry.h"

/* Reads `{base,more}`; `more` may be empty. Fails the test if that is not JSON. */
enum result hf_config_case_read(const char *base, const char *more, struct model_config *config,
                                struct error_text *error) RESULT_CHECKED;
/* Fails the test unless the config is read. */
void hf_config_case_must_read(const char *base, const char *more, struct model_config *config);
/* Fails the test unless the config is refused with an error that has `words`. */
void hf_config_case_must_refuse(const char *base, const char *more, const char *words);

#endif
