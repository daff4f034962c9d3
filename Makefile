# Quiet by default; V=1 shows commands. Objects and programs go to build/ (BUILD=build-x: elsewhere).
# The targets for people (all run test check-all check-asan lint bench clean) first let tools/bootstrap install what
# is missing, then start make again: what pkg-config says is read after the packages are there.
# Make's own rules would be tried for every header of every dependency file: seconds a start.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2))

ifeq ($(origin CC),default)
CC      := gcc
endif
AR      ?= ar
BUILD   ?= build
OPT     ?= -O2 -g
WARN    := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -fPIC -fvisibility=hidden -Iinclude -I. -MMD -MP $(CFLAGS)
LUA_CFLAGS := $(shell pkg-config --cflags lua5.4 2>/dev/null)
LUA_LIBS   := $(shell pkg-config --libs lua5.4 2>/dev/null)
LUA_LIB    := $(shell pkg-config --variable=libdir lua5.4 2>/dev/null)/liblua5.4.a
CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null)
JANSSON    := $(shell pkg-config --libs jansson 2>/dev/null)
SANITIZE   := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ       := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
FUZZ_SECONDS ?= 300

RUNTIME_SRC := $(wildcard runtime/*.c)
GEN_SRC     := $(wildcard gen/*.c)
CPU_SRC     := $(wildcard runtime/cpu/*.c)
TOOL_SRC    := $(filter-out tools/dcpk.c,$(wildcard tools/*.c))
TEST_SRC    := $(wildcard tests/test_*.c)
PROGRAMS    := $(patsubst tests/program_%.c,$(BUILD)/tests/%,$(wildcard tests/program_*.c))
TEST_LIB_SRC:= $(filter-out $(TEST_SRC) $(wildcard tests/program_*.c),$(wildcard tests/*.c))
TESTS       := $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)
obj = $(1:%.c=$(BUILD)/%.o)

GPUS ?= 1
DEVICE ?= cuda

# ---- for people ---------------------------------------------------------------------------------------------------
jobs  = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
setup = $(Q)tools/bootstrap $(1)
again = $(Q)$(MAKE) $(if $(filter 1,$(V)),--no-print-directory,-s) $(jobs) V=$(V)

# Several of these at once would be several makes in one build folder.
ifneq ($(filter-out programs suites fuzzers $(BUILD)/%,$(or $(MAKECMDGOALS),all)),)
.NOTPARALLEL:
endif
.PHONY: all run test check-all check-asan fuzz lint bench check-gpu bench-gpu clean programs suites
all:
	$(call setup,build)
	+$(again) programs
run:
	$(call setup,build)
	+$(again) programs
	$(Q)$(BUILD)/dcpk run $(ARGS)
test:
	$(call setup,test)
	+$(again) suites
	$(Q)tests/run_all $(BUILD)
check-all:
	$(call setup,test)
	+$(again) programs $(BUILD)/tests/check_all
	$(Q)$(BUILD)/tests/check_all $(ARGS)
check-asan:
	$(call setup,test)
	+$(again) BUILD=$(BUILD)-asan OPT='$(SANITIZE)' suites
	$(Q)CK_TIMEOUT_MULTIPLIER=20 SUITE_TIMEOUT=3600 tests/run_all $(BUILD)-asan
# Fuzz targets for FUZZ_SECONDS each, all or FUZZ_TARGETS ("ptx spec"); fails on any finding.
fuzz:
	$(Q)tests/fuzz/run --check '$(FUZZ_SECONDS)'
	$(call setup,fuzz)
	+$(again) BUILD=$(BUILD)-fuzz CC=clang OPT='$(FUZZ)' fuzzers
	$(Q)tests/fuzz/run $(BUILD)-fuzz '$(FUZZ_SECONDS)' $(FUZZ_TARGETS)
lint:
	$(call setup,lint)
	$(Q)tools/lint
bench:
	$(call setup,build)
	+$(again) programs $(BUILD)/tests/bench
	$(Q)$(BUILD)/tests/bench $(ARGS)
# On a machine with GPUs. check-gpu: GPUS ranks have one each, more share; DEVICE=cpu: GPUS ranks on the CPU device. bench-gpu: one GPU's
# kernels; with GPUS=2 and more what lies between them. None starts multicast (tests/no_multicast.h); words are looked at before
# anything is built.
check-gpu:
	$(Q)tests/check_gpu --words '$(GPUS)' '$(DEVICE)'
	$(call setup,test)
	+$(again) $(if $(filter cpu,$(DEVICE)),programs $(BUILD)/tests/check_ranks,suites)
	$(Q)tests/check_gpu $(BUILD) '$(GPUS)' '$(DEVICE)'
bench-gpu:
	$(Q)tests/bench_gpu --words '$(GPUS)' '$(DEVICE)'
	$(call setup,build)
	+$(again) programs $(BUILD)/tests/bench_gpu $(BUILD)/tests/bench_decode $(BUILD)/tests/bench_ranks
	$(Q)tests/bench_gpu $(BUILD) '$(GPUS)' '$(DEVICE)' $(ARGS)
clean:
	$(Q)rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz

include tools/packaging/install.mk

# ---- what they build ----------------------------------------------------------------------------------------------
programs: $(BUILD)/dcpk $(BUILD)/libdcpk.so $(BUILD)/libdcpkcpu.so
suites: programs package $(TESTS) $(PROGRAMS) $(BUILD)/tests/libfakecuda.so

$(BUILD)/gen/%.o: CFLAGS_ALL += $(LUA_CFLAGS)
# What shapes PTX and launch data is part of every key: after an edit of the expander, of a table or of what writes
# specs and images, old entries are misses.
KEYED_RUNTIME := spec arch keys names image cubin
KEYED := $(sort $(wildcard gen/*.[ch] gen/*.def include/dcpk/*.h include/dcpk/*.def \
             $(foreach name,$(KEYED_RUNTIME),runtime/$(name)*.[ch] runtime/$(name)*.def)))
$(BUILD)/gen/key.o: CFLAGS_ALL += -DDCPK_GENERATOR_ID='"$(shell cat $(KEYED) | cksum | cut -d' ' -f1)"'
$(BUILD)/gen/key.o: $(KEYED)
$(BUILD)/runtime/cpu/%.o: OPT := $(if $(findstring -fsanitize,$(OPT)),$(OPT),-O3 -g)
$(BUILD)/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -c -o $@ $<

$(BUILD)/libdcpk.a: $(call obj,$(RUNTIME_SRC))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/libdcpkgen.a: $(call obj,$(GEN_SRC))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/libtools.a: $(call obj,$(TOOL_SRC))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/dcpk: $(BUILD)/tools/dcpk.o $(BUILD)/libtools.a $(BUILD)/libdcpkgen.a $(BUILD)/libdcpk.a
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -o $@ $^ $(LUA_LIB) $(JANSSON) -lm -ldl -lpthread

$(BUILD)/libtests.a: $(call obj,$(TEST_LIB_SRC))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(if $(TEST_LIB_SRC),$(BUILD)/libtests.a) $(BUILD)/libtools.a $(BUILD)/libdcpkgen.a $(BUILD)/libdcpk.a
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LUA_LIB) $(JANSSON) -lm -ldl -lpthread

# Suites of the CPU device's insides link its objects; everything else meets it only through its cu* symbols.
$(BUILD)/libdcpkcpu.a: $(call obj,$(CPU_SRC))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/tests/test_cpu_%: $(BUILD)/tests/test_cpu_%.o $(BUILD)/libdcpkcpu.a
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread
# Where there is a toolkit, our own view of the driver's interface is held against its header.
$(BUILD)/tests/test_driver.o: CFLAGS_ALL += -idirafter $(or $(CUDA_HOME),/usr/local/cuda)/include
# A driver library that runs nothing and records everything, for suites about loading and launching.
$(BUILD)/tests/libfakecuda.so: $(call obj,$(wildcard tests/drivers/*.c))
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -shared -o $@ $^
# Fuzz targets, tests/fuzz/fuzz_NAME.c: as libFuzzer's programs (make fuzz), and in the suites that replay past findings.
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_LIBS = $(BUILD)/libtools.a $(BUILD)/libdcpkgen.a $(BUILD)/libdcpk.a
$(BUILD)/fuzz/fuzz_ptx: FUZZ_LIBS = $(BUILD)/libdcpkcpu.a
FUZZ_REPLAY := $(BUILD)/tests/fuzz/replay.o
$(BUILD)/tests/test_fuzz_findings: $(BUILD)/tests/test_fuzz_findings.o $(FUZZ_REPLAY) $(filter-out %_ptx.o,$(FUZZERS:%=$(BUILD)/tests/fuzz/%.o)) $(BUILD)/libtools.a $(BUILD)/libdcpkgen.a $(BUILD)/libdcpk.a
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LUA_LIB) $(JANSSON) -lm -ldl -lpthread
$(BUILD)/tests/test_cpu_fuzz: $(BUILD)/tests/test_cpu_fuzz.o $(FUZZ_REPLAY) $(BUILD)/tests/fuzz/fuzz_ptx.o $(BUILD)/libdcpkcpu.a
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread
.PHONY: fuzzers
fuzzers: $(BUILD)/dcpk $(FUZZERS:%=$(BUILD)/fuzz/%)
$(BUILD)/fuzz/%: tests/fuzz/entry.c $(BUILD)/tests/fuzz/%.o $(BUILD)/libtools.a $(BUILD)/libdcpkgen.a $(BUILD)/libdcpk.a $(BUILD)/libdcpkcpu.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS_ALL)) $(LDFLAGS) -fsanitize=fuzzer -DFUZZ_TARGET=$* -o $@ $(wordlist 1,2,$^) $(FUZZ_LIBS) $(LUA_LIB) $(JANSSON) -lm -ldl -lpthread
# Programs that suites start: tests/program_NAME.c -> build/tests/NAME. Those that need the libraries say so here.
$(BUILD)/tests/bench_gpu $(BUILD)/tests/bench_decode $(BUILD)/tests/check_oracle $(BUILD)/tests/check_ranks $(BUILD)/tests/bench_ranks: $(BUILD)/libtests.a
$(BUILD)/tests/check_all $(BUILD)/tests/bench $(BUILD)/tests/bench_gpu $(BUILD)/tests/bench_decode $(BUILD)/tests/check_oracle $(BUILD)/tests/check_ranks $(BUILD)/tests/bench_ranks $(BUILD)/tests/expand: LIBS = $(LUA_LIB) $(JANSSON) -lm -ldl -lpthread
$(BUILD)/tests/check_all $(BUILD)/tests/bench $(BUILD)/tests/bench_gpu $(BUILD)/tests/bench_decode $(BUILD)/tests/check_oracle $(BUILD)/tests/check_ranks $(BUILD)/tests/bench_ranks $(BUILD)/tests/expand: $(BUILD)/libtools.a $(BUILD)/libdcpkgen.a $(BUILD)/libdcpk.a
$(BUILD)/tests/wgmma_record: LIBS = -lm -ldl -lpthread
$(BUILD)/tests/wgmma_record: $(BUILD)/libdcpk.a
$(BUILD)/tests/foreign_gpu: LIBS = -lm -ldl -lpthread
$(BUILD)/tests/foreign_gpu: $(BUILD)/libtests.a $(BUILD)/libdcpk.a
$(BUILD)/tests/memcheck: LIBS = -lm -ldl -lpthread
$(BUILD)/tests/memcheck: $(BUILD)/libtests.a $(BUILD)/libdcpk.a
# An engine's program: it links the runtime's library and nothing else.
$(BUILD)/tests/pack_layer: LIBS = -Wl,-rpath,'$$ORIGIN/..'
$(BUILD)/tests/pack_layer: $(BUILD)/libdcpk.so.$(SOVERSION)
# A version of the future, which shares a cache folder with this one: another generator, the next image format.
OTHER := $(patsubst %,$(BUILD)/other/%.o,gen/key gen/cache_shard runtime/image runtime/image_write)
$(BUILD)/other/%.o: %.c
	$(call say,CC,"$< (other version)")
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -DDCPK_GENERATOR_ID='"another"' -DDCPK_IMAGE_FORMAT=2 -c -o $@ $<
$(BUILD)/tests/other_version: LIBS = $(LUA_LIB) -lm -ldl -lpthread
$(BUILD)/tests/other_version: $(OTHER) $(BUILD)/libdcpkgen.a $(BUILD)/libdcpk.a
$(BUILD)/tests/%: $(BUILD)/tests/program_%.o
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -o $@ $^ $(LIBS)

# Objects stay, also those that a pattern rule made on the way.
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
