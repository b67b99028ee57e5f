/* Graph building: tensors, nodes, and the first error. */
#include "tensor/graph.h"

#include "tensor/variable.h"

eitp_status eitp_graph_status(const eitp_graph *graph, eitp_error *error) {
    if (!graph)
        return eitp__fail_null(error, "eitp_graph_status", "graph");
    if (graph->error.status && error)
        *error = graph->error;
    return graph->error.status;
}

EITP__PRIVATE void eitp__graph_fail(eitp_graph *graph, eitp_status status, const char *format, ...) {
    va_list arguments;
    if (graph->error.status)
        return;
    graph->error.status = status;
    va_start(arguments, format);
    vsnprintf(graph->error.message, sizeof graph->error.message, format, arguments);
    va_end(arguments);
}

EITP__PRIVATE eitp_component eitp__graph_set_component(eitp_graph *graph, eitp_component component) {
    eitp_component before = EITP_COMPONENT_OTHER;
    if (graph) {
        before = graph->origin.component;
        graph->origin.component = component;
    }
    return before;
}

EITP__PRIVATE eitp_tensor *eitp__graph_registered(const eitp_graph *graph, const void *owner, int kind,
                                                  int64_t number) {
    for (const eitp__tap_entry *tap = graph->taps; tap; tap = tap->next) {
        if (tap->owner == owner && tap->kind == kind && tap->number == number)
            return tap->tensor;
    }
    return NULL;
}

EITP__PRIVATE void eitp__graph_register(eitp_tensor *tensor, const void *owner, int kind, int64_t number) {
    eitp__tap_entry *tap;
    if (!tensor || eitp__graph_registered(tensor->graph, owner, kind, number))
        return;
    tap = (eitp__tap_entry *)eitp__graph_allocate(tensor->graph, sizeof *tap);
    if (!tap)
        return;
    tap->owner = owner;
    tap->kind = kind;
    tap->number = number;
    tap->tensor = tensor;
    tap->next = tensor->graph->taps;
    tensor->graph->taps = tap;
}

EITP__PRIVATE void *eitp__graph_allocate(eitp_graph *graph, size_t size) {
    enum { BLOCK = 64 * 1024 };
    size_t header = (sizeof(eitp__graph_block) + 63) / 64 * 64;
    void *memory;
    size = (size + 15) / 16 * 16;
    if (!graph->blocks || graph->blocks->size - graph->blocks->used < size) {
        eitp__graph_block *block = (eitp__graph_block *)eitp__allocate(&graph->context->host, BLOCK);
        if (!block) {
            eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate %d bytes for the graph", (int)BLOCK);
            return NULL;
        }
        block->next = graph->blocks;
        block->size = BLOCK;
        block->used = header;
        graph->blocks = block;
    }
    memory = (char *)graph->blocks + graph->blocks->used;
    graph->blocks->used += size;
    return memory;
}

/* Creates a tensor. `subject` is the op or leaf it belongs to, for messages. */
static eitp_tensor *eitp__tensor_create(eitp_graph *graph, const char *subject, eitp_dtype dtype, int rank,
                                        const int64_t *shape, int rows) {
    eitp_tensor *tensor;
    size_t elements = 1;
    if (!eitp_dtype_size(dtype)) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "%s: unknown dtype %d", subject, (int)dtype);
        return NULL;
    }
    if (rank < 0 || rank > EITP_MAX_RANK) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "%s: rank must be 0 to %d, not %d", subject, EITP_MAX_RANK, rank);
        return NULL;
    }
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1 || !eitp__multiply_size(elements, (size_t)shape[i], &elements) ||
            elements > (size_t)INT64_MAX / 16) {
            eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "%s: dimension %d cannot be %lld", subject, i,
                             (long long)shape[i]);
            return NULL;
        }
    }
    if (!eitp__reserve(&graph->context->host, (void **)&graph->tensors, &graph->tensor_capacity,
                       graph->tensor_count + 1, sizeof *graph->tensors)) {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate the graph's list of tensors");
        return NULL;
    }
    tensor = (eitp_tensor *)eitp__graph_allocate(graph, sizeof *tensor);
    if (!tensor)
        return NULL;
    tensor->graph = graph;
    tensor->id = (int)graph->tensor_count;
    tensor->storage = tensor;
    tensor->variable = -1;
    tensor->dtype = dtype;
    tensor->rank = rank;
    for (int i = 0; i < rank; i++)
        tensor->shape[i] = shape[i];
    tensor->rows = rows;
    graph->tensors[graph->tensor_count++] = tensor;
    return tensor;
}

EITP__PRIVATE eitp_tensor *eitp__tensor_copy(const eitp_tensor *tensor, eitp_tensor *storage, int64_t first) {
    eitp_tensor *copy =
        eitp__tensor_create(tensor->graph, "copy", tensor->dtype, tensor->rank, tensor->shape, tensor->rows);
    if (!copy)
        return NULL;
    copy->node = tensor->node;
    copy->storage = storage ? storage : copy;
    copy->first = first;
    copy->first_row = tensor->first_row;
    return copy;
}

/* Copies a name into memory that lives as long as the graph, truncated at a character boundary; NULL if out of
   memory. */
static const char *eitp__copy_name(eitp_graph *graph, const char *name) {
    enum { LONGEST = 255 };
    size_t length = 0;
    char *copy;
    while (length < LONGEST && name[length])
        length++;
    while (name[length] && length && ((unsigned char)name[length] & 0xc0) == 0x80)
        length--;
    copy = (char *)eitp__graph_allocate(graph, length + 1);
    if (copy)
        memcpy(copy, name, length);
    return copy;
}

static eitp_tensor *eitp__leaf_create(eitp_graph *graph, eitp__leaf leaf, const char *name, eitp_dtype dtype, int rank,
                                      const int64_t *shape) {
    eitp_tensor *tensor;
    if (!graph || graph->error.status)
        return NULL;
    if (!name || (rank > 0 && !shape)) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "the %s of input '%s' is NULL", name ? "shape" : "name",
                         name ? name : "");
        return NULL;
    }
    tensor = eitp__tensor_create(graph, name, dtype, rank, shape, 0);
    if (!tensor)
        return NULL;
    tensor->leaf = leaf;
    if (leaf == EITP__INPUT)
        tensor->name = eitp__copy_name(graph, name);
    return leaf == EITP__INPUT && !tensor->name ? NULL : tensor;
}

eitp_tensor *eitp_input(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank, const int64_t *shape) {
    return eitp__leaf_create(graph, EITP__INPUT, name, dtype, rank, shape);
}

eitp_tensor *eitp_input_rows(eitp_graph *graph, const char *name, eitp_dtype dtype, int rank, const int64_t *shape) {
    eitp_tensor *tensor = eitp_input(graph, name, dtype, rank, shape);
    if (!tensor)
        return NULL;
    if (rank < 1 || (graph->capacity >= 0 && graph->capacity != shape[0])) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT,
                         "input '%s' has a capacity of %lld rows, but the graph has a capacity of %lld", name,
                         rank < 1 ? 0LL : (long long)shape[0], (long long)graph->capacity);
        return NULL;
    }
    graph->capacity = shape[0];
    tensor->rows = 1;
    return tensor;
}

/* Grows the list of variables' tensors to the number of the context's variables. Returns 0 and sets the graph's error
   if out of memory. */
static int eitp__reserve_variables(eitp_graph *graph) {
    size_t old = graph->variable_capacity, count = graph->context->variable_count;
    if (!eitp__reserve(&graph->context->host, (void **)&graph->variables, &graph->variable_capacity, count,
                       sizeof *graph->variables)) {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate the graph's list of variables");
        return 0;
    }
    for (size_t i = old; i < graph->variable_capacity; i++)
        graph->variables[i] = NULL;
    return 1;
}

/* Returns the tensor of a variable. A graph has one tensor per variable, so all uses add to one gradient. */
static eitp_tensor *eitp__tensor_of_variable(eitp_graph *graph, int64_t index) {
    const eitp_variable variable = eitp_variable_at(graph->context, (size_t)index);
    eitp_tensor *tensor;
    if (!eitp__reserve_variables(graph))
        return NULL;
    if (graph->variables[index])
        return graph->variables[index];
    tensor = eitp__leaf_create(graph, EITP__VARIABLE, variable.name, variable.dtype, variable.rank, variable.shape);
    if (tensor) {
        tensor->variable = index;
        graph->variables[index] = tensor;
    }
    return tensor;
}

eitp_tensor *eitp_variable_tensor(eitp_graph *graph, const char *name, eitp_role role, eitp_dtype dtype, int rank,
                                  const int64_t *shape) {
    eitp_error error;
    int64_t index = -1;
    if (!graph || graph->error.status)
        return NULL;
    if (eitp__variable_declare(graph->context, name, role, dtype, rank, shape, &index, &error)) {
        eitp__graph_fail(graph, error.status, "%s", error.message);
        return NULL;
    }
    return eitp__tensor_of_variable(graph, index);
}

EITP__PRIVATE eitp_tensor *eitp__child_tensor(const eitp_tensor *parent, const eitp__child_info *child) {
    eitp_graph *graph = parent->graph;
    eitp_error error;
    int64_t index = -1;
    if (graph->error.status)
        return NULL;
    if (eitp__child_declare(graph->context, parent->variable, child, &index, &error)) {
        eitp__graph_fail(graph, error.status, "%s", error.message);
        return NULL;
    }
    return eitp__tensor_of_variable(graph, index);
}

EITP__PRIVATE eitp_tensor *eitp__found_child_tensor(const eitp_tensor *parent, const char *kind, int64_t number) {
    const int64_t index = eitp__child_find(parent->graph->context, parent->variable, kind, number);
    return index < 0 || parent->graph->error.status ? NULL : eitp__tensor_of_variable(parent->graph, index);
}

eitp_tensor *eitp_parameter(eitp_graph *graph, const char *name, int rank, const int64_t *shape) {
    return eitp_variable_tensor(graph, name, EITP_PARAMETER, EITP_F32, rank, shape);
}

EITP__PRIVATE void eitp__add_rule(eitp_tensor *tensor, const eitp__value_rule *rule) {
    eitp_tensor *input = tensor ? tensor->storage : NULL;
    eitp__value_rule *added;
    if (!input || input->leaf != EITP__INPUT || eitp__elements(input) != eitp__elements(tensor))
        return;
    for (const eitp__value_rule *other = input->rules; other; other = other->next) {
        if (other->check == rule->check && !memcmp(other->numbers, rule->numbers, sizeof rule->numbers))
            return;
    }
    added = (eitp__value_rule *)eitp__graph_allocate(input->graph, sizeof *added);
    if (!added)
        return;
    *added = *rule;
    added->next = input->rules;
    input->rules = added;
}

eitp_tensor *eitp_keep_input(eitp_tensor *input) {
    if (!input)
        return NULL;
    if (input->leaf != EITP__INPUT) {
        eitp__graph_fail(input->graph, EITP_ERROR_ARGUMENT, "eitp_keep_input: only inputs can be kept");
        return NULL;
    }
    input->is_kept = 1;
    return input;
}

eitp_tensor *eitp_output(eitp_tensor *tensor) {
    if (tensor)
        tensor->is_output = 1;
    return tensor;
}

eitp_tensor *eitp_tensor_set_name(eitp_tensor *tensor, const char *name) {
    if (!tensor || tensor->leaf != EITP__COMPUTED)
        return tensor;
    tensor->name = name ? eitp__copy_name(tensor->graph, name) : NULL;
    return name && !tensor->name ? NULL : tensor;
}

const char *eitp_tensor_name(const eitp_tensor *tensor) {
    const char *name = tensor && tensor->leaf == EITP__VARIABLE ? eitp__variable_name(tensor) : NULL;
    if (tensor && tensor->leaf != EITP__VARIABLE)
        name = tensor->name;
    return name ? name : "";
}

int eitp_tensor_rank(const eitp_tensor *tensor) {
    return tensor ? tensor->rank : 0;
}

int64_t eitp_tensor_dimension(const eitp_tensor *tensor, int dimension) {
    int index = tensor && dimension < 0 ? tensor->rank + dimension : dimension;
    return tensor && index >= 0 && index < tensor->rank ? tensor->shape[index] : 0;
}

int64_t eitp_tensor_elements(const eitp_tensor *tensor) {
    return tensor ? eitp__elements(tensor) : 0;
}

eitp_dtype eitp_tensor_dtype(const eitp_tensor *tensor) {
    return tensor ? tensor->dtype : (eitp_dtype)EITP_DTYPE_COUNT;
}

eitp_graph *eitp_tensor_graph(const eitp_tensor *tensor) {
    return tensor ? tensor->graph : NULL;
}

EITP__PRIVATE const eitp_host *eitp__graph_host(const eitp_graph *graph) {
    return &graph->context->host;
}

EITP__PRIVATE const char *eitp__variable_name(const eitp_tensor *tensor) {
    return tensor->graph->context->variables[tensor->variable].info.name;
}

EITP__PRIVATE int eitp__is_parameter(const eitp_tensor *tensor) {
    const eitp_variable *info;
    if (tensor->leaf != EITP__VARIABLE)
        return 0;
    info = &tensor->graph->context->variables[tensor->variable].info;
    return info->role == EITP_PARAMETER && eitp__is_floating(info->dtype);
}

EITP__PRIVATE int eitp__is_trained(const eitp_tensor *tensor) {
    return eitp__is_parameter(tensor) && tensor->graph->context->variables[tensor->variable].info.trained;
}

EITP__PRIVATE eitp_dtype eitp__gradient_dtype(const eitp_tensor *tensor) {
    const eitp__node *node = tensor->node;
    /* A parameter cast to 16 bits for a product has the gradient of a 16-bit parameter. */
    int rounded = node && node->op == EITP__OP_CAST && eitp__is_parameter(node->inputs[0]);
    return rounded || eitp__is_parameter(tensor) ? eitp__wide(tensor->dtype) : tensor->dtype;
}

EITP__PRIVATE eitp_dtype eitp__node_dtype(const eitp__node *node) {
    const int input = eitp__op(node->graph, node->op)->dtype_input;
    if (input)
        return node->inputs[input - 1]->dtype;
    for (int i = 0; i < node->input_count; i++) {
        if (node->inputs[i] && eitp__is_floating(node->inputs[i]->dtype))
            return node->inputs[i]->dtype;
    }
    return node->input_count ? node->inputs[0]->dtype : node->outputs[0]->dtype;
}

EITP__PRIVATE int64_t eitp__elements(const eitp_tensor *tensor) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++)
        elements *= tensor->shape[i];
    return elements;
}

EITP__PRIVATE size_t eitp__tensor_bytes(const eitp_tensor *tensor) {
    const int64_t elements = tensor->row_stride ? tensor->shape[0] * tensor->row_stride : eitp__elements(tensor);
    return (size_t)elements * eitp_dtype_size(tensor->dtype);
}

EITP__PRIVATE int eitp__same_shape(const eitp_tensor *a, const eitp_tensor *b) {
    return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

EITP__PRIVATE const char *eitp__shape_text(const eitp_tensor *tensor, char *text, size_t size) {
    size_t used = 0;
    snprintf(text, size, "[");
    for (int i = 0; i < tensor->rank; i++) {
        used = strlen(text);
        snprintf(text + used, size - used, i ? ", %lld" : "%lld", (long long)tensor->shape[i]);
    }
    used = strlen(text);
    snprintf(text + used, size - used, "]");
    return text;
}

/* Checks that required inputs are present and belong to this graph. Otherwise returns 0 and sets the graph's error. */
static int eitp__check_inputs(eitp_graph *graph, const eitp__op_info *info, eitp_tensor *const *inputs, int count) {
    if (count < info->min_inputs || count > info->max_inputs) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "%s takes %d to %d inputs, not %d", info->name, info->min_inputs,
                         info->max_inputs, count);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (!inputs[i] && i < info->min_inputs) {
            eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "input %d of %s is NULL", i, info->name);
            return 0;
        }
        if (inputs[i] && inputs[i]->graph != graph) {
            eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "input %d of %s belongs to another graph", i, info->name);
            return 0;
        }
    }
    return 1;
}

EITP__PRIVATE eitp_tensor *eitp__shared_input(const eitp__node *node, int output) {
    const int *shares = eitp__op(node->graph, node->op)->shares;
    for (int i = 0; i < EITP__MAX_OUTPUTS; i++) {
        eitp_tensor *input = shares[i] && shares[i] <= node->input_count ? node->inputs[shares[i] - 1] : NULL;
        if (shares[i] && !input)
            continue;
        if (output-- == 0)
            return input;
    }
    return NULL;
}

EITP__PRIVATE int eitp__differentiated_inputs(const eitp__node *node, int *numbers) {
    const eitp__op_info *info = eitp__op(node->graph, node->op);
    int count = 0;
    for (int i = 0; i < info->outputs; i++) {
        const eitp_tensor *x = node->inputs[info->wrt[i]];
        if (x && eitp__is_floating(x->dtype))
            numbers[count++] = info->wrt[i];
    }
    return count;
}

EITP__PRIVATE void eitp__set_operand(eitp__operand *operand, const eitp_tensor *tensor) {
    if (!tensor)
        return;
    operand->dtype = tensor->dtype;
    operand->rank = tensor->rank;
    operand->elements = eitp__elements(tensor);
    memcpy(operand->shape, tensor->shape, sizeof operand->shape);
}

EITP__PRIVATE void eitp__node_call(const eitp__node *node, eitp__call *call) {
    memset(call, 0, sizeof *call);
    call->slot = (eitp__slot)node->op;
    call->dtype = eitp__node_dtype(node);
    call->input_count = node->input_count;
    call->output_count = node->output_count;
    for (int i = 0; i < node->input_count; i++)
        eitp__set_operand(&call->inputs[i], node->inputs[i]);
    for (int i = 0; i < node->output_count; i++)
        eitp__set_operand(&call->outputs[i], node->outputs[i]);
    memcpy(call->integers, node->attributes.integers, sizeof call->integers);
    memcpy(call->reals, node->attributes.reals, sizeof call->reals);
}

/* Changes the 16-bit dtypes of a call to F32. */
static void eitp__widen_call(eitp__call *call) {
    call->dtype = eitp__wide(call->dtype);
    for (int i = 0; i < call->input_count; i++)
        call->inputs[i].dtype = eitp__wide(call->inputs[i].dtype);
    for (int i = 0; i < call->output_count; i++)
        call->outputs[i].dtype = eitp__wide(call->outputs[i].dtype);
}

EITP__PRIVATE int eitp__has_kernel(const eitp__node *node) {
    const eitp__backend *backend = node->graph->context->backend;
    eitp__call call;
    if ((int)node->op >= (int)EITP__SLOT_COUNT)
        return 0;
    eitp__node_call(node, &call);
    return backend->interface->supports(backend, &call);
}

/* True if the node can be computed: by a kernel for its dtype, by the F32 kernel between casts, or by other ops. */
static int eitp__can_compute(const eitp__node *node) {
    const eitp__op_info *info = eitp__op(node->graph, node->op);
    const eitp__backend *backend = node->graph->context->backend;
    eitp__call call;
    if ((int)node->op >= (int)EITP__SLOT_COUNT || info->expand || info->backward_of || eitp__has_kernel(node))
        return 1;
    eitp__node_call(node, &call);
    eitp__widen_call(&call);
    return backend->interface->supports(backend, &call);
}

/* Outputs with rows start at the row where the first such input starts. A view of rows starts later. */
static void eitp__pass_first_row(eitp__node *node) {
    int64_t first = 0;
    for (int i = node->input_count; i-- > 0;)
        first = node->inputs[i] && node->inputs[i]->rows ? node->inputs[i]->first_row : first;
    for (int i = 0; i < node->output_count; i++)
        node->outputs[i]->first_row += node->outputs[i]->rows ? first : 0;
}

/* Returns the component of a node created for `current`. Some ops belong to one component wherever they are used. */
static eitp_component eitp__node_component(const eitp__op_info *info, eitp_component current) {
    switch (info->work) {
    case EITP_WORK_ATTENTION:
        return EITP_COMPONENT_ATTENTION;
    case EITP_WORK_NORM:
        return EITP_COMPONENT_OTHER;
    case EITP_WORK_HEAD:
    case EITP_WORK_LOSS:
        return EITP_COMPONENT_HEAD;
    default:
        return current;
    }
}

EITP__PRIVATE eitp__node *eitp__node_create(eitp_graph *graph, eitp__op_code op, eitp_tensor *const *inputs,
                                            int input_count, const eitp__attributes *attributes) {
    const eitp__op_info *info;
    eitp__node *node;
    eitp_error error = EITP__ZERO;
    if (!graph || graph->error.status)
        return NULL;
    info = eitp__op(graph, op);
    if (!eitp__check_inputs(graph, info, inputs, input_count))
        return NULL;
    if (!eitp__reserve(&graph->context->host, (void **)&graph->nodes, &graph->node_capacity, graph->node_count + 1,
                       sizeof *graph->nodes)) {
        eitp__graph_fail(graph, EITP_ERROR_MEMORY, "cannot allocate the graph's list of nodes");
        return NULL;
    }
    node = (eitp__node *)eitp__graph_allocate(graph, sizeof *node);
    if (!node)
        return NULL;
    node->graph = graph;
    node->id = (int)graph->node_count;
    node->op = op;
    node->order = node->id;
    node->origin.phase = graph->origin.phase;
    node->origin.component = eitp__node_component(info, graph->origin.component);
    node->input_count = input_count;
    for (int i = 0; i < input_count; i++)
        node->inputs[i] = inputs[i];
    if (attributes)
        node->attributes = *attributes;
    if (info->shape(node, &error)) {
        eitp__graph_fail(graph, error.status, "%s: %s", info->name, error.message);
        return NULL;
    }
    if (!eitp__can_compute(node)) {
        eitp__graph_fail(graph, EITP_ERROR_UNSUPPORTED, "%s: no kernel for %s on this device; cast to f32 and back",
                         info->name, eitp_dtype_name(eitp__node_dtype(node)));
        return NULL;
    }
    for (int i = 0; i < node->output_count; i++) {
        eitp_tensor *shared = eitp__shared_input(node, i);
        if (shared) {
            node->outputs[i]->storage = shared->storage;
            node->outputs[i]->first += shared->first;
        }
    }
    eitp__pass_first_row(node);
    graph->nodes[graph->node_count++] = node;
    return node;
}

EITP__PRIVATE eitp_tensor *eitp__apply(eitp__op_code op, eitp_tensor *const *inputs, int input_count,
                                       const eitp__attributes *attributes) {
    eitp_graph *graph = NULL;
    eitp__node *node;
    for (int i = 0; i < input_count && !graph; i++)
        graph = inputs[i] ? inputs[i]->graph : NULL;
    node = eitp__node_create(graph, op, inputs, input_count, attributes);
    return node ? node->outputs[0] : NULL;
}

EITP__PRIVATE eitp_status eitp__node_output(eitp__node *node, eitp_dtype dtype, int rank, const int64_t *shape,
                                            int rows, eitp_error *error) {
    eitp_tensor *tensor =
        eitp__tensor_create(node->graph, eitp__op(node->graph, node->op)->name, dtype, rank, shape, rows);
    if (!tensor) {
        if (error)
            *error = node->graph->error;
        return node->graph->error.status;
    }
    tensor->node = node;
    node->outputs[node->output_count++] = tensor;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__node_output_like(eitp__node *node, const eitp_tensor *tensor, eitp_error *error) {
    return eitp__node_output(node, tensor->dtype, tensor->rank, tensor->shape, tensor->rows, error);
}
