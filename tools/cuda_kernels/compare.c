/* The times of launches that a run has measured (EITP_CUDA_PROFILE=1), and the expected ones. */
#include "cuda_kernels.h"

/* ---- The profile of a run ---- */

/* The rows of a name, all dtypes together. */
typedef struct measured_group {
    char name[EITP__CUDA_WORK_NAME];
    unsigned long long launches;
    double milliseconds;
} measured_group;

typedef struct measured_list {
    measured_group groups[MOST_GROUPS];
    int count;
} measured_list;

static void add_measured(measured_list *list, const measured_group *row) {
    int i = 0;
    while (i < list->count && strcmp(list->groups[i].name, row->name))
        i++;
    if (i == MOST_GROUPS)
        stop("more than %d groups", MOST_GROUPS);
    if (i == list->count) {
        list->groups[list->count++] = *row;
        return;
    }
    list->groups[i].launches += row->launches;
    list->groups[i].milliseconds += row->milliseconds;
}

/* Reads a row such as "| `add` | f64 | 60 | 4 | 2.01 | ...". Returns 0 for other lines, and for the sum, which has no
   dtype. */
static int read_row(const char *line, measured_group *row) {
    const char *begin = strstr(line, "| "), *end = begin ? strstr(begin + 2, " | ") : NULL;
    if (!end || end - begin - 2 >= (ptrdiff_t)sizeof row->name)
        return 0;
    snprintf(row->name, sizeof row->name, "%.*s", (int)(end - begin - 2), begin + 2);
    return sscanf(end, " | %*[a-z0-9] | %*u | %llu | %lf |", &row->launches, &row->milliseconds) == 2;
}

static int takes_longer(const void *a, const void *b) {
    const double x = ((const measured_group *)a)->milliseconds, y = ((const measured_group *)b)->milliseconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Reads the rows of a log, and sorts them by time. */
static void read_profile(const char *path, measured_list *list) {
    FILE *file = fopen(path, "r");
    char line[2000];
    measured_group row;
    if (!file)
        stop("cannot read %s", path);
    while (fgets(line, sizeof line, file))
        if (read_row(line, &row))
            add_measured(list, &row);
    fclose(file);
    if (!list->count)
        stop("%s has no times of kernels: run with EITP_CUDA_PROFILE=1", path);
    qsort(list->groups, (size_t)list->count, sizeof *list->groups, takes_longer);
}

/* ---- The comparison ---- */

static const call_group *expected_of(const group_list *list, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (!strcmp(list->groups[i].name, name))
            return &list->groups[i];
    return NULL;
}

/* Returns the number of steps of a run: the launches of the longest group that is expected, divided by the number in a
   step. */
static unsigned long long steps_of(const measured_list *measured, const group_list *expected, int samples) {
    for (int i = 0; i < measured->count; i++) {
        const measured_group *group = &measured->groups[i];
        const call_group *of_step = expected_of(expected, group->name);
        if (!of_step)
            continue;
        if (!group->launches || group->launches % (unsigned)of_step->launches)
            stop("%s: %llu launches, which is not a multiple of the %d in a step of %d samples", group->name,
                 group->launches, of_step->launches, samples);
        return group->launches / (unsigned)of_step->launches;
    }
    stop("the log has no kernel of a step of GPT-2 124M in bf16");
}

/* Prints launches and times of a step. A run without the row has no `measured`, the step without it no `expected`. */
static void print_times_of(const char *name, const measured_group *measured, const call_group *expected, double steps,
                           int device, int is_sum) {
    printf("| %s |", name);
    if (measured)
        printf(" %g | %.2f |", (double)measured->launches / steps, measured->milliseconds / steps);
    else
        printf(" | |");
    if (expected)
        printf(" %d | %.2f%s%s |", expected->launches, 1e3 * expected->seconds[device], is_sum ? "" : " ",
               is_sum ? "" : bound_of(expected, device));
    else
        printf(" | |");
    if (measured && expected)
        printf(" %.2f |\n", measured->milliseconds / steps / (1e3 * expected->seconds[device]));
    else
        printf(" |\n");
}

static int is_measured(const measured_list *measured, const char *name) {
    for (int i = 0; i < measured->count; i++)
        if (!strcmp(measured->groups[i].name, name))
            return 1;
    return 0;
}

static void print_groups(const measured_list *measured, const group_list *expected, double steps, int device) {
    measured_group sum = EITP__ZERO;
    call_group expected_sum = EITP__ZERO;
    for (int i = 0; i < measured->count; i++) {
        const measured_group *group = &measured->groups[i];
        print_times_of(group->name, group, expected_of(expected, group->name), steps, device, 0);
        sum.launches += group->launches;
        sum.milliseconds += group->milliseconds;
    }
    for (int i = 0; i < expected->count; i++) {
        add_group(&expected_sum, &expected->groups[i]);
        if (!is_measured(measured, expected->groups[i].name))
            print_times_of(expected->groups[i].name, NULL, &expected->groups[i], steps, device, 0);
    }
    print_times_of("all", &sum, &expected_sum, steps, device, 1);
}

/* Returns the device whose name starts with this. */
static int find_device(const char *name) {
    for (int d = 0; d < DEVICES && *name; d++)
        if (!strncmp(device_name(d), name, strlen(name)))
            return d;
    stop("unknown device '%s' (choose from %s, %s, %s, %s)", name, device_name(0), device_name(1), device_name(2),
         device_name(3));
}

void print_comparison(const char *path, const char *device, int samples) {
    static measured_list measured;
    static group_list expected;
    const int d = find_device(device);
    unsigned long long steps;
    if (samples < 1 || samples > PLANNED_ROWS / STEP_TOKENS)
        stop("samples must be from 1 to %d", PLANNED_ROWS / STEP_TOKENS);
    read_profile(path, &measured);
    list_step(&expected, samples);
    steps = steps_of(&measured, &expected, samples);
    printf("GPT-2 124M in bf16, %d x %d tokens: a step, the mean of %llu, and the expected one on %s\n\n", samples,
           STEP_TOKENS, steps, device_name(d));
    printf("| kernels | launches | ms | expected launches | expected ms | ratio |\n|---|--:|--:|--:|--:|--:|\n");
    print_groups(&measured, &expected, (double)steps, d);
}
