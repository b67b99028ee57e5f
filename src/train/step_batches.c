#include "data/windows.h"
#include "train/step_batches.h"

EITP__PRIVATE eitp_status eitp__step_batches_create(const eitp_host *host, const eitp_pass *pass, int64_t count,
                                                    eitp__step_batches *batches, eitp_error *error) {
    const size_t bytes = (size_t)count * sizeof *batches->passes;
    eitp_status status = EITP_OK;
    memset(batches, 0, sizeof *batches);
    batches->host = *host;
    batches->passes = (eitp__batch *)eitp__allocate(host, bytes);
    if (!batches->passes)
        return eitp__fail_memory(error, bytes, "the batches of a step");
    batches->count = count;
    for (int64_t i = 0; i < count && !status; i++)
        status = eitp__batch_create(pass, &batches->passes[i], error);
    return status;
}

EITP__PRIVATE void eitp__step_batches_release(eitp__step_batches *batches) {
    if (!batches->passes)
        return;
    for (int64_t i = 0; i < batches->count; i++)
        eitp__batch_release(&batches->passes[i]);
    eitp__release(&batches->host, batches->passes, (size_t)batches->count * sizeof *batches->passes);
    memset(batches, 0, sizeof *batches);
}

static uint64_t eitp__step_samples(const eitp_trainer_config *config) {
    return (uint64_t)(config->batch_size * config->grad_accum);
}

EITP__PRIVATE uint64_t eitp__samples_after(const eitp_trainer_config *config, const eitp__data_position *start,
                                           int64_t step) {
    const int64_t steps = step < start->step ? start->step - step : step - start->step;
    const uint64_t distance = (uint64_t)steps * eitp__step_samples(config);
    const uint64_t end = config->last_sample > start->samples ? config->last_sample : start->samples;
    if (step < start->step)
        return start->samples > distance ? start->samples - distance : 0;
    return config->last_sample && start->samples + distance > end ? end : start->samples + distance;
}

/* Returns the number of steps for these samples; the last step may be partial. */
static int64_t eitp__steps_for(const eitp_trainer_config *config, uint64_t samples) {
    const uint64_t step = eitp__step_samples(config);
    return (int64_t)(samples / step + (samples % step > 0));
}

EITP__PRIVATE int64_t eitp__steps_to_last(const eitp_trainer_config *config, const eitp__data_position *start) {
    const int64_t steps = eitp__steps_for(config, config->last_sample);
    if (config->last_sample >= start->samples)
        return start->step + eitp__steps_for(config, config->last_sample - start->samples);
    return steps < start->step ? steps : start->step;
}

EITP__PRIVATE int64_t eitp__pass_samples(const eitp_trainer_config *config, uint64_t step_first, int64_t pass,
                                         uint64_t *first) {
    const uint64_t capacity = (uint64_t)(config->batch_size * config->micro_batches_per_pass);
    uint64_t end = step_first + eitp__step_samples(config);
    *first = step_first + (uint64_t)pass * capacity;
    if (config->last_sample && end > config->last_sample)
        end = config->last_sample;
    if (end <= *first)
        return 0;
    return (int64_t)(end - *first < capacity ? end - *first : capacity);
}

EITP__PRIVATE uint64_t eitp__sample_of(const eitp_trainer_config *config, const eitp_task *task, uint64_t number) {
    return eitp__sample_index(config->shuffle, config->seed, task->samples[EITP_TRAINING], number);
}

/* Returns sample number `number`, from 0, of training, across all epochs. */
static eitp__draw eitp__training_draw(const eitp_trainer_config *config, const eitp_task *task, uint64_t number) {
    eitp__draw draw;
    draw.split = EITP_TRAINING;
    draw.number = eitp__sample_of(config, task, number);
    draw.seed = config->seed;
    draw.epoch = number / task->samples[EITP_TRAINING];
    return draw;
}

EITP__PRIVATE eitp_status eitp__step_batches_read(eitp__step_batches *batches, const eitp_trainer_config *config,
                                                  uint64_t first, const eitp__poll *poll, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t pass = 0; pass < batches->count && !status; pass++) {
        eitp__batch *batch = &batches->passes[pass];
        uint64_t pass_first;
        const int64_t count = eitp__pass_samples(config, first, pass, &pass_first);
        eitp__batch_clear(batch);
        for (int64_t i = 0; i < count && !status; i++) {
            const eitp__draw draw = eitp__training_draw(config, batch->pass->task, pass_first + (uint64_t)i);
            if (eitp__poll_ask(poll))
                return eitp__fail_interrupted(error);
            status = eitp__batch_add(batch, &draw, error);
        }
    }
    return status;
}
