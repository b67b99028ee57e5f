/* The number of micro-batches per pass depends on memory, and must not change any bit. */
#include "tests/support/everything.h"
#include "tests/support/test.h"
#include "tests/support/trainer_run.h"

enum { PASS_STEPS = 3 };

/* Checks steps of five micro-batches. The last pass has fewer than the others, unless a pass takes all or one. */
static void check_passes(const variant *like, const char *directory) {
    static const struct {
        int64_t micro_batches_per_pass;
        int threads, keep_gradients;
    } ways[] = {{1, 1, 0}, {1, 2, 0}, {2, 1, 0}, {2, 2, 0}, {4, 2, 0}, {5, 1, 0}, {5, 2, 0}, {5, 2, 1}};
    uint32_t reference = 0;
    for (size_t w = 0; w < EITP__COUNT(ways); w++) {
        variant v = *like;
        uint32_t crc;
        v.micro_batches_per_pass = ways[w].micro_batches_per_pass;
        v.threads = ways[w].threads;
        v.keep_gradients = ways[w].keep_gradients;
        crc = train_variant(&v, directory, PASS_STEPS);
        reference = w ? reference : crc;
        CHECK_THAT(crc && crc == reference, "%s %s %s, %d x %d, adapters of rank %d: %08x with %d per pass, not %08x",
                   v.isa, v.precision, eitp_optimizer_get(v.optimizer)->name, (int)v.batch_size, (int)v.block_size,
                   (int)v.lora_rank, crc, (int)v.micro_batches_per_pass, reference);
    }
}

/*
 * The rows of a micro-batch are or are not a multiple of the rows that a kernel sums at once. One size is 3 x 32, so
 * that a step can contain every token of the vocabulary.
 */
static void micro_batches_per_pass_change_no_bit(void) {
    static const struct { int64_t batch_size, block_size; } shapes[] = {{1, 33}, {1, 32}, {3, 11}, {3, 32}};
    const size_t shape_count = test_is_quick() ? 1 : EITP__COUNT(shapes);
    char directory[512];
    variant v = default_variant();
    size_t set = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.grad_accum = 5;
    while (next_set(&set, &v)) {
        if (!strcmp(v.products, "openblas"))
            continue;
        for (size_t s = 0; s < shape_count; s++) {
            v.batch_size = shapes[s].batch_size;
            v.block_size = shapes[s].block_size;
            v.lora_rank = 0;
            check_passes(&v, directory);
            v.lora_rank = v.optimizer == EITP_ADAMW ? 4 : 0;
            if (v.lora_rank)
                check_passes(&v, directory);
        }
    }
    scratch_remove(directory);
}

/* Padding of up to 31 rows, which can be longer than the sequences. */
static void gaps_change_no_bit(void) {
    static const int64_t blocks[] = {32, 33, 5, 1};
    char directory[512];
    variant v = default_variant();
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.isa = "ref";
    v.precision = "fp32";
    v.grad_accum = 5;
    v.batch_size = 1;
    v.sums_of_32 = 1;
    for (size_t b = 0; b < EITP__COUNT(blocks); b++) {
        v.block_size = blocks[b];
        check_passes(&v, directory);
    }
    v.batch_size = 3;
    v.last_sample = 2 * 15 + 8; /* ends in the middle of a micro-batch */
    check_passes(&v, directory);
    scratch_remove(directory);
}

/* Without padding the bits may depend on the passes. This shows that the comparisons above can fail. */
static void dense_rows_change_bits(void) {
    static const char *const sets[] = {"avx512bf16", "amx"};
    eitp_context_config config = eitp_context_config_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t i = 0; i < EITP__COUNT(sets); i++) {
        eitp_context *context;
        variant v = default_variant();
        uint32_t one_per_pass, two_per_pass;
        config.isa = v.isa = sets[i];
        v.precision = "bf16";
        v.batch_size = v.micro_batches_per_pass = v.dense_rows = 1;
        v.block_size = 33;
        if (eitp_context_create(&config, &context, &error_)) {
            printf("SKIPPED dense rows with %s: %s\n", v.isa, error_.message);
            continue;
        }
        eitp_context_destroy(context);
        one_per_pass = train_variant(&v, directory, PASS_STEPS);
        v.micro_batches_per_pass = 2;
        two_per_pass = train_variant(&v, directory, PASS_STEPS);
        CHECK(one_per_pass && two_per_pass && one_per_pass != two_per_pass);
    }
    scratch_remove(directory);
}

/* A run with one micro-batch per pass can be resumed with four. With dense rows that is refused. */
static void a_resume_may_change_micro_batches_per_pass(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    uint32_t straight;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    v.block_size = 33;
    v.grad_accum = 4;
    straight = train_variant(&v, directory, 4);
    for (v.dense_rows = 0; v.dense_rows < 2; v.dense_rows++) {
        run r;
        v.micro_batches_per_pass = 1;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        end_run(&r);
        v.micro_batches_per_pass = 4;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        if (v.dense_rows) {
            CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_ARGUMENT);
            CHECK_THAT(strstr(error_.message, "dense rows and micro_batches_per_pass 1,"), "%s", error_.message);
        } else {
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            CHECK(eitp_trainer_micro_batches_per_pass(r.trainer) == 4);
            REQUIRE(step_many(&r, 2, NULL));
            CHECK(fingerprint(&r) == straight);
        }
        end_run(&r);
        scratch_remove(output);
    }
    scratch_remove(directory);
}

/* Without the unique ids, or with another number of them, an update would omit the lookup's gradient, so it is refused.
   */
static void an_update_needs_the_unique_ids(void) {
    static const int64_t shape[] = {5, 3}, three = 3, two = 2, one = 1;
    eitp_context_config config = eitp_context_config_default();
    eitp_optimizer_config optimizer = eitp_optimizer_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_tensor *ids, *rows;
    eitp_update update;
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    ids = eitp_input(graph, "ids", EITP_I32, 1, &three);
    rows = eitp_embedding_unique(eitp_parameter(graph, "table", 2, shape), ids,
                                 eitp_input(graph, "unique", EITP_I32, 1, &three),
                                 eitp_input(graph, "inverse", EITP_I32, 1, &three));
    REQUIRE_OK(eitp_accumulate_gradients(eitp_sum(rows, EITP_ALL_DIMENSIONS, 0),
                                         eitp_input(graph, "carry", EITP_F32, 1, &one), &error_),
               error_);
    eitp_graph_destroy(graph);
    for (int way = 0; way < 3; way++) {
        eitp_status status;
        REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
        optimizer.unique = way ? eitp_input(graph, "unique", EITP_I32, 1, way == 1 ? &two : &three) : NULL;
        status = eitp_apply_gradients(graph, &optimizer, &update, &error_);
        CHECK_THAT(way == 2 ? !status : status == EITP_ERROR_ARGUMENT && strstr(error_.message, "'table'") != NULL,
                   "way %d: %s", way, status ? error_.message : "accepted");
        eitp_graph_destroy(graph);
    }
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(micro_batches_per_pass_change_no_bit),
        TEST(gaps_change_no_bit),
        TEST(dense_rows_change_bits),
        TEST(a_resume_may_change_micro_batches_per_pass),
        TEST(an_update_needs_the_unique_ids),
    };
    return RUN_TESTS(tests, argc, argv);
}
