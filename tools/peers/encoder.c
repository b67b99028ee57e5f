/*
 * Writes a model's results for sequences of token ids, for tools/peers/encoder_parity.py.
 *
 *     encoder MODEL IDS OUT [--adapter DIR] [--save DIR] [--save-adapter DIR] [--merge]
 *
 * Each line of IDS is a sequence: its ids, followed by "|" and their segments. OUT gets f32 values: hidden states
 * [rows, width], their mean for each sequence, and logits or scores if the model has a head. Prints one line of JSON.
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 1 << 16, MAX_SEQUENCES = 1 << 12 };

typedef struct batch {
    int32_t tokens[MAX_ROWS], segments[MAX_ROWS], positions[MAX_ROWS], offsets[MAX_SEQUENCES + 1];
    int64_t rows, sequences, longest;
} batch;

static batch input;
static eitp_error error;

static int fail(const char *what) {
    fprintf(stderr, "encoder: %s: %s\n", what, error.message);
    return 1;
}

/* Reads numbers into `values` up to the end of the string, and returns their number. */
static int64_t read_numbers(const char *text, int32_t *values, int64_t room) {
    int64_t count = 0;
    char *end;
    for (;; text = end) {
        const long value = strtol(text, &end, 10);
        if (end == text || count == room)
            return count;
        values[count++] = (int32_t)value;
    }
}

static int read_batch(const char *path) {
    static char line[1 << 20];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file) && input.sequences < MAX_SEQUENCES) {
        char *bar = strchr(line, '|');
        const int64_t room = MAX_ROWS - input.rows;
        int64_t count;
        if (bar)
            *bar = 0;
        count = read_numbers(line, input.tokens + input.rows, room);
        if (bar)
            read_numbers(bar + 1, input.segments + input.rows, count);
        input.rows += count;
        input.longest = count > input.longest ? count : input.longest;
        input.offsets[++input.sequences] = (int32_t)input.rows;
    }
    if (file)
        fclose(file);
    return input.rows > 0;
}

static int write_output(eitp_plan *plan, eitp_tensor *output, int64_t count, FILE *file) {
    float *values = (float *)malloc((size_t)count * sizeof *values);
    int failed = eitp_plan_read(plan, output, values, (size_t)count * sizeof *values, &error) != EITP_OK;
    if (!failed)
        failed = fwrite(values, sizeof *values, (size_t)count, file) != (size_t)count;
    free(values);
    return failed;
}

static int compute(const eitp_model *model, FILE *file) {
    const eitp_transformer_config config = eitp_model_config(model);
    const size_t bytes = (size_t)input.rows * sizeof(int32_t);
    const int32_t *first = input.offsets;
    const int64_t outputs = config.head == EITP_HEAD_LANGUAGE ? config.vocabulary : config.labels;
    const int64_t results = config.head == EITP_HEAD_LANGUAGE ? input.rows : input.sequences;
    eitp_model_inputs inputs;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *hidden, *mean, *head = NULL;
    int failed;
    if (eitp_graph_create(eitp_model_context(model), &graph, &error))
        return fail("graph");
    inputs = eitp_model_inputs_create(graph, 1, input.rows, 0);
    inputs.offsets = eitp_input(graph, "bounds", EITP_I32, 1, (int64_t[]){input.sequences + 1});
    if (config.segments > 1)
        inputs.segments = eitp_input_rows(graph, "segments", EITP_I32, 1, &input.rows);
    for (int64_t i = 0; i < input.sequences; i++)
        eitp_model_fill_positions(model, input.tokens + first[i], first[i + 1] - first[i], input.positions + first[i]);
    hidden = eitp_output(eitp_model_hidden(model, graph, &inputs, input.longest));
    mean = eitp_output(eitp_pool(hidden, inputs.offsets, input.longest, EITP_POOLING_MEAN));
    if (config.head == EITP_HEAD_LANGUAGE)
        head = eitp_output(eitp_model_logits(model, hidden));
    else if (config.head == EITP_HEAD_CLASSIFIER)
        head = eitp_output(eitp_model_scores(model, hidden, &inputs));
    if (eitp_plan_create(graph, &plan, &error) || eitp_plan_write(plan, inputs.tokens, input.tokens, bytes, &error) ||
        eitp_plan_write(plan, inputs.positions, input.positions, bytes, &error) ||
        eitp_plan_write(plan, inputs.offsets, input.offsets, (size_t)(input.sequences + 1) * 4, &error) ||
        (inputs.segments && eitp_plan_write(plan, inputs.segments, input.segments, bytes, &error)) ||
        eitp_plan_execute(plan, &error))
        return fail("computing");
    failed = write_output(plan, hidden, input.rows * config.width, file) ||
             write_output(plan, mean, input.sequences * config.width, file) ||
             (head && write_output(plan, head, results * outputs, file));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    printf("{\"rows\": %lld, \"sequences\": %lld, \"width\": %lld, \"results\": %lld, \"outputs\": %lld}\n",
           (long long)input.rows, (long long)input.sequences, (long long)config.width, head ? (long long)results : 0LL,
           (long long)outputs);
    return failed ? fail("writing") : 0;
}

/* Returns the value of an option, or NULL if it is missing. */
static const char *option(int argc, char **argv, const char *name) {
    for (int i = 4; i + 1 < argc; i++) {
        if (!strcmp(argv[i], name))
            return argv[i + 1];
    }
    return NULL;
}

int main(int argc, char **argv) {
    eitp_context_config settings = eitp_context_config_default();
    const char *adapter = option(argc, argv, "--adapter"), *save = option(argc, argv, "--save");
    const char *save_adapter = option(argc, argv, "--save-adapter");
    eitp_context *context;
    eitp_model *model;
    FILE *file;
    int failed;
    if (argc < 4 || !read_batch(argv[2])) {
        fprintf(stderr, "usage: encoder MODEL IDS OUT [--adapter DIR] [--save DIR] [--save-adapter DIR] [--merge]\n");
        return 1;
    }
    if (eitp_context_create(&settings, &context, &error) || eitp_model_load(context, argv[1], &model, &error))
        return fail(argv[1]);
    if (adapter && eitp_lora_load(model, adapter, &error))
        return fail(adapter);
    if (save_adapter && eitp_lora_save(model, save_adapter, argv[1], &error))
        return fail(save_adapter);
    if (!strcmp(argv[argc - 1], "--merge") && eitp_model_merge_lora(model, &error))
        return fail("merging");
    if (save && eitp_model_save(model, save, &error))
        return fail(save);
    file = fopen(argv[3], "wb");
    failed = !file || compute(model, file);
    if (file)
        fclose(file);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return failed;
}
