# eitp: `make help` lists the targets.

CC ?= cc
CLANG ?= clang
CFLAGS ?= -O2
LDFLAGS ?=
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
# The tests build with WERROR=-Werror. Other people's compilers may know warnings that ours do not.
WERROR ?=

# On all processors, unless the command line has -j. A make that another one calls gets its jobs from that.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS)
endif
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

STANDARD := -std=c11
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wundef
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1

# A recipe prints one short line for each file: $(call say,CC,file). V=1 prints whole commands, `make -s` nothing.
Q := $(if $(filter 1,$(V)),,@)
quiet := $(if $(Q),$(findstring s,$(firstword -$(MAKEFLAGS))),s)
say = @$(if $(quiet),:,printf '%-7s %s\n' '$(1)' '$(2)')

# 1 if a program with the text $(1) compiles and links with the options $(2) and the compiler $(3) or CC, otherwise 0.
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

# No function of the library or the command has a larger frame: they run on a stack of 64 KiB. Kernels keep tiles there.
# Modules apart are compiled with a warning; of those in eitp.h tools/frames.awk reads the list that the compiler writes.
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

# The manifest is the one list of modules, and of the files that travel in eitp.h as text. A file may be both.
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
# Tests of the emulated CUDA libraries are programs without eitp.
TESTS := $(basename $(sort $(filter-out tests/cuda/%,$(wildcard tests/*/test_*.c))))
CUDA_TESTS := $(basename $(sort $(wildcard tests/cuda/test_*.c)))
EMULATED := $(filter %_emulated,$(TESTS))
FUZZERS := $(basename $(sort $(wildcard tests/fuzz/fuzz_*.c)))
# Programs that tests and targets use.
HELPERS := tests/run/verify_checkpoints tests/run/soak tests/template/render_template

VERSION = $(shell sed -n 's/^.define EITP_VERSION_STRING "\(.*\)"/\1/p' src/base/version.h)

EXAMPLE_PROGRAMS := $(EXAMPLES:%.c=$(BUILD)/%)
COMMAND_PROGRAM := $(if $(wildcard tools/command/eitp.c),$(BUILD)/eitp)
# The library of the modules compiled apart, which the command and the examples link. They are compiled with eitp.h's
# declarations.
LIBRARY := $(BUILD)/split/libeitp.a
COMMAND_OBJECTS := $(COMMAND:%.c=$(BUILD)/%.o)

SPLIT := $(STANDARD) $(WARNINGS) $(WERROR) -DEITP_SPLIT -I$(BUILD)/split -Isrc -I. $(FEATURES)
SANITIZED := $(SPLIT) -O1 $(SANITIZERS)
# Fuzz targets with libFuzzer, which `make nightly` runs. clang may lack the OpenMP that $(CC) has, and a target needs
# neither. Targets read files: they need one kernel set.
INSTRUMENTED := $(SANITIZERS) -fsanitize=fuzzer-no-link
FUZZ_LINK := -fsanitize=fuzzer -lm
# The command without its main, for the target that calls it.
CALLED_COMMAND := $(filter-out %/eitp.o,$(COMMAND_OBJECTS))
FUZZ_COMMAND := $(CALLED_COMMAND:$(BUILD)/%=$(BUILD)/fuzz/%)
FUZZ := $(STANDARD) -DEITP_SPLIT -DEITP_WITHOUT_AVX2=1 -DEITP_WITHOUT_AVX512=1 -I$(BUILD)/split -Isrc -I. -O1

.DELETE_ON_ERROR:
.PRECIOUS: $(BUILD)/split/%.o $(BUILD)/sanitized/%.o $(BUILD)/fuzz/%.o
.PHONY: all switches test figures quick nightly torture soak doctor-cases parity test-bochs quickstart ablation objective-prices cuda-kernels cuda-times gpu-check check check-all report-check screenshots examples install uninstall clean help print-skipped FORCE

all: eitp.h $(COMMAND_PROGRAM)

help:
	@echo 'make             eitp.h and the command build/eitp'
	@echo 'make eitp.h      the header, from the modules in src/manifest'
	@echo 'make quick       builds and runs the tests that the last changes affect; TEST=word: those with the word in their name'
	@echo 'make test        builds and runs every test; TEST=word: those with the word in their name; INSTALL=0: installs no packages first; FRESH=1: those too that passed and did not change since'
	@echo 'make nightly     tests that take hours: every compiler, port, instruction set and precision, full shapes, fuzzing; PART=k/n: one of n shares'
	@echo 'make torture     every fault, power loss and kill (an hour or two); STRIDE=1 KILLS=1000 SEEDS=8'
	@echo 'make soak        trains for MINUTES=30: do memory and step time stay as they are? Needs a machine without other work'
	@echo 'make doctor-cases  runs that are slow or ended by the kernel, and what eitp doctor says of them (five minutes)'
	@echo 'make parity      compares with PyTorch, transformers, tokenizers and PEFT (installs them in build/parity; gigabytes)'
	@echo 'make test-bochs  tests on an emulated processor with AVX-512 and AMX (Debian; hours)'
	@echo 'make quickstart  builds, then trains something small'
	@echo 'make ablation    what regularizers do to a model: trains some hundred small ones (hours; can be stopped)'
	@echo 'make objective-prices  what regularizers take of the time of a step (half an hour, on a machine without other work)'
	@echo 'make cuda-kernels  compiles the CUDA kernels with NVRTC, without a GPU: registers, occupancy, ... (minutes); ARCH=86 ONLY=products CUDA_COMPILER=nvcc'
	@echo 'make cuda-times  docs/cuda-times.md: the times that the CUDA kernels of a training step should take'
	@echo 'make gpu-check   checks eitp on the GPU of this machine, in less than ten minutes; the report is in $$(BUILD)/gpu_check/report.txt'
	@echo 'make switches    the table of docs/embedding.md: what each switch of eitp.h saves (ten minutes)'
	@echo 'make figures     tables and pictures of README.md and docs/ from docs/measurements/ (python3)'
	@echo 'make check       is eitp.h up to date, and the rules of CONTRIBUTING.md (quick)'
	@echo 'make check-all   the same with static analysis and every combination of compiler and options (slow)'
	@echo 'make report-check  looks at pages of eitp report in Chromium, if it is installed (a minute); SCREENSHOTS=DIR'
	@echo 'make screenshots  the pictures of monitor and report in README.md (tmux, Chromium, python3)'
	@echo 'make examples    build/examples/*'
	@echo 'make install     header, command, its two scripts and pkg-config file to DESTDIR and PREFIX ($(PREFIX))'
	@echo 'make uninstall   removes the files that make install wrote (same DESTDIR and PREFIX)'
	@echo 'make clean       removes build/'
	@echo 'V=1 prints whole commands; OPENMP=0|1 overrides what was detected; CC and CFLAGS as usual'

# Files that were compiled with other flags are recompiled.
FLAGS := $(CC) $(CFLAGS) $(LDFLAGS) $(FEATURES)
FUZZ_FLAGS := $(CLANG) $(FUZZ) $(FUZZ_LINK)
remember = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@
$(BUILD)/flags: FORCE
	$(call remember,$(FLAGS))
$(BUILD)/fuzz/flags: FORCE
	$(call remember,$(FUZZ_FLAGS))
# The libraries that tools/code_blocks.sh links.
$(BUILD)/libraries: FORCE
	$(call remember,$(LIBRARIES))

$(BUILD)/amalgamate: $(AMALGAMATE) tools/amalgamate/amalgamate.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) $(AMALGAMATE) -o $@

# Draws the pictures of the documents, with the chart maker of the command.
FIGURE := tools/figures/figure.c $(wildcard tools/command/report/chart*.c) tools/command/report/markup.c tools/command/text.c
$(BUILD)/figure: $(FIGURE) $(wildcard tools/command/report/chart*.h) $(BUILD)/declarations/eitp.h
	$(call say,LINK,$@)
	$(Q)$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) -Werror -I$(BUILD)/declarations -I. -Itools/command $(FIGURE) -lm -o $@

figures: $(BUILD)/figure
	$(Q)BUILD=$(BUILD) python3 tools/measurements.py

eitp.h: $(BUILD)/amalgamate src/manifest $(sort $(MODULES) $(HEADERS) $(TEMPLATES) $(TEXTS))
	$(call say,PACK,$@)
	$(Q)$(BUILD)/amalgamate

# The amalgamator reports a missing file, with the line of the manifest.
$(sort $(MODULES) $(HEADERS) $(TEXTS)): ;

# eitp.h without the implementation; its time changes only with a declaration.
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

# Readers compile an example with `cc file.c -lm`; here all examples share one library.
$(BUILD)/examples/%: examples/%.c $(LIBRARY) $(BUILD)/declarations/eitp.h $(wildcard examples/*.h)
	@mkdir -p $(@D)
	@grep -q '^#define EITP_IMPLEMENTATION$$' $< || { echo '$<: EITP_IMPLEMENTATION is not defined' >&2; exit 1; }
	$(call say,LINK,$@)
	$(Q)$(CC) $(STANDARD) $(CFLAGS) $(WARNINGS) $(FEATURES) -I$(BUILD)/declarations $(LDFLAGS) $< $(LIBRARY) -o $@ $(LIBRARIES)

# ---- tests: each program with eitp.h (packed), and with the modules compiled apart: as they are, and sanitized ----
# `make test` builds the first and the last. `make quick` builds the second: such a program links an archive, contains
# only the modules that it needs, and is skipped if a change leaves it the same.

# The template that the amalgamator makes of the texts; its time changes only with its content. Whatever waits for
# everything_split.h waits for it too.
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

# What a test does besides calling the library takes little time.
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
# Kernels and backends read no files: they are not instrumented.
$(patsubst %.c,$(BUILD)/fuzz/%.o,$(filter-out src/%,$(MODULES))): INSTRUMENTED :=

archive = $(Q)rm -f $@; $(AR) rcs $@ $^
$(LIBRARY): $(MODULES:%.c=$(BUILD)/split/%.o)
	$(call say,AR,$@)
	$(archive)
# With the test device, for programs that are run on it.
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

# The emulated CUDA libraries, which programs open at run time, and their own tests.
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
# Kernels that were compiled with another emulated.h do not run beside those of this one.
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

# The command's objects are compiled with eitp.h's declarations, and so is the target that calls them.
$(BUILD)/sanitized/tests/fuzz/fuzz_readers.o: SANITIZED := $(STANDARD) $(WARNINGS) -O1 $(SANITIZERS) -I$(BUILD)/declarations -Itools/command
$(BUILD)/sanitized/tests/fuzz/fuzz_readers.o: $(BUILD)/declarations/eitp.h
$(BUILD)/sanitized/tests/fuzz/fuzz_readers: $(CALLED_COMMAND:$(BUILD)/%=$(BUILD)/sanitized/%)
$(FUZZERS:%=$(BUILD)/sanitized/%): $(BUILD)/sanitized/%: $(BUILD)/sanitized/%.o $(BUILD)/sanitized/tests/fuzz/main.o $(BUILD)/sanitized/libeitp.a
	$(call say,LINK,$@)
	$(link_sanitized) $(DLOPEN_LIBRARY)

$(BUILD)/sanitized/eitp: $(COMMAND_OBJECTS:$(BUILD)/%=$(BUILD)/sanitized/%) $(BUILD)/sanitized/libeitp.a
	$(call say,LINK,$@)
	$(link_sanitized) $(DLOPEN_LIBRARY)

# eitp.h as users compile it, for the tests of what they are told. What the compiler says is kept, for
# tests/tools/test_make.sh.
$(BUILD)/packed/users.o: tests/support/users.c eitp.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -Wall -Wextra $(FEATURES) -I. -c $< -o $@ 2>$@.messages; \
		status=$$?; cat $@.messages >&2; exit $$status

# eitp.h in its parts, side by side.
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

# tools/test.sh installs dependencies first; the make that it starts detects them anew.
test quick nightly torture:
	+@MAKE='$(MAKE)' STRIDE='$(STRIDE)' KILLS='$(KILLS)' SEEDS='$(SEEDS)' BUILD='$(BUILD)' CC='$(CC)' CLANG='$(CLANG)' JOBS='$(JOBS)' TEST='$(TEST)' PART='$(PART)' sh tools/test.sh $@

# SOAK: further arguments, such as leak=4096 or slower=1, with which it must fail.
MINUTES ?= 30
soak: $(BUILD)/packed/tests/run/soak
	@rm -rf '$(BUILD)/soak' && mkdir -p '$(BUILD)/soak'
	@$< '$(BUILD)/soak' minutes=$(MINUTES) $(SOAK)

# Ends and slownesses of runs that take minutes to make, and what eitp doctor says of them.
doctor-cases: all
	@BUILD='$(BUILD)' CC='$(CC)' sh tests/command/doctor_cases.sh

parity: all
	@BUILD='$(BUILD)' sh tools/peers/parity.sh

test-bochs:
	+@MAKE='$(MAKE)' BUILD='$(BUILD)' CC='$(CC)' TEST='$(TEST)' sh tools/bochs.sh

quickstart:
	@$(MAKE) --no-print-directory all
	@BUILD='$(BUILD)' CC='$(CC)' sh tools/quickstart.sh

# What regularizers do to models, and what they take of a step: docs/objective.md.
ablation: all
	@BUILD='$(BUILD)' WORKERS='$(WORKERS)' sh tools/research/ablation.sh $(RUNS)

objective-prices: all
	@BUILD='$(BUILD)' sh tools/research/objective_prices.sh

# What EITP_WITHOUT_... save: the table of docs/embedding.md.
switches: eitp.h
	@BUILD='$(BUILD)' CC='$(CC)' sh tools/switches.sh

# The kernels of the CUDA backend, compiled with NVIDIA's compilers, and the times that they should take. No GPU is needed.
ARCH ?= 86
CUDA_COMPILER ?= nvrtc
cuda-kernels: $(BUILD)/split/cuda_kernels
	@BUILD='$(BUILD)' JOBS='$(JOBS)' sh tools/cuda_kernels.sh $< $(ARCH) $(CUDA_COMPILER) $(if $(ONLY),only=$(ONLY))

cuda-times: $(BUILD)/split/cuda_kernels
	@$< times >docs/cuda-times.md

# What only a GPU can show; the tests of kernels, ops and memory run on it.
GPU_TESTS := $(addprefix $(BUILD)/split/tests/,kernels/test_kernels kernels/test_matmul kernels/test_attention kernels/test_factored kernels/test_update tensor/test_ops tensor/test_execute tensor/test_offload train/test_device_memory)
gpu-check: $(COMMAND_PROGRAM) $(GPU_TESTS) $(if $(EMULATED_GPU),$(EMULATED_CUDA))
	@BUILD='$(BUILD)' EMULATED_GPU='$(EMULATED_GPU)' sh tools/gpu_check.sh

check: $(BUILD)/amalgamate $(BUILD)/figure
	@BUILD='$(BUILD)' CC='$(CC)' sh tools/check.sh

check-all: check $(BUILD)/split/everything_split.h
	@BUILD='$(BUILD)' sh tools/check.sh analysis
	@BUILD='$(BUILD)' JOBS='$(JOBS)' sh tools/compile_matrix.sh all

# Pages of eitp report in a browser.
screenshots: all
	@BUILD='$(BUILD)' sh tools/screenshots.sh

report-check: all
	@BUILD='$(BUILD)' SCREENSHOTS='$(SCREENSHOTS)' sh tools/check_report.sh

# What tests skip on this machine, a line each.
print-skipped:
	@$(if $(filter 0,$(OPENMP)),echo 'SKIPPED OpenMP: switched off or not in $(CC)',:)
	@$(if $(filter 0,$(SANITIZE)),echo 'SKIPPED sanitizers: $(CC) cannot link them',:)
	@$(if $(filter 0,$(FUZZER)),echo 'SKIPPED libFuzzer: clang lacks it; make nightly fuzzes as make test does',:)

# Scripts that are installed beside the command.
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

# The files that `make install` writes; directories may be shared with other programs and stay.
uninstall:
	$(call say,REMOVE,$(DESTDIR)$(PREFIX))
	$(Q)rm -f '$(DESTDIR)$(PREFIX)/include/eitp.h' '$(DESTDIR)$(PREFIX)/lib/pkgconfig/eitp.pc' '$(DESTDIR)$(PREFIX)/bin/eitp' \
		$(WRAPPERS:%='$(DESTDIR)$(PREFIX)/bin/%')

clean:
	$(call say,REMOVE,$(BUILD))
	$(Q)rm -rf $(BUILD)
