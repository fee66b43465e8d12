# Shoal. One non-recursive Makefile; `make help` lists the targets; everything built lands in build/.
#
# SAN=address,undefined or SAN=thread builds with those sanitizers into build/san-address-undefined/ and so on; SAN=fuzz
# builds with clang, address and undefined sanitizers and the coverage that fuzzers follow. ARCH=aarch64 cross-builds into
# build/aarch64/ (scripts/setup test-long). V=1 shows commands. CC, CFLAGS_EXTRA, JOBS, ARGS, PORT, LENGTH, MINUTES,
# FUZZ_SECONDS, UNTIL (of test-long: scripts/test_all), PICKER, GATEWAY_API, PREFIX and DESTDIR can be set.

SHELL := /bin/bash
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

comma   := ,
empty   :=
space   := $(empty) $(empty)
SAN     ?=
SANS    := $(subst $(comma),$(space),$(SAN))
ifneq ($(filter-out address undefined thread fuzz,$(SANS)),)
$(error SAN=$(SAN): known are address, undefined, thread and fuzz)
endif

# Another architecture than this machine's: Debian's cross compiler, and Debian's libraries for it in build/arm-root.
ARCH    ?=
ifneq ($(filter-out aarch64,$(ARCH)),)
$(error ARCH=$(ARCH): known is aarch64)
endif
CROSS   := $(ARCH:%=%-linux-gnu-)
SYSROOT := $(if $(ARCH),$(CURDIR)/build/arm-root)

CC      := $(if $(filter fuzz,$(SANS)),$(shell scripts/find_clang),$(CROSS)gcc)
PKG_CONFIG := $(if $(ARCH),PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(ARCH)-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(SYSROOT)) pkg-config
JOBS    ?= $(shell nproc)
PORT    ?= 8080
PREFIX  ?= /usr/local
LENGTH  ?= timed
MINUTES ?= 30
BUILD   := build$(if $(ARCH),/$(ARCH))$(if $(SAN),/san-$(subst $(space),-,$(SANS)))
OBJ     := $(BUILD)/obj
PLAIN   := build$(if $(ARCH),/$(ARCH))/obj

WARN    := -Wall -Wextra -Wshadow -Wconversion -Werror
OPT     := $(if $(SAN),-O1 -fno-omit-frame-pointer,-O2)
SANFLAG := $(if $(filter address fuzz,$(SANS)),-fsanitize=address) \
           $(if $(filter undefined fuzz,$(SANS)),-fsanitize=undefined -fno-sanitize-recover=undefined) \
           $(if $(filter thread,$(SANS)),-fsanitize=thread) \
           $(if $(filter fuzz,$(SANS)),-fsanitize=fuzzer-no-link)

# Without libzstd the build goes on, but bodies with Content-Encoding: zstd are refused.
FRONTEND_PKG  := libevent libevent_pthreads libcjson libpcre2-8 openssl libcurl zlib $(shell $(PKG_CONFIG) --exists libzstd && echo libzstd)
MEDIA_PKG     := libjpeg libpng libwebp libwebpdemux
PKG_CFLAGS    := $(shell $(PKG_CONFIG) --cflags $(FRONTEND_PKG) $(MEDIA_PKG) 2>/dev/null)
FRONTEND_LIBS := $(shell $(PKG_CONFIG) --libs $(FRONTEND_PKG) 2>/dev/null) -lm
MEDIA_LIBS    := $(shell $(PKG_CONFIG) --libs $(MEDIA_PKG) 2>/dev/null) -lm
# Without FFmpeg's libraries (5.1 or later), or with WITHOUT_LIBAV=1, the build goes on, but audio, MP4, WebM and Matroska are refused.
AV_PKG        := libavformat libavcodec libswscale libswresample libavutil
AV_LIBS       := $(if $(WITHOUT_LIBAV)$(ARCH),,$(shell $(PKG_CONFIG) --exists $(AV_PKG) 'libavutil >= 57.28' && $(PKG_CONFIG) --libs $(AV_PKG)))
WORKER_LIBS   := -lvulkan -lm
# scripts/setup brings newer Vulkan headers than the system's where those are too old.
VULKAN_CFLAGS := $(patsubst %,-isystem %,$(wildcard build/vulkan-tools/compiler/usr/include))

# Hardening of normal builds; sanitizers have their own checks. tests/scripts/hardened_binaries_test.py reads the programs. The
# kernels keep it: over 4 pairs of step_bench (SmolLM2, one thread, CPU time) prompts, decodes of 1 and of 8 streams run at 1.010,
# 1.002 and 1.015 times the speed without it (median; 2026-11-23, AMD EPYC with AVX2).
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
BRANCHES := $(if $(filter x86_64,$(MACHINE)),-fcf-protection=full) $(if $(filter aarch64,$(MACHINE)),-mbranch-protection=standard)
HARDEN  := $(if $(SAN),,-fstack-protector-strong -fstack-clash-protection $(BRANCHES) -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fPIE)
# -g1: functions and lines for backtraces; CFLAGS_EXTRA=-g adds variables for a debugger, in a seventh more time.
CFLAGS  := $(SYSROOT:%=--sysroot=%) -std=c11 -D_GNU_SOURCE -DPCRE2_CODE_UNIT_WIDTH=8 $(WARN) $(OPT) -g1 -pthread -I. $(VULKAN_CFLAGS) $(PKG_CFLAGS) \
           $(if $(SAN),-DSHOAL_SANITIZED) $(HARDEN) $(SANFLAG) $(CFLAGS_EXTRA)
# Do not load libraries that nothing calls.
LDFLAGS := $(SYSROOT:%=--sysroot=%) -pthread -Wl,--as-needed $(if $(SAN),,-pie $(addprefix -z ,relro now noexecstack)) $(SANFLAG)

# --- sources, found by folder ------------------------------------------------------------------------------------
# Files of one architecture are named for it or for one of its instruction sets; those named simd are for both of these.
OTHER_MACHINES  := $(if $(filter x86_64,$(MACHINE)),,%_x86.c %_avx2.c %_avx512.c %_amx.c) $(if $(filter aarch64,$(MACHINE)),,%_arm.c %_neon.c %_dotprod.c %_i8mm.c) \
                   $(if $(filter x86_64 aarch64,$(MACHINE)),,%_simd.c)
sources         = $(filter-out $(OTHER_MACHINES),$(sort $(shell find $(1) -name '*.c' 2>/dev/null)))
objects         = $(patsubst %.c,$(OBJ)/%.o,$(1))
PROTO_SRC    := $(call sources,proto)
SHM_SRC      := $(call sources,shm)
FRONTEND_SRC := $(filter-out frontend/main.c frontend/media/main.c frontend/media/libav/%,$(call sources,frontend))
WORKER_SRC   := $(filter-out worker/main.c worker/backend/vulkan/ptx/%,$(call sources,worker))
LOAD_SRC     := $(filter-out scripts/load/main.c,$(call sources,scripts/load)) frontend/base/text_buffer.c

LIB_BASE     := $(BUILD)/libshoal-base.a
LIB_FRONTEND := $(BUILD)/libshoal-frontend.a
LIB_WORKER   := $(BUILD)/libshoal-worker.a
LIB_LOAD     := $(BUILD)/libshoal-load.a
LIB_SUPPORT  := $(BUILD)/libshoal-test-support.a
LIB_OP_CASES := $(BUILD)/libshoal-op-cases.a
PROGRAMS     := $(BUILD)/shoal-worker $(BUILD)/shoal $(BUILD)/shoal-media $(if $(AV_LIBS),$(BUILD)/shoal-av)
TOOLS        := $(BUILD)/shoal-load
SCRIPTED_WORKER := $(BUILD)/tests/process/scripted_worker
BENCH_PROGRAMS  := $(patsubst scripts/bench/%.c,$(BUILD)/%,$(call sources,scripts/bench))

# --- tests: the folder decides which side a test links; for a fuzz target its includes do ----------------------------
# Tags in the test files select the tests of a run (short or long tier, sanitizers, drivers): scripts/test_list.
BASE_TESTS     := $(filter %_test.c,$(call sources,tests/unit/proto tests/unit/shm tests/ring))
FRONTEND_TESTS := $(filter %_test.c,$(call sources,tests/unit/frontend))
# Grammars are compiled on one side and run on the other.
GRAMMAR_TESTS  := $(filter %_test.c,$(call sources,tests/grammar))
LOAD_TESTS     := $(filter %_test.c,$(call sources,tests/unit/scripts/load))
WORKER_TESTS   := $(filter %_test.c,$(call sources,tests/unit/worker tests/ops tests/model tests/vulkan))
OP_CASE_TESTS  := tests/ops/op_check_test.c tests/vulkan/vulkan_ops_test.c
# These spawn the programs and link neither side.
PROCESS_TESTS  := $(filter %_test.c,$(call sources,tests/process))
ALL_TESTS      := $(BASE_TESTS) $(FRONTEND_TESTS) $(WORKER_TESTS) $(LOAD_TESTS) $(PROCESS_TESTS) $(GRAMMAR_TESTS)
STRAY_TESTS    := $(filter-out $(ALL_TESTS),$(filter %_test.c,$(call sources,tests)))
ifneq ($(STRAY_TESTS),)
$(error no folder rule builds $(STRAY_TESTS))
endif
TIER           ?= all
listed          = $(shell scripts/test_list --tier $(TIER) --sanitizers "$(SAN)" $(1))
test_programs   = $(patsubst tests/%.c,$(BUILD)/tests/%,$(1))
F32_MODELS      := $(addprefix build/cache/models/,smollm2-135m-instruct-f32.gguf gemma-3-270m-f32.gguf)
TINY_CHECKPOINTS := build/checkpoints/made
MMPROJ_FILES     := build/mmproj/made

FUZZ_SRC       := $(filter tests/fuzz/fuzz_%,$(call sources,tests/fuzz))
fuzz_including  = $(shell grep -l '^.include "$(1)/' $(FUZZ_SRC) /dev/null)
FUZZ_BOTH      := $(filter $(call fuzz_including,frontend),$(call fuzz_including,worker))
FUZZ_FRONTEND  := $(filter-out $(FUZZ_BOTH),$(call fuzz_including,frontend))
FUZZ_WORKER    := $(filter-out $(FUZZ_BOTH),$(call fuzz_including,worker))
FUZZ_LOAD      := $(call fuzz_including,scripts/load)
FUZZ_BASE      := $(filter-out $(FUZZ_BOTH) $(FUZZ_FRONTEND) $(FUZZ_WORKER) $(FUZZ_LOAD),$(FUZZ_SRC))
FUZZ_PROGRAMS  := $(call test_programs,$(FUZZ_SRC))
FUZZ_SECONDS   ?= 8

.PHONY: all help programs tools tests fuzzers run run-demo test test-long check format test-data test-unit test-agreement test-clients \
        test-vulkan test-gpu test-arm test-scripts test-api test-fault soak test-san fuzz mutate deb test-packages bench bench-programs bench-frontend bench-gpu clean install
# Programs of benchmarks that were built once are kept up to date.
all: programs tools $(wildcard $(BENCH_PROGRAMS)) ## build the programs (build/shoal, build/shoal-worker, build/shoal-media, build/shoal-av) and the load tool (build/shoal-load)
programs: $(PROGRAMS)
tools: $(TOOLS)
bench-programs: $(BENCH_PROGRAMS) ## build the programs of scripts/bench (build/step_bench and others)
tests: $(call test_programs,$(ALL_TESTS)) $(SCRIPTED_WORKER) ## build every C test program
fuzzers: $(FUZZ_PROGRAMS)

help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

# --- compile and link ------------------------------------------------------------------------------------------------
# One short line per file made; V=1 shows the whole commands.
quietly = $(if $(V),,@echo "$(1) $@" && )

# If a package is missing, prints one line instead of compiler errors; checked once.
build/set-up: scripts/setup
	@scripts/setup check && mkdir -p $(@D) && touch $@

$(OBJ)/%.o: %.c Makefile | build/set-up
	@mkdir -p $(@D)
	$(call quietly,CC)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

# Kernels of one instruction set are in files named <what>_<isa>.c; only those files are compiled for it, and run-time detection
# decides whether they are called. They take minutes to compile, so sanitizer builds use those of the plain build. The portable
# kernels have the same contracts and are instrumented; the tests run both. The compiler tracks no variables for debuggers there: that
# took a fifth of the time (attention_packed_simd.c: 18.4 s, without 14.6, the same instructions; 2026-11-28).
KERNEL_OPT := -O3 -fno-var-tracking
$(OBJ)/worker/backend/cpu/%.o $(OBJ)/worker/backend/host/%.o: CFLAGS += $(if $(SAN),-O2,-O3)
# Its loops over pixels need vectorization.
$(OBJ)/frontend/image/image_resizer.o: CFLAGS += $(if $(SAN),-O2,-O3)
$(OBJ)/%_avx2.o:   CFLAGS += $(KERNEL_OPT) -mavx2 -mfma -mf16c
$(OBJ)/%_avx512.o: CFLAGS += $(KERNEL_OPT) -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
$(OBJ)/%_amx.o:    CFLAGS += $(KERNEL_OPT) -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mamx-tile -mamx-int8
$(OBJ)/%_simd.o:   CFLAGS += $(KERNEL_OPT) $(if $(filter x86_64,$(MACHINE)),-mavx2 -mfma -mf16c)
$(OBJ)/%_neon.o:   CFLAGS += $(KERNEL_OPT)
$(OBJ)/%_dotprod.o: CFLAGS += $(KERNEL_OPT) -march=armv8.2-a+dotprod
$(OBJ)/%_i8mm.o:   CFLAGS += $(KERNEL_OPT) -march=armv8.2-a+dotprod+i8mm
ISA_KERNELS := $(filter %_avx2.c %_avx512.c %_amx.c %_simd.c %_neon.c %_dotprod.c %_i8mm.c,$(WORKER_SRC))
ifneq ($(SAN),)
$(call objects,$(ISA_KERNELS)): $(OBJ)/%.o: %.c Makefile | build/set-up
	@mkdir -p $(@D)
	@$(MAKE) --no-print-directory SAN= $(PLAIN)/$*.o
	$(call quietly,COPY)cp $(PLAIN)/$*.o $@ && sed 's#^$(PLAIN)/#$(OBJ)/#' $(PLAIN)/$*.d >$(@:.o=.d)
endif
# Pure functions over every weight at every start: without threads, so not instrumented for the thread sanitizer.
PER_WEIGHT_OBJ := $(addprefix $(OBJ)/worker/,backend/cpu/weights/packed_weight.o backend/host/ggml_dequantize.o \
    $(addprefix plan/,content_hash.o weight_layout.o weight_source.o weight_affine.o weight_fp8.o))
$(PER_WEIGHT_OBJ): CFLAGS += $(if $(filter thread,$(SANS)),-fno-sanitize=thread)
# Compiled in half of the time, and most of them run for milliseconds. Fortified functions need optimization.
$(OBJ)/tests/unit/%.o: CFLAGS += $(if $(SAN),,-O0 -U_FORTIFY_SOURCE)
# No fuzz target reaches backends, and tests run in the same build: their loops do not count coverage.
$(OBJ)/worker/backend/%.o $(OBJ)/tests/%.o: CFLAGS += $(if $(filter fuzz,$(SANS)),-fno-sanitize=fuzzer-no-link)
# clang warns where a test names the fields that it sets inside a struct that is listed by place; gcc does not.
$(OBJ)/tests/%.o: CFLAGS += $(if $(filter fuzz,$(SANS)),-Wno-missing-field-initializers)

$(LIB_BASE): $(call objects,$(PROTO_SRC) $(SHM_SRC))
$(LIB_FRONTEND): $(call objects,$(FRONTEND_SRC))
# What takes longest to compile comes first.
$(LIB_WORKER): $(call objects,$(ISA_KERNELS) $(WORKER_SRC)) $(OBJ)/vulkan_shaders.o $(OBJ)/vulkan_ptx_modules.o
$(LIB_LOAD): $(call objects,$(LOAD_SRC))
$(LIB_SUPPORT): $(call objects,$(call sources,tests/support))
# The cases that the tests of ops define, for tests of all ops (tests/support/op_case_list.h).
$(OBJ)/op-cases/%.o: $(OBJ)/tests/ops/%.o
	@mkdir -p $(@D)
	$(call quietly,CASES)$(CROSS)objcopy --localize-symbol=main $< $@
$(LIB_OP_CASES): $(patsubst tests/ops/%.c,$(OBJ)/op-cases/%.o,$(call sources,tests/ops))
$(LIB_BASE) $(LIB_FRONTEND) $(LIB_WORKER) $(LIB_LOAD) $(LIB_SUPPORT) $(LIB_OP_CASES):
	@mkdir -p $(@D)
	@rm -f $@
	$(call quietly,AR)$(CROSS)ar rcs $@ $^

# Shaders are compiled to SPIR-V, and all modules are embedded in one C file, once for all builds. A shader depends on its includes
# and on the compiler; its .list names the modules that it gives.
SHADERS      := $(wildcard worker/backend/vulkan/shaders/*.comp)
SHADER_LISTS := $(patsubst worker/backend/vulkan/shaders/%.comp,build/obj/shaders/%.list,$(SHADERS))
build/obj/shaders/%.list: worker/backend/vulkan/shaders/%.comp scripts/compile_shader $(wildcard build/vulkan-tools/compiler/made-from) | build/set-up
	$(call quietly,SHADER)scripts/compile_shader $< $(@D)
build/obj/shaders/vulkan_shaders.c: $(SHADER_LISTS) scripts/embed_shaders worker/backend/vulkan/shaders
	@mkdir -p $(@D)
	$(call quietly,EMBED)scripts/embed_shaders $@ $(SHADER_LISTS)
# Kernels in PTX likewise; without a compiler for them their text is empty.
PTX          := $(wildcard worker/backend/vulkan/ptx/*.c)
PTX_LISTS    := $(patsubst worker/backend/vulkan/ptx/%.c,build/obj/ptx/%.ptxlist,$(PTX))
build/obj/ptx/%.ptxlist: worker/backend/vulkan/ptx/%.c scripts/compile_ptx $(wildcard /usr/bin/clang-19) | build/set-up
	$(call quietly,PTX)scripts/compile_ptx $< $(@D)
build/obj/ptx/vulkan_ptx_modules.c: $(PTX_LISTS) scripts/embed_ptx worker/backend/vulkan/ptx
	@mkdir -p $(@D)
	$(call quietly,EMBED)scripts/embed_ptx $@ $(PTX_LISTS)
$(OBJ)/frontend/api/openapi_document.o: frontend/api/openapi.json
$(OBJ)/frontend/page/page_file.o: $(filter-out %.c %.h %.md,$(wildcard frontend/page/*.* frontend/page/vendor/*))
$(OBJ)/vulkan_shaders.o: build/obj/shaders/vulkan_shaders.c Makefile
	@mkdir -p $(@D)
	$(call quietly,CC)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@
$(OBJ)/vulkan_ptx_modules.o: build/obj/ptx/vulkan_ptx_modules.c Makefile
	@mkdir -p $(@D)
	$(call quietly,CC)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@
-include $(SHADER_LISTS:.list=.d) $(PTX_LISTS:.ptxlist=.d)

# The quicker linker, where it is installed (Debian 12: binutils), for programs of tests.
TEST_LINKER := $(if $(SAN)$(ARCH),,$(if $(shell command -v ld.gold),-fuse-ld=gold))
$(BUILD)/tests/%: private LDFLAGS += $(TEST_LINKER)

link = @mkdir -p $(@D) && $(if $(V),set -x,echo "LD $@") && $(CC) $(LDFLAGS) -o $@ $^
$(BUILD)/shoal: $(OBJ)/frontend/main.o $(LIB_FRONTEND) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS)
# Only this program has the libraries that parse images.
$(BUILD)/shoal-media: $(OBJ)/frontend/media/main.o $(LIB_FRONTEND) $(LIB_BASE)
	$(link) $(MEDIA_LIBS)
# The same with FFmpeg's libraries, whose dozens of others would slow the start of a process that decodes images.
$(BUILD)/shoal-av: $(OBJ)/frontend/media/main.o $(call objects,$(call sources,frontend/media/libav)) $(LIB_FRONTEND) $(LIB_BASE)
	$(link) $(MEDIA_LIBS) $(AV_LIBS)
$(BUILD)/shoal-worker: $(OBJ)/worker/main.o $(LIB_WORKER) $(LIB_BASE)
	$(link) $(WORKER_LIBS)

# The load generator shares only buffers and result codes with the frontend.
$(BUILD)/shoal-load: $(OBJ)/scripts/load/main.o $(LIB_LOAD) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS)

# Benchmarks of the worker's step without frontend, rings or HTTP, and of the CPU's products.
$(BUILD)/step_bench $(BUILD)/linear_bench: $(BUILD)/%: $(OBJ)/scripts/bench/%.o $(LIB_SUPPORT) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(WORKER_LIBS)
# Drafted beside plain decoding through the engine, with scripted draws.
$(BUILD)/draft_bench: $(OBJ)/scripts/bench/draft_bench.o $(LIB_SUPPORT) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(WORKER_LIBS)
# The worker's choice of prompt rows, for the simulated servers of scripts/bench/fleet_sim.
$(BUILD)/step_pace.so: worker/schedule/step_pace.c worker/schedule/chunk_pace.c worker/schedule/step_pace.h worker/schedule/chunk_pace.h
	@mkdir -p $(@D)
	$(call quietly,CC)$(CC) $(CFLAGS) -fPIC -shared -o $@ $(filter %.c,$^) -lm
# Compilations and masks of schemas for scripts/bench/mask_bench.
$(BUILD)/mask_probe: $(OBJ)/scripts/bench/mask_probe.o $(LIB_SUPPORT) $(LIB_FRONTEND) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS) $(WORKER_LIBS)
# Client of scripts/bench/frontend.
$(BUILD)/stream_reader: $(OBJ)/scripts/bench/stream_reader.o $(LIB_BASE)
	$(link)
# Vulkan kernels alone, by shape and tuning (worker/backend/vulkan/README.md).
$(BUILD)/vulkan_%_bench: $(OBJ)/scripts/bench/vulkan_%_bench.o $(LIB_SUPPORT) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(WORKER_LIBS)

$(call test_programs,$(BASE_TESTS)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_BASE)
	$(link) -lcmocka -lm
$(call test_programs,$(PROCESS_TESTS)) $(BUILD)/tests/process/restart_bench: $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_BASE) | $(BUILD)/shoal-worker
	$(link) -lcmocka -lm
# A library for the qemu of this machine; its interface is numbered 1 until version 8, and 2 in those that version 9 and later take.
build/aarch64/qemu_death_plugin.so: tests/ring/qemu_death_plugin.c tests/ring/qemu_death.h Makefile
	@mkdir -p $(@D)
	$(call quietly,CC)gcc -std=c11 -D_GNU_SOURCE $(WARN) -O2 -fPIC -shared -I. \
	    -DQEMU_PLUGIN_INTERFACE=$(if $(filter 7 8,$(shell qemu-aarch64 --version | sed -n 's/.* version \([0-9]*\)[.].*/\1/p')),1,2) $< -o $@

# Replaces shoal-worker in API tests.
$(SCRIPTED_WORKER): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_FRONTEND) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS) $(WORKER_LIBS)
$(call test_programs,$(FRONTEND_TESTS)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_FRONTEND) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS) $(MEDIA_LIBS) -lcmocka
$(call test_programs,$(GRAMMAR_TESTS)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_FRONTEND) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS) $(MEDIA_LIBS) $(WORKER_LIBS) -lcmocka
$(BUILD)/tests/unit/frontend/media/audio_child_test: | $(filter %/shoal-av,$(PROGRAMS))
# Compiles and tries grammars for scripts/bench/maskbench; draws tool calls for tests/api/call_grammars_test.py.
$(BUILD)/tests/grammar/grammar_probe $(BUILD)/tests/grammar/tool_call_probe: $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_FRONTEND) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS) $(WORKER_LIBS)
$(call test_programs,$(LOAD_TESTS)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_LOAD) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS) -lcmocka
$(call test_programs,$(filter-out $(OP_CASE_TESTS),$(WORKER_TESTS))): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(WORKER_LIBS) -lcmocka
$(call test_programs,$(OP_CASE_TESTS)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_OP_CASES) $(LIB_SUPPORT) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(WORKER_LIBS) -lcmocka

$(FUZZ_PROGRAMS): LDFLAGS += -fsanitize=fuzzer
$(call test_programs,$(FUZZ_BASE)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_BASE)
	$(link) -lm
$(call test_programs,$(FUZZ_FRONTEND)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_FRONTEND) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS) $(MEDIA_LIBS)
$(call test_programs,$(FUZZ_BOTH)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_FRONTEND) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS) $(MEDIA_LIBS) $(WORKER_LIBS)
$(call test_programs,$(FUZZ_LOAD)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_LOAD) $(LIB_BASE)
	$(link) $(FRONTEND_LIBS)
$(call test_programs,$(FUZZ_WORKER)): $(BUILD)/tests/%: $(OBJ)/tests/%.o $(LIB_SUPPORT) $(LIB_WORKER) $(LIB_BASE)
	$(link) $(WORKER_LIBS)

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)

# --- run and test ----------------------------------------------------------------------------------------------------
# Sub-makes that build run in parallel with grouped output; programs run afterwards write directly.
# TALLY names a file to which the runners append one line per test; scripts/test_all adds them up.
BUILDING  = $(MAKE) --no-print-directory --output-sync=target -j$(JOBS)
TALLY_ARG = $(if $(TALLY),--tally $(TALLY))

run: ## set up, build, fetch the default model and serve it on port PORT (8080); ARGS="..." adds options
	@scripts/setup run
	@$(BUILDING) programs
	@model=$$(scripts/fetch_model default) && exec build/shoal serve --model "$$model" --port $(PORT) $(ARGS)

run-demo: ## the same with the demo model of the tests, which understands images, calls tools and thinks on demand; fetches nothing
	@scripts/setup run
	@$(BUILDING) programs
	@exec build/shoal serve --model tests/model/demo --port $(PORT) $(ARGS)

test: ## set up, build, run checks and the short tests (eight minutes on two cores, from a fresh clone); ends with one line "N passed, M failed"
	@scripts/setup test
	@scripts/test_all --tier short --jobs $(JOBS)

test-long: ## all other tests: Vulkan, whole models, sanitizers, long faults, fuzzing; ends with the same line
	@scripts/setup test-long
	@scripts/test_all --tier long --jobs $(JOBS) $(UNTIL:%=--until %)

check: ## layers, sizes, names, language and format of the sources
	@scripts/make_venv
	@scripts/run_tests $(TALLY_ARG) --jobs $(JOBS) --limit-s 900 scripts/check_format scripts/check_layers scripts/check_sizes scripts/check_names \
	    scripts/check_language

format: ## format every C file by .clang-format
	@scripts/make_venv
	build/venv/bin/clang-format -i $(shell find $(wildcard proto shm frontend worker tests scripts) -name '*.[ch]')

# The default models with every weight written out as F32 (538 MB and 1.1 GB), for the agreement tests.
build/cache/models/smollm2-135m-instruct-f32.gguf: FROM := default
build/cache/models/gemma-3-270m-f32.gguf: FROM := gemma3-270m
$(F32_MODELS): scripts/golden/dequantize_gguf.py
	@scripts/make_venv
	@model=$$(scripts/fetch_model $(FROM)) && echo "DEQUANTIZE $@" && build/venv/bin/python $< "$$model" $@

# The tiny checkpoints of the tests in every supported form; a stamp stands for the folder.
$(TINY_CHECKPOINTS): scripts/golden/checkpoint_variants.py scripts/golden/quantized_forms.py $(wildcard scripts/golden/families/*.py) $(wildcard tests/golden/checkpoints/*/* tests/golden/ahead/*/* tests/golden/towers/qwen3_5/* tests/model/demo_ahead/*)
	@scripts/make_venv
	$(call quietly,WRITE)build/venv/bin/python $< tests/golden/checkpoints $(@D) && touch $@

# The tiny vision checkpoints as GGUF, the tower in a file of its own.
$(MMPROJ_FILES): scripts/golden/mmproj_files.py scripts/golden/checkpoint_variants.py $(wildcard scripts/golden/families/*.py) $(wildcard tests/golden/towers/*/model.safetensors)
	@scripts/make_venv
	$(call quietly,WRITE)build/venv/bin/python $< tests/golden/towers $(@D) && touch $@

# Data that tests read; quick if it exists.
test-data: $(TINY_CHECKPOINTS) $(MMPROJ_FILES)
	@scripts/fetch_model default >/dev/null && scripts/fetch_model gemma3-270m >/dev/null && scripts/fetch_tokenizers >/dev/null

# A test that did not build counts as failed; the others still run.
test-unit: test-data $(if $(SAN)$(filter short,$(TIER)),,$(F32_MODELS)) ## build and run the C tests (TIER=short or long, SAN=... under sanitizers)
	@failed=; $(BUILDING) -k $(call test_programs,$(call listed,sources)) || failed=--build-failed; \
	scripts/run_tests $(TALLY_ARG) --jobs $(JOBS) $$failed $(call listed,runs)

test-agreement: $(F32_MODELS) ## the C tests of whole models against llama.cpp's recorded answers
	@$(BUILDING) $(call test_programs,$(call listed,--tag f32-models sources))
	@scripts/run_tests $(TALLY_ARG) $(call listed,--tag f32-models runs)

test-vulkan: test-data ## the C tests of the Vulkan backend on Mesa's CPU drivers
	@failed=; $(BUILDING) -k $(call test_programs,$(call listed,--under tests/vulkan sources)) || failed=--build-failed; \
	scripts/run_tests $(TALLY_ARG) --jobs $(JOBS) $$failed $(call listed,--under tests/vulkan runs)

test-gpu: ## the Vulkan backend on this machine's GPU: its tests, fuzzed shapes, whole models, 64 streams (ARGS="..." adds options)
	@scripts/test_gpu $(ARGS)

ARM_CHECK := $(if $(filter aarch64,$(MACHINE)),,$(wildcard build/arm-root/made-from))
test-arm: ## C tests of rings, CPU kernels and tiny models as programs of AArch64, cross-built, under qemu-aarch64 (Debian)
ifneq ($(ARM_CHECK),)
	@failed=; $(BUILDING) -k ARCH=aarch64 build/aarch64/qemu_death_plugin.so $(patsubst tests/%.c,build/aarch64/tests/%,$(shell scripts/test_list --arm sources)) || failed=--build-failed; \
	scripts/run_tests $(TALLY_ARG) --jobs $(JOBS) $$failed $(shell scripts/test_list --arm runs)
else
	@echo "test-arm: skipped, build/arm-root is not there (scripts/setup test-long makes it on Debian)"
endif

test-scripts: ## tests of the scripts
	@scripts/make_venv
	@$(BUILDING) programs tools build/step_bench build/draft_bench build/step_pace.so build/stream_reader $(SCRIPTED_WORKER)
	@scripts/run_pytest $(TALLY_ARG) --tier $(TIER) --jobs $(JOBS) tests/scripts

test-api: test-data ## tests of the running server through its HTTP API
	@scripts/make_venv
	@scripts/make_node
	@$(BUILDING) programs tools $(SCRIPTED_WORKER) $(BUILD)/tests/grammar/tool_call_probe $(BUILD)/tests/model/feature_folders_test $(BUILD)/tests/model/towers_test
	@scripts/vulkan_env native scripts/run_pytest $(TALLY_ARG) --tier $(TIER) --jobs $(JOBS) tests/api

test-fault: test-data ## kill, stop and poison workers under load: no answer may change (LENGTH=short, long or timed)
	@scripts/make_venv
	@$(BUILDING) programs
	@SHOAL_FAULT_LENGTH=$(LENGTH) scripts/vulkan_env native scripts/run_pytest $(TALLY_ARG) --tier $(TIER) \
	    --jobs $(if $(filter short,$(LENGTH)),$(JOBS),1) tests/fault

test-clients: ## client libraries against both models, 100 calls each, agents and llama.cpp's tests, installed under build/; writes their table (ARGS="...", LLAMA_CPP=checkout)
	@scripts/setup test
	@$(BUILDING) programs $(SCRIPTED_WORKER) test-data
	@failed=; for run in "run_clients $(ARGS)" run_agents "run_llama_cpp_tests $(LLAMA_CPP)" client_table.py; do \
	    tests/clients/$$run || failed=1; done; [ -z "$$failed" ]

soak: test-data ## every disturbance at once at 80 % load for MINUTES (30): no answer may be lost or change, memory stays flat
	@scripts/make_venv
	@$(BUILDING) programs
	@SHOAL_SOAK_MINUTES=$(MINUTES) scripts/run_pytest $(TALLY_ARG) tests/fault/soak_test.py

test-san: ## the C tests under address+undefined (in the build of the fuzz targets) and under thread sanitizers
	@failed=0; for san in fuzz thread; do \
	    $(MAKE) --no-print-directory SAN=$$san test-unit || failed=1; done; exit $$failed

fuzz: ## run every fuzz target for FUZZ_SECONDS (8)
	@failed=; $(BUILDING) -k SAN=fuzz fuzzers || failed=--build-failed; \
	scripts/run_fuzz $(TALLY_ARG) --jobs $(JOBS) --seconds $(FUZZ_SECONDS) $$failed \
	    $(patsubst tests/%.c,build/san-fuzz/tests/%,$(FUZZ_SRC))

deb: programs ## a Debian package in build/package, for the system it is made on
	@scripts/package/deb

container: programs ## OCI images in build/container, for CPUs and for Vulkan devices, without a registry (needs root and mmdebstrap; ARGS="cpu")
	@scripts/package/container $(ARGS)

test-packages: programs ## make package and images; install, run and remove the package in a fresh root, run the images (needs root, mmdebstrap, umoci, bubblewrap)
	@scripts/make_venv
	@scripts/run_pytest $(TALLY_ARG) tests/packages

CLUSTER_PYTHON := kubernetes-validate==1.37.0 grpcio==1.85.3 xds-protos==1.85.0
build/cluster-python/made-from:
	@scripts/make_venv
	rm -rf $(@D) && build/venv/bin/pip install -q --target $(@D) $(CLUSTER_PYTHON) && touch $@

test-cluster: programs build/cluster-python/made-from ## manifests against schemas, and two servers behind a real endpoint picker and kube-apiserver (PICKER=its checkout, built; KUBERNETES=folder of programs; GATEWAY_API=, PROMETHEUS_OPERATOR=their modules' folders)
	@PICKER=$(PICKER) KUBERNETES=$(KUBERNETES) GATEWAY_API=$(GATEWAY_API) PROMETHEUS_OPERATOR=$(PROMETHEUS_OPERATOR) scripts/run_pytest $(TALLY_ARG) tests/cluster

mutate: ## change one operator or constant at a time and count what the module's own tests notice (ARGS="--folder shm")
	@scripts/mutate --jobs $(JOBS) $(ARGS)

bench: ## measure against llama.cpp on this machine (ARGS="..." adds options)
	@scripts/setup test
	@$(BUILDING) programs
	@scripts/bench/run $(ARGS)

bench-frontend: ## measure what a streamed token costs the frontend (ARGS="..." adds options)
	@$(BUILDING) programs $(SCRIPTED_WORKER) build/stream_reader
	@scripts/bench/frontend $(ARGS)

bench-gpu: ## measure on a Vulkan device against llama.cpp's Vulkan backend (PEER="..." ARGS="...")
	@scripts/setup run
	@$(BUILDING) programs tools build/step_bench
	@scripts/fetch_model default >/dev/null
	@scripts/bench/gpu --peer "$(PEER)" $(ARGS)

clean: ## remove what was built (keeps build/venv, build/node, build/vulkan-tools and build/cache)
	rm -rf build/set-up build/obj build/tests build/checkpoints build/san-* build/fuzz build/results build/*.a build/shoal build/shoal-worker build/shoal-media build/shoal-av build/shoal-load $(BENCH_PROGRAMS) build/step_pace.so

install: programs ## copy the programs to $(DESTDIR)$(PREFIX)/bin
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(PROGRAMS)
