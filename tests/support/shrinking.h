/* Configurations to shrink from, and a checked shrink, for tests of trainers that shrink. */
#ifndef EITP_TEST_SHRINKING_H
#define EITP_TEST_SHRINKING_H

#include "tests/support/trainer_run.h"

/* Shrinks once, and checks that memory fell and samples per step are unchanged. Returns 0 if nothing was shrunk. */
static RUN_UNUSED int shrink(run *r) {
    eitp_shrink_report report;
    eitp_step_shape before = eitp_trainer_shape(r->trainer), after;
    size_t arena = eitp_context_arena_bytes(r->context);
    eitp_status status = eitp_trainer_shrink(r->trainer, &report, &error_);
    after = eitp_trainer_shape(r->trainer);
    CHECK_THAT(!status, "%s", error_.message);
    CHECK(eitp__step_shapes_equal(&report.before, &before) && eitp__step_shapes_equal(&report.after, &after));
    CHECK(after.batch_size * after.grad_accum == before.batch_size * before.grad_accum);
    CHECK(after.batch_size * after.micro_batches_per_pass <= before.batch_size * before.micro_batches_per_pass);
    CHECK(report.bytes_after ==
          eitp_context_arena_bytes(r->context) + eitp_context_variable_bytes(r->context, EITP_GRADIENT));
    if (report.shrunk)
        CHECK_THAT(report.bytes_after < report.bytes_before - report.bytes_before / 100, "%d bytes, and %d before",
                   (int)report.bytes_after, (int)report.bytes_before);
    else
        CHECK(report.bytes_after == report.bytes_before && arena == eitp_context_arena_bytes(r->context) &&
              eitp__step_shapes_equal(&before, &after));
    return report.shrunk;
}

/* Configurations that shrink in different ways. */
static const struct {
    int64_t batch_size, grad_accum, micro_batches_per_pass;
    int keep_gradients;
    const char *precision;
    eitp_optimizer optimizer;
    eitp_recompute recompute;
    uint64_t last_sample;
} shrinking_[] = {
    {2, 4, 4, 0, "fp32", EITP_ADAMW, EITP_RECOMPUTE_AUTO, 0},
    {4, 2, 2, 1, "fp32", EITP_ADAMW, EITP_RECOMPUTE_NONE, 0},
    {4, 4, 1, 0, "fp32", EITP_ADAMW, EITP_RECOMPUTE_NONE, 0},
    {7, 1, 1, 1, "fp32", EITP_ADAMW, EITP_RECOMPUTE_NONE, 45},
    {3, 3, 2, 0, "fp32", EITP_ADAMW, EITP_RECOMPUTE_AUTO, 0},
    {6, 2, 1, 0, "fp32", EITP_FACTORED, EITP_RECOMPUTE_LAYER, 0},
    {16, 1, 1, 0, "fp32", EITP_ADAMW, EITP_RECOMPUTE_NONE, 0},
};

static RUN_UNUSED variant shrinking_variant(size_t i) {
    variant v = default_variant();
    v.batch_size = shrinking_[i].batch_size;
    v.grad_accum = shrinking_[i].grad_accum;
    v.micro_batches_per_pass = shrinking_[i].micro_batches_per_pass;
    v.keep_gradients = shrinking_[i].keep_gradients;
    v.precision = shrinking_[i].precision;
    v.optimizer = shrinking_[i].optimizer;
    v.plan.recompute = shrinking_[i].recompute;
    v.last_sample = shrinking_[i].last_sample;
    return v;
}

#endif
