/* Encoders in a trainer: classifiers and masked language models, their bits, memory, adapters and checkpoints. */
#include "tests/support/labelled.h"

/* Returns a checksum after a few steps, or 0 if one fails. */
static uint32_t train(const variant *v, const char *name, eitp_problem problem) {
    encoder e;
    uint32_t crc = 0;
    eitp_status status = begin_problem(&e, v, name, problem);
    CHECK_THAT(!status, "%s: %s", name, error_.message);
    if (!status && step_many(&e.r, 3, NULL))
        crc = fingerprint(&e.r);
    CHECK_THAT(!e.r.trainer || !e.r.trainer->plans.pass_dependent_parameter[0],
               "%s: passes may change the bits of '%s'", name, e.r.trainer->plans.pass_dependent_parameter);
    end_run(&e.r);
    return crc;
}

static const char *const architectures[] = {"bert-base", "roberta-base", "distilbert-base", "gpt2"};

/* GPT-2 has no masked tokens. */
static int trains(const char *name, int problem) {
    return problem != EITP_PROBLEM_UNKNOWN || strcmp(name, "gpt2") != 0;
}

/* ---- Tests ---- */

static void check_merging(variant v, const char *name, eitp_problem problem) {
    uint32_t reference = 0;
    v.batch_size = 3;
    v.grad_accum = 5;
    for (int sums = 0; sums < 2; sums++) {
        v.sums_of_32 = sums;
        reference = 0;
        for (v.micro_batches_per_pass = 1; v.micro_batches_per_pass <= 5; v.micro_batches_per_pass += 2) {
            const uint32_t crc = train(&v, name, problem);
            reference = reference ? reference : crc;
            CHECK_THAT(crc && crc == reference, "%s, problem %d, %s %s, %d merged, sums of 32: %d", name, (int)problem,
                       v.isa, v.precision, (int)v.micro_batches_per_pass, sums);
        }
    }
}

static void micro_batches_per_pass_change_no_bit(void) {
    variant v = default_variant();
    size_t set = 0;
    while (next_set(&set, &v)) {
        if (!strcmp(v.products, "openblas") || v.optimizer != EITP_ADAMW)
            continue;
        for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
            for (int problem = EITP_PROBLEM_UNKNOWN; problem <= EITP_PROBLEM_SINGLE_LABEL; problem++) {
                if (trains(architectures[a], problem))
                    check_merging(v, architectures[a], (eitp_problem)problem);
            }
        }
    }
}

/* With multiple labels, numbers and token labels, too. */
static void every_problem_keeps_its_bits(void) {
    variant v = default_variant();
    for (int problem = EITP_PROBLEM_MULTI_LABEL; problem <= EITP_PROBLEM_TOKENS; problem++)
        check_merging(v, "bert-base", (eitp_problem)problem);
}

/* Threads, recomputing and memory limits change no bit, with or without adapters. */
static void threads_and_recompute_change_no_bit(void) {
    static const char *const precisions[] = {"fp32", "bf16"};
    for (size_t p = 0; p < EITP__COUNT(precisions); p++) {
        for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
            for (int lora = 0; lora < 2; lora++) {
                variant v = default_variant();
                uint32_t plain, other;
                v.precision = precisions[p];
                v.lora_rank = 2 * lora;
                v.batch_size = 4;
                plain = train(&v, architectures[a], EITP_PROBLEM_SINGLE_LABEL);
                v.threads = 1;
                v.data_workers = 2;
                v.plan.recompute = EITP_RECOMPUTE_LAYER;
                other = train(&v, architectures[a], EITP_PROBLEM_SINGLE_LABEL);
                CHECK_THAT(plain && plain == other, "%s %s, adapters %d: %08x, not %08x", architectures[a],
                           precisions[p], lora, other, plain);
            }
        }
    }
}

/* All models learn: a classifier becomes accurate on samples like its training samples. */
static void classifiers_learn(void) {
    for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
        for (int lora = 0; lora < 2; lora++) {
            variant v = default_variant();
            eitp_evaluation before, after;
            encoder e;
            v.batch_size = 10;
            v.grad_accum = 1;
            v.dropout = 0;
            v.lora_rank = 4 * lora;
            REQUIRE_OK(begin_problem(&e, &v, architectures[a], EITP_PROBLEM_SINGLE_LABEL), error_);
            REQUIRE_OK(eitp_model_set_dropout(e.r.model, 0, 0, 0, &error_), error_);
            REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &before, &error_), error_);
            CHECK(step_many(&e.r, 80, NULL));
            REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &after, &error_), error_);
            CHECK_THAT(metric_of(&after, "accuracy") > (lora ? 0.6 : 0.9) && after.loss < before.loss,
                       "%s, adapters %d: accuracy %g, loss %g from %g", architectures[a], lora,
                       metric_of(&after, "accuracy"), after.loss, before.loss);
            end_run(&e.r);
        }
    }
}

/* Checks that a resumed run continues with the same bits. With adapters its checkpoint contains the classifier. */
static void check_resume(const char *name, eitp_problem problem, int lora_rank) {
    variant v = default_variant();
    encoder e;
    uint32_t straight;
    char directory[512], checkpoint[600];
    REQUIRE(scratch_make(directory));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", directory);
    v.lora_rank = lora_rank;
    REQUIRE_OK(begin_problem(&e, &v, name, problem), error_);
    CHECK(step_many(&e.r, 2, NULL));
    REQUIRE_OK(eitp_trainer_save(e.r.trainer, directory, &error_), error_);
    CHECK(step_many(&e.r, 2, NULL));
    straight = fingerprint(&e.r);
    end_run(&e.r);
    REQUIRE_OK(begin_problem(&e, &v, name, problem), error_);
    CHECK(step_many(&e.r, 1, NULL));
    REQUIRE_OK(eitp_trainer_resume(e.r.trainer, checkpoint, &error_), error_);
    CHECK(step_many(&e.r, 2, NULL));
    CHECK_THAT(fingerprint(&e.r) == straight, "%s, problem %d, adapters of rank %d", name, (int)problem, lora_rank);
    end_run(&e.r);
    scratch_remove(directory);
}

static void resumed_runs_have_the_same_bits(void) {
    for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
        for (int lora = 0; lora < 2; lora++) {
            check_resume(architectures[a], EITP_PROBLEM_SINGLE_LABEL, 2 * lora);
            check_resume(architectures[a], EITP_PROBLEM_TOKENS, 2 * lora);
        }
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(micro_batches_per_pass_change_no_bit), TEST(every_problem_keeps_its_bits),
        TEST(threads_and_recompute_change_no_bit),  TEST(classifiers_learn),
        TEST(resumed_runs_have_the_same_bits),
    };
    return RUN_TESTS(tests, argc, argv);
}
