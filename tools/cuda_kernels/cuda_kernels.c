/*
 * cuda_kernels available ARCH                    prints which NVRTC compiles for it, or why none does
 * cuda_kernels list ARCH [OPTION...]             the modules: name, file, definitions
 * cuda_kernels compile ARCH FOLDER [OPTION...]   compiles the modules with NVRTC to FOLDER/<name>.cubin
 * cuda_kernels report ARCH FOLDER [OPTION...]    the registers and memory of each kernel there, and its faults
 * cuda_kernels start ARCH FOLDER                 the time to get the kernels of a training step, with a cache in FOLDER
 * cuda_kernels paths ARCH                        the paths of calls in training steps and generation of real models
 * cuda_kernels prepare ARCH FOLDER [all] [list=FILE] [precision=bf16] [MODEL...]
 *                                                compiles kernels to a folder for EITP_CUDA_KERNELS: of models, each a
 *                                                config.json; of a list; all: of all modules, and of GPT-2 124M
 * cuda_kernels times                             the expected times of a training step of GPT-2 124M
 * cuda_kernels compare FILE DEVICE SAMPLES       the same on a device such as "H100 SXM", and those in the log of a run
 *
 * ARCH is a compute capability, such as 86. Options: `only=WORD` selects modules with the word in their names; `quiet`
 * prints only faults; `part=0/2` is the first half of the work, for two processes in parallel.
 */
#include "cuda_kernels.h"

#include <stdarg.h>

void stop(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("cuda_kernels: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

typedef struct options {
    const char *only;
    int is_quiet, part, parts;
} options;

static options read_options(int count, char **texts) {
    options o = {"", 0, 0, 1};
    for (int i = 0; i < count; i++)
        if (!strncmp(texts[i], "only=", 5))
            o.only = texts[i] + 5;
        else if (!strcmp(texts[i], "quiet"))
            o.is_quiet = 1;
        else if (sscanf(texts[i], "part=%d/%d", &o.part, &o.parts) != 2 || o.part < 0 || o.part >= o.parts)
            stop("unknown option '%s' (choose from only=WORD, quiet, part=0/2)", texts[i]);
    return o;
}

static void print_modules(const module_list *list, const char *only) {
    for (int i = 0; i < list->count; i++)
        if (is_chosen(&list->modules[i], only))
            printf("%s %s %s\n", list->modules[i].name, list->modules[i].file, list->modules[i].definitions);
}

/* Returns the number of faults. */
static int work(const char *what, int capability, int count, char **texts) {
    module_list *list = modules_create(processor_of(capability));
    const int has_folder = strcmp(what, "list") != 0;
    const char *folder = has_folder && count ? texts[0] : NULL;
    const options o = read_options(count - has_folder, texts + has_folder);
    int faults = 0;
    if (has_folder && !folder)
        stop("%s needs a folder", what);
    if (!has_folder)
        print_modules(list, o.only);
    else if (!strcmp(what, "compile"))
        faults = compile_modules(list, folder, o.only, o.part, o.parts);
    else if (!strcmp(what, "report"))
        faults = report_modules(list, folder, o.only, o.is_quiet);
    else
        stop("unknown command '%s' (choose from available, list, compile, report, start, paths, prepare, times, "
             "compare)",
             what);
    free(list);
    return faults;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "times")) {
        print_times();
        return 0;
    }
    if (argc == 5 && !strcmp(argv[1], "compare")) {
        print_comparison(argv[2], argv[3], atoi(argv[4]));
        return 0;
    }
    if (argc < 3)
        stop("usage: cuda_kernels available ARCH | list ARCH | compile ARCH FOLDER | report ARCH FOLDER | "
             "start ARCH FOLDER | paths ARCH | prepare ARCH FOLDER [all] [MODEL...] | times | "
             "compare FILE DEVICE SAMPLES");
    if (!strcmp(argv[1], "available")) {
        print_compiler(processor_of(atoi(argv[2])));
        return 0;
    }
    if (argc == 3 && !strcmp(argv[1], "paths")) {
        print_paths(processor_of(atoi(argv[2])));
        return 0;
    }
    if (argc == 4 && !strcmp(argv[1], "start")) {
        print_start(processor_of(atoi(argv[2])), argv[3]);
        return 0;
    }
    if (argc >= 5 && !strcmp(argv[1], "prepare")) {
        prepare_kernels(processor_of(atoi(argv[2])), argv[3], argc - 4, argv + 4);
        return 0;
    }
    return work(argv[1], atoi(argv[2]), argc - 3, argv + 3) > 0;
}
