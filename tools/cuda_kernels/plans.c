/*
 * Plans of training steps for the CUDA backend. Its own functions answer the planner's queries about a simulated device
 * whose memory consists only of addresses. Nothing is executed.
 */
#include "cuda_kernels.h"

/* ---- A device without memory ---- */

static void *allocate_addresses(eitp__backend *backend, eitp__place place, size_t size) {
    static uintptr_t next = (uintptr_t)1 << 40;
    const uintptr_t memory = next;
    (void)backend, (void)place;
    next += (size + 4095) / 4096 * 4096;
    return (void *)memory;
}

static void release_addresses(eitp__backend *backend, eitp__place place, void *memory, size_t size) {
    (void)backend, (void)place, (void)memory, (void)size;
}

static eitp_status copy_nothing(eitp__backend *backend, void *to, const void *from, size_t size, eitp_error *error) {
    (void)backend, (void)to, (void)from, (void)size, (void)error;
    return EITP_OK;
}

/* Sums start with the first pass, so missing values are 0. */
static eitp_status read_zeros(eitp__backend *backend, void *to, const void *from, size_t size, eitp_error *error) {
    (void)backend, (void)from, (void)error;
    memset(to, 0, size);
    return EITP_OK;
}

static eitp_status prepare_nothing(eitp__backend *backend, const eitp__program_info *info, eitp__program **program,
                                   eitp_error *error) {
    (void)backend, (void)info, (void)error;
    *program = NULL;
    return EITP_OK;
}

static eitp_status wait_for_nothing(eitp__backend *backend, eitp_error *error) {
    (void)backend, (void)error;
    return EITP_OK;
}

static void destroy_nothing(eitp__backend *backend) {
    (void)backend;
}

/* Bytes of an H100. */
#define PLANNED_MEMORY ((uint64_t)80 << 30)

static eitp_status know_memory(const eitp__backend *backend, uint64_t *available, uint64_t *total, eitp_error *error) {
    (void)error;
    (void)backend;
    *available = *total = PLANNED_MEMORY;
    return EITP_OK;
}

/* ---- A driver that does nothing ---- */

static eitp__cuda_result allocate_arguments(eitp__cuda_address *address, size_t size) {
    *address = (eitp__cuda_address)(uintptr_t)allocate_addresses(NULL, EITP__PLACE_DEVICE, size);
    return 0;
}

static eitp__cuda_result release_arguments(eitp__cuda_address address) {
    (void)address;
    return 0;
}

static eitp__cuda_result upload_arguments(eitp__cuda_address to, const void *from, size_t size,
                                          eitp__cuda_stream stream) {
    (void)to, (void)from, (void)size, (void)stream;
    return 0;
}

static eitp__cuda_result set_context(eitp__cuda_context context) {
    (void)context;
    return 0;
}

static eitp__cuda_result record_event(eitp__cuda_event event, eitp__cuda_stream stream) {
    (void)event, (void)stream;
    return 0;
}

static eitp__cuda_result wait_for_event(eitp__cuda_event event) {
    (void)event;
    return 0;
}

static void set_driver(eitp__cuda_driver *driver) {
    driver->allocate = allocate_arguments;
    driver->release = release_arguments;
    driver->upload = upload_arguments;
    driver->context_set = set_context;
    driver->event_record = record_event;
    driver->event_wait = wait_for_event;
}

/* Returns a context whose backend is the CUDA backend of the step's device. */
static eitp_context *create_context(const planned_step *step) {
    static eitp__backend_interface interface;
    static eitp__cuda cuda;
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context;
    eitp_error error = EITP__ZERO;
    config.device = "null";
    config.precision = step->precision;
    if (eitp_context_create(&config, &context, &error))
        stop("%s", error.message);
    interface = *eitp__cuda_backend();
    interface.destroy = destroy_nothing;
    interface.allocate = allocate_addresses;
    interface.release = release_addresses;
    interface.upload = copy_nothing;
    interface.download = read_zeros;
    interface.prepare = prepare_nothing;
    interface.wait = wait_for_nothing;
    interface.memory = know_memory;
    memset(&cuda, 0, sizeof cuda);
    cuda.base.interface = &interface;
    cuda.base.host = context->host;
    set_driver(&cuda.driver);
    cuda.device = step->device;
    cuda.blas.version = step->has_own_products ? 0 : 130100;
    cuda.blas.capability = cuda.device.capability;
    context->backend->interface->destroy(context->backend);
    context->backend = context->segments->backend = &cuda.base;
    return context;
}

/* ---- Tasks ---- */

/* The pass of eitp_masked_task, which needs a tokenizer to read samples. */
static eitp_status build_masked(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp_model *model = (const eitp_model *)user;
    const eitp_model_inputs inputs = eitp__labelled_inputs(pass, model);
    eitp_tensor *targets = eitp_pass_row_input(pass, "targets", EITP_I32, 0, NULL, EITP__IGNORED_TARGET);
    eitp_tensor *hidden = eitp_model_hidden(model, eitp_pass_graph(pass), &inputs, eitp_pass_max_length(pass));
    eitp_pass_term(pass, "loss", eitp__model_row_losses(model, hidden, inputs.key, targets, EITP__IGNORED_TARGET),
                   NULL);
    return eitp_graph_status(eitp_pass_graph(pass), error);
}

/* Plans are not executed. */
static eitp_status read_nothing(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    (void)user, (void)split, (void)number, (void)sample;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "a planned step has no samples");
}

static eitp_status create_task(const planned_step *step, eitp_context *context, eitp_model *model, eitp_task *task,
                               eitp_error *error) {
    static int32_t tokens[PLANNED_ROWS + 1];
    const uint64_t count = (uint64_t)(step->samples * step->tokens) + 1;
    const eitp_token_range all = {0, count};
    eitp_language_config language = eitp_language_config_default();
    if (step->samples * step->tokens > PLANNED_ROWS)
        stop("a planned step has at most %d tokens", PLANNED_ROWS);
    if (!step->is_masked) {
        language.model = model;
        language.training = eitp_token_memory_source(tokens, count, all);
        language.block_size = step->tokens;
        return eitp_language_task(&language, task, error);
    }
    memset(task, 0, sizeof *task);
    task->user = model;
    task->context = context;
    task->model = model;
    task->rows = step->tokens;
    task->samples[0] = (uint64_t)step->samples;
    task->rows_vary = task->allows_gaps = 1;
    task->build = build_masked;
    task->read = read_nothing;
    return EITP_OK;
}

/* ---- The step ---- */

/* One of the visitors. */
typedef struct plan_visitor {
    step_visitor *step;
    unit_visitor *unit;
    void *user;
} plan_visitor;

static void visit_plan(const eitp_plan *plan, const plan_visitor *visitor) {
    cuda_ordered_plan ordered;
    eitp__cuda *cuda;
    eitp_error error;
    for (size_t s = 0; plan && visitor->step && s < plan->step_count; s++)
        visitor->step(visitor->user, plan, s);
    if (!plan || !visitor->unit)
        return;
    cuda = eitp__cuda_of(plan->context->backend);
    if (cuda_order_plan(cuda, plan, &ordered, &error))
        stop("%s", error.message);
    for (size_t u = 0; u < ordered.order.count; u++)
        visitor->unit(visitor->user, &ordered, &ordered.order.units[u]);
    cuda_ordered_plan_release(cuda, &ordered);
}

/* Visits the plan that reads a prompt and generates tokens, with a cache for `tokens` of them. */
static void visit_generation(const planned_step *step, eitp_model *model, const plan_visitor *visitor) {
    eitp_generator *generator = NULL;
    eitp_error error = EITP__ZERO;
    if (eitp_generator_create(model, step->tokens, &generator, &error))
        stop("%s: %s", step->shape, error.message);
    visit_plan(model->context->plans, visitor); /* the latest */
    eitp_generator_destroy(generator);
}

static eitp_status read_shape(const char *shape, eitp_transformer_config *config, eitp_error *error) {
    const eitp_host host = eitp_host_default();
    const size_t length = strlen(shape);
    eitp_status status;
    if (length < 5 || strcmp(shape + length - 5, ".json") != 0)
        return eitp_transformer_config_named(shape, config, error);
    status = eitp_transformer_config_read(&host, shape, config, error);
    config->head = EITP_HEAD_LANGUAGE;
    return status;
}

static int64_t visit_plans(const planned_step *step, const plan_visitor *visitor) {
    eitp_transformer_config shape;
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_context *context = create_context(step);
    eitp_model *model = NULL;
    eitp_task task;
    eitp_trainer *trainer = NULL;
    eitp_error error = EITP__ZERO;
    eitp_status status = read_shape(step->shape, &shape, &error);
    int64_t parameters;
    shape.embedding_dropout = shape.attention_dropout = shape.residual_dropout = step->dropout;
    shape.layers = step->layers ? step->layers : shape.layers;
    config.batch_size = step->samples;
    config.grad_accum = step->passes ? step->passes : 1;
    config.micro_batches_per_pass = 1;
    config.plan.memory = step->has_little_memory ? EITP_MINIMUM_MEMORY : 0;
    status = status ? status : eitp_model_create(context, &shape, &model, &error);
    status = status ? status : create_task(step, context, model, &task, &error);
    status = status ? status : eitp_trainer_create(&task, &config, &trainer, &error);
    if (status)
        stop("%s: %s", step->shape, error.message);
    visit_plan(trainer->plans.gradient_plan, visitor);
    visit_plan(trainer->plans.update_plan, visitor);
    if (step->generates)
        visit_generation(step, model, visitor);
    parameters = (int64_t)eitp_model_parameter_count(model);
    eitp_trainer_destroy(trainer);
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return parameters;
}

int64_t visit_planned_step(const planned_step *step, step_visitor *visit, void *user) {
    const plan_visitor visitor = {visit, NULL, user};
    return visit_plans(step, &visitor);
}

int64_t visit_ordered_step(const planned_step *step, unit_visitor *visit, void *user) {
    const plan_visitor visitor = {NULL, visit, user};
    return visit_plans(step, &visitor);
}
