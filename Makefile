# eitp: `make help` lists the targets.

CC ?= cc
CLANG ?= clang
CFLAGS ?= -O2
LDFLAGS ?=
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
# The tests build with WERROR=-Werror. Users' compilers may have warnings that ours do not.
WERROR ?=

# Uses all processors unless -j is given. A recursive make takes its jobs from its parent.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS)
endif
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

STANDARD := -std=c11
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wundef
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1

# Recipes print one short line per file: $(call say,CC,file). V=1 prints whole commands, `make -s` prints nothing.
Q := $(if $(filter 1,$(V)),,@)
quiet := $(if $(Q),$(findstring s,$(firstword -$(MAKEFLAGS))),s)
say = @$(if $(quiet),:,printf '%-7s %s\n' '$(1)' '$(2)')

# 1 if the program $(1) compiles and links with the options $(2) and the compiler $(3) or CC, otherwise 0.
, := ,
probe = $(shell mkdir -p $(BUILD) && printf '%b' '$(1)' >$(BUILD)/probe.c && \
	$(or $(3),$(CC)) $(BUILD)/probe.c -o $(BUILD)/probe $(2) >/dev/null 2>&1 && echo 1 || echo 0)

ifeq ($(filter clean help uninstall,$(MAKECMDGOALS)),)
ifeq ($(origin OPENMP),undefined)
OPENMP := $(call probe,\043include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n,-fopenmp)
endif
ifeq ($(origin SANITIZE),undefined)
SANITIZE := $(call probe,int main(void) { return 0; }\n,$(SANITIZERS))
endif
ifeq ($(origin FUZZER),undefined)
FUZZER := $(call probe,int LLVMFuzzerTestOneInput(void) { return 0; },-fsanitize=fuzzer -fsanitize=address,$(CLANG))
endif
endif

# Maximum frame size of functions in the library and the command, which run on a 64 KiB stack. Kernels are excepted.
# Separate modules are compiled with a warning. For eitp.h, tools/frames.awk checks the list written by the compiler.
MOST_FRAME := 12288
FRAME := -Wframe-larger-than=$(MOST_FRAME)
ifeq ($(filter clean help uninstall,$(MAKECMDGOALS)),)
ifeq ($(origin FRAMES),undefined)
FRAMES := $(if $(WERROR),$(if $(filter 1,$(call probe,int main(void) { return 0; }\n,-Werror $(FRAME))),$(FRAME)))
endif
ifeq ($(origin FRAME_LIST),undefined)
FRAME_LIST := $(if $(filter 1,$(call probe,int main(void) { return 0; }\n,-Werror -fstack-usage)),-fstack-usage)
endif
endif

FEATURES :=
LIBRARIES :=
ifeq ($(OPENMP),1)
FEATURES += -fopenmp
LIBRARIES += -fopenmp
endif
LIBRARIES += -lm

# The command opens libyaml to read YAML. Older C libraries have dlopen in -ldl.
ifeq ($(filter clean help uninstall,$(MAKECMDGOALS)),)
ifeq ($(origin DLOPEN_LIBRARY),undefined)
DLOPEN_LIBRARY := $(if $(filter 0,$(call probe,\043include <dlfcn.h>\nint main(void) { return !dlopen(0$(,) RTLD_NOW); }\n)),-ldl)
endif
endif

# The manifest is the only list of modules and of the files included in eitp.h as text. A file can be both.
MANIFEST := $(shell sed -e 's/ *#.*//' -e '/^switches:/,/^$$/d' -e '/^texts:/,/:$$/d' src/manifest)
TEXTS := $(shell sed -e 's/ *#.*//' -e '/^texts:/,/:$$/!d' -e '/:$$/d' src/manifest)
MODULES := $(filter %.c,$(MANIFEST))
PARTS := $(sort $(shell sed -n 's/^part \([0-9]*\):.*/\1/p' src/manifest))
HEADERS := $(filter %.h,$(MANIFEST))
TEMPLATES := $(wildcard src/*/*.inc kernels/*.inc kernels/*/*.inc backends/*/*.inc)
AMALGAMATE := $(sort $(wildcard tools/amalgamate/*.c))
COMMAND := $(sort $(wildcard tools/command/*.c tools/command/*/*.c))
CUDA_KERNELS := $(sort $(wildcard tools/cuda_kernels/*.c))
EXAMPLES := $(sort $(wildcard examples/*.c))
# Tests of the emulated CUDA libraries do not use eitp.
TESTS := $(basename $(sort $(filter-out tests/cuda/%,$(wildcard tests/*/test_*.c))))
CUDA_TESTS := $(basename $(sort $(wildcard tests/cuda/test_*.c)))
EMULATED := $(filter %_emulated,$(TESTS))
FUZZERS := $(basename $(sort $(wildcard tests/fuzz/fuzz_*.c)))
# Programs used by tests and targets.
HELPERS := tests/run/verify_checkpoints tests/run/soak tests/template/render_template

VERSION = $(shell sed -n 's/^.define EITP_VERSION_STRING "\(.*\)"/\1/p' src/base/version.h)

EXAMPLE_PROGRAMS := $(EXAMPLES:%.c=$(BUILD)/%)
COMMAND_PROGRAM := $(if $(wildcard tools/command/eitp.c),$(BUILD)/eitp)
# The library of separately compiled modules. The command and the examples link it, and are compiled with eitp.h's
# declarations.
LIBRARY := $(BUILD)/split/libeitp.a
COMMAND_OBJECTS := $(COMMAND:%.c=$(BUILD)/%.o)

SPLIT := $(STANDARD) $(WARNINGS) $(WERROR) -DEITP_SPLIT -I$(BUILD)/split -Isrc -I. $(FEATURES)
SANITIZED := $(SPLIT) -O1 $(SANITIZERS)
# Fuzz targets with libFuzzer, run by `make nightly`. They use no OpenMP, which clang may lack. They only read files, so
# one kernel set is enough.
INSTRUMENTED := $(SANITIZERS) -fsanitize=fuzzer-no-link
FUZZ_LINK := -fsanitize=fuzzer -lm
# The command without its main, for the fuzz target that calls it.
CALLED_COMMAND := $(filter-out %/eitp.o,$(COMMAND_OBJECTS))
FUZZ_COMMAND := $(CALLED_COMMAND:$(BUILD)/%=$(BUILD)/fuzz/%)
FUZZ := $(STANDARD) -DEITP_SPLIT -DEITP_WITHOUT_AVX2=1 -DEITP_WITHOUT_AVX512=1 -I$(BUILD)/split -Isrc -I. -O1

.DELETE_ON_ERROR:
.PRECIOUS: $(BUILD)/split/%.o $(BUILD)/sanitized/%.o $(BUILD)/fuzz/%.o
.PHONY: all switches test figures quick nightly torture soak doctor-cases parity test-bochs quickstart ablation objective-prices cuda-kernels cuda-times gpu-check gpu-check-build check check-all report-check screenshots examples install uninstall clean help print-skipped FORCE

all: eitp.h $(COMMAND_PROGRAM)

help:
	@echo 'make             eitp.h and the command build/eitp'
	@echo 'make eitp.h      the header, from the modules in src/manifest'
	@echo 'make quick       builds and runs the tests affected by the last changes; TEST=word: those with the word in their name'
	@echo 'make test        builds and runs every test; TEST=word: those with the word in their name; INSTALL=0: installs no packages; FRESH=1: also reruns tests that passed and are unchanged'
	@echo 'make nightly     tests that take hours: every compiler, port, instruction set and precision, full shapes, fuzzing; PART=k/n: share k of n'
	@echo 'make torture     every fault, power loss and kill (one to two hours); STRIDE=1 KILLS=1000 SEEDS=8'
	@echo 'make soak        trains for MINUTES=30 and checks that memory and step time do not grow; needs an idle machine'
	@echo 'make doctor-cases  checks eitp doctor on runs that are slow or killed by the kernel (five minutes)'
	@echo 'make parity      compares with PyTorch, transformers, tokenizers, PEFT and llama.cpp (installs them in build/parity, several GB)'
	@echo 'make test-bochs  tests on an emulated processor with AVX-512 and AMX (Debian; hours)'
	@echo 'make quickstart  builds, then trains a small model'
	@echo 'make ablation    measures the effect of regularizers by training about a hundred small models (hours; can be stopped and resumed)'
	@echo 'make objective-prices  measures the step time that regularizers cost (half an hour; needs an idle machine)'
	@echo 'make cuda-kernels  compiles the CUDA kernels with NVRTC, without a GPU: registers, occupancy, ... (minutes); ARCH=86 ONLY=products CUDA_COMPILER=nvcc'
	@echo 'make cuda-times  docs/cuda-times.md: expected times of the CUDA kernels in a training step'
	@echo 'make gpu-check   checks eitp on the GPU of this machine in less than ten minutes; the report is in $$(BUILD)/gpu_report; DEVICE=cuda:1 GPU_CHECK="kernels speed" EMULATED_GPU=1'
	@echo 'make gpu-check-build  what gpu-check needs, to carry to another machine: $$(BUILD)/gpu_check, at most 60 MB; ARCH="80 90"'
	@echo 'make switches    the table in docs/embedding.md: savings of each switch of eitp.h (ten minutes)'
	@echo 'make figures     tables and figures of README.md and docs/ from docs/measurements/ (python3)'
	@echo 'make check       checks that eitp.h is up to date, and the rules of CONTRIBUTING.md (quick)'
	@echo 'make check-all   make check, static analysis, and every combination of compiler and options (slow)'
	@echo 'make report-check  checks pages of eitp report in Chromium, if it is installed (a minute); SCREENSHOTS=DIR'
	@echo 'make screenshots  the screenshots of monitor and report in README.md (tmux, Chromium, python3)'
	@echo 'make examples    build/examples/*'
	@echo 'make install     header, command, its two scripts and pkg-config file to DESTDIR and PREFIX ($(PREFIX))'
	@echo 'make uninstall   removes the files that make install wrote (same DESTDIR and PREFIX)'
	@echo 'make clean       removes build/'
	@echo 'V=1 prints whole commands; OPENMP=0|1 overrides the detection; CC and CFLAGS as usual'

# Recompiles files if the flags change.
FLAGS := $(CC) $(CFLAGS) $(LDFLAGS) $(FEATURES)
FUZZ_FLAGS := $(CLANG) $(FUZZ) $(FUZZ_LINK)
remember = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@
$(BUILD)/flags: FORCE
	$(call remember,$(FLAGS))
$(BUILD)/fuzz/flags: FORCE
	$(call remember,$(FUZZ_FLAGS))
# The libraries linked by tools/code_blocks.sh.
$(BUILD)/libraries: FORCE
	$(call remember,$(LIBRARIES))

$(BUILD)/amalgamate: $(AMALGAMATE) tools/amalgamate/amalgamate.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) $(AMALGAMATE) -o $@

# Draws the figures of the documents, with the charts of the command.
FIGURE := tools/figures/figure.c $(wildcard tools/command/report/chart*.c) tools/command/report/markup.c tools/command/text.c
$(BUILD)/figure: $(FIGURE) $(wildcard tools/command/report/chart*.h) $(BUILD)/declarations/eitp.h
	$(call say,LINK,$@)
	$(Q)$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) -Werror -I$(BUILD)/declarations -I. -Itools/command $(FIGURE) -lm -o $@

figures: $(BUILD)/figure
	$(Q)BUILD=$(BUILD) python3 tools/measurements.py

eitp.h: $(BUILD)/amalgamate src/manifest $(sort $(MODULES) $(HEADERS) $(TEMPLATES) $(TEXTS))
	$(call say,PACK,$@)
	$(Q)$(BUILD)/amalgamate

# The amalgamator reports missing files with their line in the manifest.
$(sort $(MODULES) $(HEADERS) $(TEXTS)): ;

# eitp.h without the implementation. Its timestamp changes only if a declaration changes.
$(BUILD)/declarations/eitp.h: eitp.h
	@mkdir -p $(@D)
	@sed '/^#if defined(EITP_IMPLEMENTATION) && !defined(EITP_IMPLEMENTED)$$/,/^#endif \/\* EITP_IMPLEMENTATION/d' eitp.h >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(BUILD)/tools/command/%.o: tools/command/%.c $(BUILD)/declarations/eitp.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) $(WERROR) $(FRAMES) $(FEATURES) -I$(BUILD)/declarations -Itools/command -MMD -MP -c $< -o $@

link_split = $(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIBRARIES)
$(BUILD)/eitp: $(COMMAND_OBJECTS) $(LIBRARY)
	$(call say,LINK,$@)
	$(link_split) $(DLOPEN_LIBRARY)

examples: $(EXAMPLE_PROGRAMS)

# Users compile an example with `cc file.c -lm`. Here, all examples share one library.
$(BUILD)/examples/%: examples/%.c $(LIBRARY) $(BUILD)/declarations/eitp.h $(wildcard examples/*.h)
	@mkdir -p $(@D)
	@grep -q '^#define EITP_IMPLEMENTATION$$' $< || { echo '$<: EITP_IMPLEMENTATION is not defined' >&2; exit 1; }
	$(call say,LINK,$@)
	$(Q)$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) $(FEATURES) -I$(BUILD)/declarations $(LDFLAGS) $< $(LIBRARY) -o $@ $(LIBRARIES)

# ---- tests: each program with eitp.h (packed), and with separately compiled modules (split and sanitized) ----
# `make test` builds the packed and sanitized programs. `make quick` builds the split ones: such a program links an
# archive, contains only the modules that it needs, and is skipped if a change does not affect it.

# The template that the amalgamator generates from the embedded files. Its timestamp changes only if its content
# changes. everything_split.h depends on it, so that everything that needs the header waits for it too.
TEXTS_TEMPLATE := $(if $(TEXTS),$(BUILD)/split/kernels/cuda/texts.inc)
$(BUILD)/split/kernels/cuda/texts.inc: $(BUILD)/amalgamate src/manifest $(TEXTS)
	@mkdir -p $(@D)
	@$(BUILD)/amalgamate --texts >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(BUILD)/split/everything_split.h: src/manifest | $(TEXTS_TEMPLATE)
	@mkdir -p $(@D)
	@for header in $(filter-out documentation.h,$(HEADERS:src/%=%)); do echo "#include \"$$header\""; done >$@

$(patsubst %.c,$(BUILD)/split/%.o,$(filter-out kernels/%,$(MODULES))): WATCHED := $(FRAMES)

$(BUILD)/split/%.o: %.c $(BUILD)/flags | $(BUILD)/split/everything_split.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(SPLIT) $(WATCHED) $(CFLAGS) -MMD -MP -c $< -o $@

# A test spends little time outside the library, so -O1 is enough.
$(TESTS:%=$(BUILD)/split/%.o): CFLAGS := $(CFLAGS:-O2=-O1)

$(BUILD)/sanitized/%.o: %.c $(BUILD)/flags | $(BUILD)/split/everything_split.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(SANITIZED) -MMD -MP -c $< -o $@

$(BUILD)/sanitized/backends/backend.o $(BUILD)/sanitized/tests/support/device.o: SANITIZED += -DEITP__WITH_TEST_BACKEND

$(BUILD)/fuzz/%.o: %.c $(BUILD)/flags $(BUILD)/fuzz/flags | $(BUILD)/split/everything_split.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CLANG) $(FUZZ) $(INSTRUMENTED) -MMD -MP -c $< -o $@
$(FUZZ_COMMAND) $(BUILD)/fuzz/tests/fuzz/fuzz_readers.o: FUZZ := $(STANDARD) -I$(BUILD)/declarations -Itools/command -O1
$(FUZZ_COMMAND) $(BUILD)/fuzz/tests/fuzz/fuzz_readers.o: $(BUILD)/declarations/eitp.h
# Kernels and backends read no files, so they are not instrumented.
$(patsubst %.c,$(BUILD)/fuzz/%.o,$(filter-out src/%,$(MODULES))): INSTRUMENTED :=

archive = $(Q)rm -f $@; $(AR) rcs $@ $^
$(LIBRARY): $(MODULES:%.c=$(BUILD)/split/%.o)
	$(call say,AR,$@)
	$(archive)
# With the test device, for programs that run on it.
$(BUILD)/sanitized/libeitp.a: $(MODULES:%.c=$(BUILD)/sanitized/%.o) $(BUILD)/sanitized/tests/support/device.o
	$(call say,AR,$@)
	$(archive)
$(BUILD)/fuzz/libeitp.a: $(MODULES:%.c=$(BUILD)/fuzz/%.o)
	$(call say,AR,$@)
	$(archive)

$(patsubst %,$(BUILD)/split/%,$(TESTS) $(HELPERS)): $(BUILD)/split/%: $(BUILD)/split/%.o $(LIBRARY)
	$(call say,LINK,$@)
	$(link_split)
$(EMULATED:%=$(BUILD)/split/%): $(BUILD)/split/tests/support/emulated.o

# Compiles the CUDA kernels with NVIDIA's compilers.
$(BUILD)/split/cuda_kernels: $(CUDA_KERNELS:%.c=$(BUILD)/split/%.o) $(LIBRARY)
	$(call say,LINK,$@)
	$(link_split)

link_sanitized = $(Q)$(CC) $(SANITIZERS) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIBRARIES)
$(TESTS:%=$(BUILD)/sanitized/%): $(BUILD)/sanitized/%: $(BUILD)/sanitized/%.o $(BUILD)/sanitized/libeitp.a
	$(call say,LINK,$@)
	$(link_sanitized)
$(EMULATED:%=$(BUILD)/sanitized/%): $(BUILD)/sanitized/tests/support/emulated.o

# The emulated CUDA libraries, which programs load at run time, and their tests.
EMULATED_CUDA := $(addprefix $(BUILD)/emulated_cuda/,libcuda.so.1 libnvrtc.so.13 libcublasLt.so.13 libnvidia-ml.so.1)
EMULATED_FLAGS := $(STANDARD) $(WARNINGS) -Werror -D_GNU_SOURCE -I. -O2 -g1 -pthread
define emulated_library
@mkdir -p $(@D)
$(call say,LINK,$@)
$(Q)$(CC) $(EMULATED_FLAGS) -fPIC -fvisibility=hidden -shared -Wl,-z,nodelete -Wl,-z,defs -Wl,-soname,$(@F) $(filter %.c,$^) \
	-o $@ -lm $(DLOPEN_LIBRARY)
endef
$(BUILD)/emulated_cuda/libcuda.so.1: $(wildcard tests/cuda/driver*.c tests/cuda/*.h)
	$(emulated_library)
# Kernels compiled with different versions of emulated.h cannot run together.
$(BUILD)/emulated_cuda/libnvrtc.so.13: $(wildcard tests/cuda/nvrtc*.c tests/cuda/*.h)
	@rm -rf $(@D)/modules $(@D)/cache
	$(emulated_library)
$(BUILD)/emulated_cuda/libnvrtc.so.13: EMULATED_FLAGS += -DEMULATED_INCLUDE='"$(CURDIR)/tests/cuda"'
$(BUILD)/emulated_cuda/libcublasLt.so.13: $(wildcard tests/cuda/cublaslt*.c tests/cuda/*.h)
	$(emulated_library)
$(BUILD)/emulated_cuda/libnvidia-ml.so.1: $(wildcard tests/cuda/nvml*.c tests/cuda/*.h)
	$(emulated_library)
$(CUDA_TESTS:%=$(BUILD)/%): $(BUILD)/%: %.c $(wildcard tests/cuda/*.h) tests/support/test.h $(EMULATED_CUDA)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(EMULATED_FLAGS) $< -o $@ -lm $(DLOPEN_LIBRARY)

$(BUILD)/sanitized/tools/command/%.o: tools/command/%.c $(BUILD)/declarations/eitp.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(STANDARD) $(WARNINGS) $(FEATURES) -O1 $(SANITIZERS) -I$(BUILD)/declarations -Itools/command -MMD -MP -c $< -o $@

# The command's objects, and the fuzz target that calls them, are compiled with eitp.h's declarations.
$(BUILD)/sanitized/tests/fuzz/fuzz_readers.o: SANITIZED := $(STANDARD) $(WARNINGS) -O1 $(SANITIZERS) -I$(BUILD)/declarations -Itools/command
$(BUILD)/sanitized/tests/fuzz/fuzz_readers.o: $(BUILD)/declarations/eitp.h
$(BUILD)/sanitized/tests/fuzz/fuzz_readers: $(CALLED_COMMAND:$(BUILD)/%=$(BUILD)/sanitized/%)
$(FUZZERS:%=$(BUILD)/sanitized/%): $(BUILD)/sanitized/%: $(BUILD)/sanitized/%.o $(BUILD)/sanitized/tests/fuzz/main.o $(BUILD)/sanitized/libeitp.a
	$(call say,LINK,$@)
	$(link_sanitized) $(DLOPEN_LIBRARY)

$(BUILD)/sanitized/eitp: $(COMMAND_OBJECTS:$(BUILD)/%=$(BUILD)/sanitized/%) $(BUILD)/sanitized/libeitp.a
	$(call say,LINK,$@)
	$(link_sanitized) $(DLOPEN_LIBRARY)

# eitp.h as users compile it, for tests of the documented instructions. Keeps the compiler's messages for
# tests/tools/test_make.sh.
$(BUILD)/packed/users.o: tests/support/users.c eitp.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -Wall -Wextra $(FEATURES) -I. -c $< -o $@ 2>$@.messages; \
		status=$$?; cat $@.messages >&2; exit $$status

# eitp.h in parts, compiled in parallel.
PACKED := $(PARTS:%=$(BUILD)/packed/part-%.o)
$(PACKED): $(BUILD)/packed/part-%.o: tests/support/packed.c eitp.h tools/frames.awk $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$< part $*)
	$(Q)$(CC) $(STANDARD) $(WARNINGS) -Werror $(FEATURES) $(CFLAGS) $(FRAME_LIST) -DEITP_PART=$* -I. -c $< -o $@
	$(if $(FRAME_LIST),$(Q)awk -v most=$(MOST_FRAME) -f tools/frames.awk eitp.h $(@:.o=.su))

$(patsubst %,$(BUILD)/packed/%,$(TESTS) $(HELPERS)): $(BUILD)/packed/%: $(BUILD)/split/%.o $(PACKED)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(link_split)
$(EMULATED:%=$(BUILD)/packed/%): $(BUILD)/split/tests/support/emulated.o
$(BUILD)/packed/cuda_kernels: $(CUDA_KERNELS:%.c=$(BUILD)/split/%.o) $(PACKED)
	$(call say,LINK,$@)
	$(link_split)

$(BUILD)/fuzz/libcommand.a: $(FUZZ_COMMAND)
	$(call say,AR,$@)
	$(archive)
$(BUILD)/fuzz/tests/fuzz/fuzz_readers: $(BUILD)/fuzz/libcommand.a
$(FUZZERS:%=$(BUILD)/fuzz/%): $(BUILD)/fuzz/%: $(BUILD)/fuzz/%.o $(BUILD)/fuzz/libeitp.a
	$(call say,LINK,$@)
	$(Q)$(CLANG) $(FUZZ) $(INSTRUMENTED) $(LDFLAGS) $(filter %.o,$^) $(filter %/libcommand.a,$^) \
	  $(filter %/libeitp.a,$^) -o $@ $(FUZZ_LINK) $(filter-out -fopenmp,$(LIBRARIES)) $(DLOPEN_LIBRARY)

-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d $(BUILD)/*/*/*/*.d $(BUILD)/*/*/*/*/*.d)

# tools/test.sh first installs dependencies; the make that it starts then detects them.
test quick nightly torture:
	+@MAKE='$(MAKE)' STRIDE='$(STRIDE)' KILLS='$(KILLS)' SEEDS='$(SEEDS)' BUILD='$(BUILD)' CC='$(CC)' CLANG='$(CLANG)' JOBS='$(JOBS)' TEST='$(TEST)' PART='$(PART)' sh tools/test.sh $@

# SOAK: extra arguments, such as leak=4096 or slower=1, which must make it fail.
MINUTES ?= 30
soak: $(BUILD)/packed/tests/run/soak
	@rm -rf '$(BUILD)/soak' && mkdir -p '$(BUILD)/soak'
	@$< '$(BUILD)/soak' minutes=$(MINUTES) $(SOAK)

# Checks eitp doctor on slow and killed runs that take minutes to produce.
doctor-cases: all
	@BUILD='$(BUILD)' CC='$(CC)' sh tests/command/doctor_cases.sh

parity: all
	@BUILD='$(BUILD)' sh tools/peers/parity.sh

test-bochs:
	+@MAKE='$(MAKE)' BUILD='$(BUILD)' CC='$(CC)' TEST='$(TEST)' sh tools/bochs.sh

quickstart:
	@$(MAKE) --no-print-directory all
	@BUILD='$(BUILD)' CC='$(CC)' sh tools/quickstart.sh

# The effect of regularizers on models, and their cost per step: docs/objective.md.
ablation: all
	@BUILD='$(BUILD)' WORKERS='$(WORKERS)' sh tools/research/ablation.sh $(RUNS)

objective-prices: all
	@BUILD='$(BUILD)' sh tools/research/objective_prices.sh

# The savings of EITP_WITHOUT_...: the table in docs/embedding.md.
switches: eitp.h
	@BUILD='$(BUILD)' CC='$(CC)' sh tools/switches.sh

# Compiles the CUDA backend's kernels with NVIDIA's compilers, and computes their expected times. Needs no GPU.
ARCH ?= 86
CUDA_COMPILER ?= nvrtc
cuda-kernels: $(BUILD)/split/cuda_kernels
	@BUILD='$(BUILD)' JOBS='$(JOBS)' sh tools/cuda_kernels.sh $< $(ARCH) $(CUDA_COMPILER) $(if $(ONLY),only=$(ONLY))

cuda-times: $(BUILD)/split/cuda_kernels
	@$< times >docs/cuda-times.md

# Checks that need a GPU. The tests of kernels, ops and memory run on it. gpu-check-build writes all that the checks need
# into a folder, to be carried to a machine that can build nothing: tools/gpu_check.sh runs there.
GPU_TESTS := $(addprefix $(BUILD)/split/tests/,kernels/test_kernels kernels/test_matmul kernels/test_attention kernels/test_factored kernels/test_update tensor/test_ops tensor/test_execute tensor/test_offload train/test_device_memory)
GPU_ARCH := $(if $(filter file,$(origin ARCH)),80 90,$(ARCH))
gpu-check-build: $(COMMAND_PROGRAM) $(GPU_TESTS) $(BUILD)/split/cuda_kernels $(EMULATED_CUDA)
	@BUILD='$(BUILD)' EMULATED_GPU='$(EMULATED_GPU)' ARCH='$(GPU_ARCH)' PROGRAMS='$(COMMAND_PROGRAM) $(GPU_TESTS)' sh tools/gpu_check_build.sh

gpu-check: gpu-check-build
	@BUILD='$(BUILD)' EMULATED_GPU='$(EMULATED_GPU)' sh tools/gpu_check.sh

check: $(BUILD)/amalgamate $(BUILD)/figure
	@BUILD='$(BUILD)' CC='$(CC)' sh tools/check.sh

check-all: check $(BUILD)/split/everything_split.h
	@BUILD='$(BUILD)' sh tools/check.sh analysis
	@BUILD='$(BUILD)' JOBS='$(JOBS)' sh tools/compile_matrix.sh all

# Screenshots and checks of eitp report in a browser.
screenshots: all
	@BUILD='$(BUILD)' sh tools/screenshots.sh

report-check: all
	@BUILD='$(BUILD)' SCREENSHOTS='$(SCREENSHOTS)' sh tools/check_report.sh

# Prints the tests skipped on this machine, one per line.
print-skipped:
	@$(if $(filter 0,$(OPENMP)),echo 'SKIPPED OpenMP: switched off or not in $(CC)',:)
	@$(if $(filter 0,$(SANITIZE)),echo 'SKIPPED sanitizers: $(CC) cannot link them',:)
	@$(if $(filter 0,$(FUZZER)),echo 'SKIPPED libFuzzer: clang lacks it; make nightly fuzzes without it as make test does',:)

# Scripts installed with the command.
WRAPPERS := monitor_training.sh safe_train.sh

install: all
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)mkdir -p '$(DESTDIR)$(PREFIX)/include' '$(DESTDIR)$(PREFIX)/lib/pkgconfig'
	$(Q)cp eitp.h '$(DESTDIR)$(PREFIX)/include/eitp.h'
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' 'Name: eitp' \
		'Description: trains Transformers inside the memory a machine really has' 'Version: $(VERSION)' \
		'Cflags: $(strip -I$${includedir} $(FEATURES))' 'Libs: $(strip $(LIBRARIES))' >'$(DESTDIR)$(PREFIX)/lib/pkgconfig/eitp.pc'
ifneq ($(COMMAND_PROGRAM),)
	$(Q)mkdir -p '$(DESTDIR)$(PREFIX)/bin'
	$(Q)cp $(BUILD)/eitp $(WRAPPERS:%=tools/%) '$(DESTDIR)$(PREFIX)/bin'
endif

# Removes the files that `make install` wrote. Directories stay, because other programs may share them.
uninstall:
	$(call say,REMOVE,$(DESTDIR)$(PREFIX))
	$(Q)rm -f '$(DESTDIR)$(PREFIX)/include/eitp.h' '$(DESTDIR)$(PREFIX)/lib/pkgconfig/eitp.pc' '$(DESTDIR)$(PREFIX)/bin/eitp' \
		$(WRAPPERS:%='$(DESTDIR)$(PREFIX)/bin/%')

clean:
	$(call say,REMOVE,$(BUILD))
	$(Q)rm -rf $(BUILD)
