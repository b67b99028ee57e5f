# eitp: `make help` says what there is.

CC ?= cc
CLANG ?= clang
CFLAGS ?= -O2
LDFLAGS ?=
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 1)

STANDARD := -std=c11
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wundef
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g

# Whether a program of the text $(1) compiles and links with the options $(2), and the compiler $(3) or CC: 1 or 0.
, := ,
probe = $(shell mkdir -p $(BUILD) && printf '%b' '$(1)' >$(BUILD)/probe.c && \
	$(or $(3),$(CC)) $(BUILD)/probe.c -o $(BUILD)/probe $(2) >/dev/null 2>&1 && echo 1 || echo 0)

ifeq ($(filter clean help,$(MAKECMDGOALS)),)
ifeq ($(origin OPENMP),undefined)
OPENMP := $(call probe,\043include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n,-fopenmp)
endif
ifeq ($(origin OPENBLAS),undefined)
OPENBLAS := $(call probe,\043include <cblas.h>\nint main(void) { return (int)cblas_dasum(0$(,) 0$(,) 1); }\n,-lopenblas)
endif
ifeq ($(origin SANITIZE),undefined)
SANITIZE := $(call probe,int main(void) { return 0; }\n,$(SANITIZERS))
endif
ifeq ($(origin FUZZER),undefined)
FUZZER := $(call probe,int LLVMFuzzerTestOneInput(void) { return 0; },-fsanitize=fuzzer -fsanitize=address,$(CLANG))
endif
endif

FEATURES :=
LIBRARIES :=
ifeq ($(OPENMP),1)
FEATURES += -fopenmp
LIBRARIES += -fopenmp
endif
ifeq ($(OPENBLAS),1)
FEATURES += -DEITP_WITH_OPENBLAS=1
LIBRARIES += -lopenblas
endif
LIBRARIES += -lm

# The manifest is the one list of modules.
MANIFEST := $(shell sed -e 's/#.*//' src/manifest)
MODULES := $(filter %.c,$(MANIFEST))
HEADERS := $(filter %.h,$(MANIFEST))
TEMPLATES := $(wildcard src/*/*.inc kernels/*.inc kernels/*/*.inc backends/*/*.inc)
AMALGAMATE := $(sort $(wildcard tools/amalgamate*.c))
COMMAND := $(sort $(wildcard tools/eitp*.c tools/command*.c))
EXAMPLES := $(sort $(wildcard examples/*.c))
TESTS := $(sort $(wildcard tests/test_*.c))
FUZZERS := $(sort $(wildcard tests/fuzz_*.c))

VERSION = $(shell sed -n 's/^.define EITP_VERSION_STRING "\(.*\)"/\1/p' src/base/base.h)

SPLIT_TESTS := $(TESTS:%.c=$(BUILD)/split/%)
# Emulated sets need the modules apart, and would take minutes to compile with sanitizers.
REAL_TESTS := $(filter-out %_emulated.c,$(TESTS))
PACKED_TESTS := $(REAL_TESTS:%.c=$(BUILD)/packed/%)
SANITIZED_TESTS := $(if $(filter 1,$(SANITIZE)),$(REAL_TESTS:%.c=$(BUILD)/sanitized/%))
FUZZ_PROGRAMS := $(if $(filter 1,$(SANITIZE) $(FUZZER)),$(FUZZERS:%.c=$(BUILD)/fuzz/%))
EXAMPLE_PROGRAMS := $(EXAMPLES:%.c=$(BUILD)/%)
COMMAND_PROGRAM := $(if $(wildcard tools/eitp.c),$(BUILD)/eitp)

SPLIT := $(STANDARD) $(WARNINGS) -Werror -DEITP_SPLIT -I$(BUILD)/split -Isrc -I. $(FEATURES)
SANITIZED := $(SPLIT) -O1 $(SANITIZERS)
ifeq ($(FUZZER),1)
FUZZ_CC := $(CLANG)
# clang may lack the OpenMP that $(CC) has, and a fuzz target needs neither.
FUZZ := $(STANDARD) -DEITP_SPLIT -I$(BUILD)/split -Isrc -I. -O1 $(SANITIZERS) -fsanitize=fuzzer-no-link
FUZZ_LINK := -fsanitize=fuzzer -lm
else
FUZZ_CC := $(CC)
FUZZ := $(filter-out $(FEATURES),$(SANITIZED))
FUZZ_LINK := tools/fuzz_main.c -lm
endif

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all test test-bochs quickstart check check-all examples install clean help test-programs print-skipped FORCE

all: eitp.h $(COMMAND_PROGRAM)

help:
	@echo 'make             eitp.h and the command build/eitp'
	@echo 'make eitp.h      the header, from the modules in src/manifest'
	@echo 'make test        builds and runs every test; TEST=word runs those with the word in their name'
	@echo 'make test-bochs  the same, but for real sets, on an emulated processor with AVX-512 and AMX (Debian; hours)'
	@echo 'make quickstart  builds, then trains something small'
	@echo 'make check       is eitp.h fresh, are the rules kept (quick)'
	@echo 'make check-all   the same with static analysis and every combination of compiler and options (slow)'
	@echo 'make examples    build/examples/*'
	@echo 'make install     header, command and pkg-config file to DESTDIR and PREFIX ($(PREFIX))'
	@echo 'make clean       removes build/'
	@echo 'OPENMP=0|1 and OPENBLAS=0|1 overrule what was found; CC and CFLAGS are as usual'

# What was compiled with other flags is compiled again.
FLAGS := $(CC) $(CFLAGS) $(LDFLAGS) $(FEATURES) $(FUZZ_CC)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' >$@

$(BUILD)/amalgamate: $(AMALGAMATE) tools/amalgamate.h
	@mkdir -p $(@D)
	$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) $(AMALGAMATE) -o $@

eitp.h: $(BUILD)/amalgamate src/manifest $(MODULES) $(HEADERS) $(TEMPLATES)
	$(BUILD)/amalgamate

# A module that is missing is for the amalgamator to report, with the line of the manifest.
$(MODULES) $(HEADERS): ;

$(BUILD)/command/%.o: tools/%.c eitp.h $(wildcard tools/*.h) $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) $(FEATURES) -I. -c $< -o $@

$(BUILD)/eitp: $(COMMAND:tools/%.c=$(BUILD)/command/%.o)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBRARIES)

examples: $(EXAMPLE_PROGRAMS)

$(BUILD)/examples/%: examples/%.c eitp.h $(wildcard examples/*.h) $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) $(FEATURES) -I. $(LDFLAGS) $< -o $@ $(LIBRARIES)

# ---- tests: each program with the modules compiled apart, packed in eitp.h, and apart under the sanitizers ----

test-programs: eitp.h $(COMMAND_PROGRAM) $(SPLIT_TESTS) $(SANITIZED_TESTS) $(FUZZ_PROGRAMS) $(EXAMPLE_PROGRAMS) \
	$(PACKED_TESTS)

$(BUILD)/split/everything_split.h: src/manifest
	@mkdir -p $(@D)
	@for header in $(filter-out documentation.h,$(HEADERS:src/%=%)); do echo "#include \"$$header\""; done >$@

$(BUILD)/split/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(SPLIT) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/sanitized/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(SANITIZED) -MMD -MP -c $< -o $@

$(BUILD)/fuzz/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ) -MMD -MP -c $< -o $@

$(BUILD)/split/tests/test_%: tests/test_%.c $(BUILD)/split/everything_split.h $(MODULES:%.c=$(BUILD)/split/%.o)
	@mkdir -p $(@D)
	$(CC) $(SPLIT) $(CFLAGS) -MMD -MP $(LDFLAGS) $< $(MODULES:%.c=$(BUILD)/split/%.o) -o $@ $(LIBRARIES)

$(BUILD)/sanitized/tests/test_%: tests/test_%.c $(BUILD)/split/everything_split.h $(MODULES:%.c=$(BUILD)/sanitized/%.o)
	@mkdir -p $(@D)
	$(CC) $(SANITIZED) -MMD -MP $(LDFLAGS) $< $(MODULES:%.c=$(BUILD)/sanitized/%.o) -o $@ $(LIBRARIES)

$(BUILD)/packed/eitp.o: tests/packed.c eitp.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(STANDARD) $(WARNINGS) -Werror $(FEATURES) $(CFLAGS) -I. -c $< -o $@

$(BUILD)/packed/tests/test_%: tests/test_%.c $(BUILD)/split/everything_split.h $(BUILD)/packed/eitp.o
	@mkdir -p $(@D)
	$(CC) $(SPLIT) $(CFLAGS) -MMD -MP $(LDFLAGS) $< $(BUILD)/packed/eitp.o -o $@ $(LIBRARIES)

$(BUILD)/fuzz/tests/fuzz_%: tests/fuzz_%.c tools/fuzz_main.c $(BUILD)/split/everything_split.h \
	$(MODULES:%.c=$(BUILD)/fuzz/%.o)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ) -MMD -MP $(LDFLAGS) $< $(MODULES:%.c=$(BUILD)/fuzz/%.o) -o $@ $(FUZZ_LINK)

-include $(wildcard $(BUILD)/*/*/*.d $(BUILD)/*/*/*/*.d)

# Dependencies are installed first, so what was found is found again in the make that tools/test.sh starts.
test:
	+@MAKE='$(MAKE)' BUILD='$(BUILD)' CC='$(CC)' CLANG='$(CLANG)' JOBS='$(JOBS)' TEST='$(TEST)' sh tools/test.sh

test-bochs:
	+@MAKE='$(MAKE)' BUILD='$(BUILD)' CC='$(CC)' TEST='$(TEST)' sh tools/bochs.sh

quickstart:
	@sh tools/install_dependencies.sh quickstart
	@$(MAKE) --no-print-directory all
	@BUILD='$(BUILD)' CC='$(CC)' sh tools/quickstart.sh

check: $(BUILD)/amalgamate
	@BUILD='$(BUILD)' sh tools/check.sh

check-all: check
	@BUILD='$(BUILD)' sh tools/check.sh analysis
	@BUILD='$(BUILD)' JOBS='$(JOBS)' sh tools/compile_matrix.sh all

# What `make test` will leave out on this machine, a line each.
print-skipped:
	@$(if $(filter 0,$(OPENMP)),echo 'SKIPPED OpenMP: switched off or not in $(CC)',:)
	@$(if $(filter 0,$(OPENBLAS)),echo 'SKIPPED OpenBLAS: switched off or no cblas.h and -lopenblas',:)
	@$(if $(filter 0,$(SANITIZE)),echo 'SKIPPED sanitizers: $(CC) cannot link them',:)
	@echo 'SKIPPED emulated kernel sets packed and under sanitizers: they are tested with the modules apart'
	@echo 'SKIPPED some shapes of test_matmul packed and under sanitizers: all are multiplied with the modules apart'
	@$(if $(filter 0,$(FUZZER)),echo 'SKIPPED fuzzing: no clang with libFuzzer; the seeds alone are run',:)

install: all
	mkdir -p '$(DESTDIR)$(PREFIX)/include' '$(DESTDIR)$(PREFIX)/lib/pkgconfig'
	cp eitp.h '$(DESTDIR)$(PREFIX)/include/eitp.h'
	printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' 'Name: eitp' \
		'Description: trains Transformers inside the memory a machine really has' 'Version: $(VERSION)' \
		'Cflags: $(strip -I$${includedir} $(FEATURES))' 'Libs: $(strip $(LIBRARIES))' >'$(DESTDIR)$(PREFIX)/lib/pkgconfig/eitp.pc'
ifneq ($(COMMAND_PROGRAM),)
	mkdir -p '$(DESTDIR)$(PREFIX)/bin'
	cp $(BUILD)/eitp '$(DESTDIR)$(PREFIX)/bin/eitp'
endif

clean:
	rm -rf $(BUILD)
