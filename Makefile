# Shoal. One non-recursive Makefile; `make help` lists the targets; everything built lands in build/.
#
# SAN=address|undefined|thread builds into build/san-<name>/ with that sanitizer. CC, CFLAGS_EXTRA and JOBS may be set.

SHELL := /bin/bash
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --output-sync=target

CC      := gcc
SAN     ?=
BUILD   := build$(if $(SAN),/san-$(SAN))
OBJ     := $(BUILD)/obj
PKG     := libevent libevent_pthreads libcjson libpcre2-8

WARN    := -Wall -Wextra -Wshadow -Wconversion -Werror
OPT     := $(if $(SAN),-O1 -fno-omit-frame-pointer,-O2)
SANFLAG := $(if $(filter address,$(SAN)),-fsanitize=address,)$(if $(filter undefined,$(SAN)),-fsanitize=undefined -fno-sanitize-recover=undefined,)$(if $(filter thread,$(SAN)),-fsanitize=thread,)
CFLAGS  := -std=c11 -D_GNU_SOURCE -DPCRE2_CODE_UNIT_WIDTH=8 $(WARN) $(OPT) -g -pthread -I. $(SANFLAG) $(CFLAGS_EXTRA)
LDFLAGS := -pthread $(SANFLAG)

FRONTEND_LIBS := $(shell pkg-config --libs $(PKG) 2>/dev/null || echo -levent -levent_pthreads -lcjson -lpcre2-8) -lm
WORKER_LIBS   := $(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas) -lm

# --- sources, found by folder ------------------------------------------------------------------------------------
sources         = $(sort $(shell find $(1) -name '*.c' 2>/dev/null))
objects         = $(patsubst %.c,$(OBJ)/%.o,$(1))
PROTO_SRC    := $(call sources,proto)
SHM_SRC      := $(call sources,shm)
FRONTEND_SRC := $(filter-out frontend/main.c,$(call sources,frontend))
WORKER_SRC   := $(filter-out worker/main.c,$(call sources,worker))

LIB_BASE     := $(BUILD)/libshoal-base.a
LIB_FRONTEND := $(BUILD)/libshoal-frontend.a
LIB_WORKER   := $(BUILD)/libshoal-worker.a
PROGRAMS     := $(BUILD)/shoal $(BUILD)/shoal-worker

# --- tests, found by folder: the folder says which side a test links -----------------------------------------------
BASE_TESTS     := $(call sources,tests/unit/proto tests/unit/shm tests/ring)
FRONTEND_TESTS := $(call sources,tests/unit/frontend)
WORKER_TESTS   := $(call sources,tests/unit/worker tests/ops tests/model)
TEST_SRC       := $(filter %_test.c,$(BASE_TESTS) $(FRONTEND_TESTS) $(WORKER_TESTS))
TEST_HELPERS   := $(call sources,tests/support)
test_programs   = $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter %_test.c,$(1)))
TEST_PROGRAMS  := $(call test_programs,$(TEST_SRC))

.PHONY: all help programs tests
all: programs ## build the programs (build/shoal, build/shoal-worker)
programs: $(PROGRAMS)
tests: $(TEST_PROGRAMS) ## build every C test program

help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

# --- compile and link ------------------------------------------------------------------------------------------------
$(OBJ)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CFLAGS_$(subst /,_,$*)) -MMD -MP -c $< -o $@

# Kernels of one instruction set live in files named <what>_<isa>.c; only those files are built for it, and run-time
# detection decides whether they are called.
$(OBJ)/%_avx2.o:   CFLAGS += -O3 -mavx2 -mfma -mf16c
$(OBJ)/%_avx512.o: CFLAGS += -O3 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
$(OBJ)/worker/backend/cpu/%.o: CFLAGS += -O3

$(LIB_BASE): $(call objects,$(PROTO_SRC) $(SHM_SRC))
$(LIB_FRONTEND): $(call objects,$(FRONTEND_SRC))
$(LIB_WORKER): $(call objects,$(WORKER_SRC))
$(LIB_BASE) $(LIB_FRONTEND) $(LIB_WORKER):
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/shoal: $(OBJ)/frontend/main.o $(LIB_FRONTEND) $(LIB_BASE)
	$(CC) $(LDFLAGS) -o $@ $^ $(FRONTEND_LIBS)
$(BUILD)/shoal-worker: $(OBJ)/worker/main.o $(LIB_WORKER) $(LIB_BASE)
	$(CC) $(LDFLAGS) -o $@ $^ $(WORKER_LIBS)

HELPER_OBJ := $(call objects,$(TEST_HELPERS))
link_test = @mkdir -p $(@D) && $(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^)
$(call test_programs,$(BASE_TESTS)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(HELPER_OBJ) $(LIB_BASE)
	$(link_test) -lcmocka -lm
$(call test_programs,$(FRONTEND_TESTS)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(HELPER_OBJ) $(LIB_FRONTEND) $(LIB_BASE)
	$(link_test) $(FRONTEND_LIBS) -lcmocka
$(call test_programs,$(WORKER_TESTS)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(HELPER_OBJ) $(LIB_WORKER) $(LIB_BASE)
	$(link_test) $(WORKER_LIBS) -lcmocka

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
