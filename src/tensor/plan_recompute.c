/*
 * What a plan computes again instead of keeping it. As long as more memory is in use at some step than there is, the
 * value that is kept across that step and frees most bytes for the least time is made again before its next use
 * (Kirisame et al., "Dynamic Tensor Rematerialization", arXiv 2006.09616, before the run instead of during it). Kernels
 * are functions of their operands, so the bits are the same.
 */
#include "base/sort.h"
#include "tensor/plan.h"

#include <limits.h>

/* A value that is kept from one step to another, of which it is needed at none between. */
typedef struct eitp__gap {
    eitp_tensor *value;
    int before;          /* the step that needs it next */
    double worth, freed; /* bytes for a second; bytes */
} eitp__gap;

/* What a value's step is, where it is made again. */
typedef struct eitp__again {
    double seconds;
    double kept; /* bytes that must be kept at the crowded step for it */
    int steps;   /* that are run again */
} eitp__again;

/* By tensor id, of tensors that own memory in the arena. A copy adds an entry, which may move the others. */
typedef struct eitp__uses {
    int made, previous, next, last; /* steps; previous and next around the crowded one; -1: none */
    int ended;                      /* its memory was taken by the value that replaced it */
    int asked;                      /* it, or a view of it, is read after the run */
    int origin;                     /* id of the tensor that has the value first */
    int sibling;                    /* id of the next tensor that has it; -1: none */
    int refused;                    /* first output of the step before which making it again did not help; -1: none */
    int reads;
    double seconds; /* that making it takes; 0: not known yet */
} eitp__uses;

typedef struct eitp__recompute {
    eitp_plan *plan;
    const eitp_host *host;
    eitp_recompute mode;
    eitp__uses *uses;
    size_t use_capacity;
    int *changed; /* by variable: the first step that changes it */
    size_t variables;
    size_t *live; /* by step */
    size_t live_capacity;
    eitp__step *kept; /* the steps before the last attempt */
    size_t kept_count, kept_capacity;
    int crowded;
    size_t peak;
    size_t inserted; /* steps, in this round */
    eitp__gap *gaps;
    size_t gap_capacity;
    double patience; /* how much longer for a byte what is needed for a value may take than the value itself */
} eitp__recompute;

/* How long a chain of values is made again for one, and how many in all. */
enum { EITP__RECOMPUTE_DEPTH = 8, EITP__RECOMPUTE_STEPS = 24 };

/* How many are made again in one round, where they are worth nearly the same: layers are alike. */
enum { EITP__RECOMPUTE_ROUND = 64 };

/* The last of the powers of 8 that patience goes through where nothing else helps. */
#define EITP__RECOMPUTE_PATIENCE 512

/* ---- What is known of the steps ---- */

static eitp_tensor *eitp__arena_value(eitp_tensor *x) {
    eitp_tensor *owner = x ? eitp__owner(x, NULL) : NULL;
    return owner && owner->leaf != EITP__VARIABLE ? owner : NULL;
}

static double eitp__value_bytes(const eitp_tensor *x) {
    return (double)eitp__tensor_bytes(x);
}

/* The arithmetic of a step and the bytes it moves, whichever takes longer. */
EITP__PRIVATE double eitp__step_seconds(const eitp_plan *plan, const eitp__step *step) {
    const eitp__op_info *info = eitp__op(step->node->op);
    const eitp__backend *backend = plan->context->backend;
    double flops = info->flops ? info->flops(step->node) : 0, bytes = 0, rate, bandwidth, seconds;
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        eitp_tensor *x = eitp__step_read(step, i);
        bytes += x ? eitp__value_bytes(x) : 0;
    }
    for (int i = 0; i < step->output_count; i++)
        bytes += eitp__value_bytes(step->outputs[i]);
    backend->interface->nominal_speed(backend, eitp__node_dtype(step->node), &rate, &bandwidth);
    if (step->node->op != EITP__OP_MATMUL && step->node->op != EITP__OP_HEAD)
        rate /= 8;
    seconds = flops / rate > bytes / bandwidth ? flops / rate : bytes / bandwidth;
    return seconds + 2e-6;
}

static int eitp__is_product(const eitp__step *step) {
    return step->node->op == EITP__OP_MATMUL || step->node->op == EITP__OP_HEAD;
}

/*
 * How a value is made again: by its step; but what a product's activation made, from the product itself where that is
 * there too.
 */
static eitp__step eitp__recipe(const eitp__step *step, const eitp_tensor *value) {
    eitp__step recipe;
    eitp__node *activation = step->outputs[0]->node;
    if (!step->epilogue || step->output_count < 2 || step->outputs[0] != value)
        return *step;
    memset(&recipe, 0, sizeof recipe);
    recipe.node = activation;
    recipe.input_count = recipe.output_count = 1;
    recipe.inputs[0] = step->outputs[1];
    recipe.outputs[0] = step->outputs[0];
    return recipe;
}

static int eitp__changes_variable(const eitp__step *step) {
    for (int i = 0; i < step->output_count; i++) {
        if (step->replaces[i] && !eitp__arena_value(step->replaces[i]))
            return 1;
    }
    return 0;
}

/* What making a value takes, by its recipe. */
static double eitp__recipe_seconds(const eitp__recompute *r, const eitp__step *recipe, const eitp_tensor *value) {
    eitp__uses *uses = &r->uses[value->id];
    if (uses->seconds > 0)
        return uses->seconds;
    uses->seconds = eitp__step_seconds(r->plan, recipe);
    for (int i = 0; i < recipe->input_count; i++) {
        if (recipe->inputs[i] && eitp__is_streamed_tensor(r->plan, recipe->inputs[i]))
            uses->seconds += eitp__value_bytes(recipe->inputs[i]) / EITP__STREAM_READ_RATE;
    }
    return uses->seconds;
}

/* Makes room for what is known by tensor and by step. */
static int eitp__recompute_reserve(eitp__recompute *r) {
    size_t old = r->use_capacity, tensors = r->plan->graph->tensor_count;
    if (!eitp__reserve(r->host, (void **)&r->uses, &r->use_capacity, tensors, sizeof *r->uses) ||
        !eitp__reserve(r->host, (void **)&r->live, &r->live_capacity, r->plan->step_count + 2, sizeof *r->live) ||
        !eitp__reserve(r->host, (void **)&r->kept, &r->kept_capacity, r->plan->step_count, sizeof *r->kept))
        return 0;
    for (size_t t = old; t < r->use_capacity; t++) {
        memset(&r->uses[t], 0, sizeof r->uses[t]);
        r->uses[t].origin = (int)t;
        r->uses[t].sibling = r->uses[t].refused = -1;
    }
    return 1;
}

/* The bytes in use at each step, and the first step at which most are. */
static void eitp__find_crowded(eitp__recompute *r) {
    const eitp_plan *plan = r->plan;
    size_t live = 0;
    memset(r->live, 0, (plan->step_count + 2) * sizeof *r->live);
    for (size_t i = 0; i < plan->stretch_count; i++) {
        const eitp__stretch *stretch = &plan->stretches[i];
        size_t end = (size_t)stretch->last + 1;
        r->live[stretch->first < 0 ? 0 : stretch->first] += stretch->size;
        if (end <= plan->step_count)
            r->live[end] -= stretch->size; /* wraps around; the sum is right */
    }
    r->peak = 0;
    for (size_t s = 0; s < plan->step_count; s++) {
        live += r->live[s];
        r->live[s] = live;
        if (live > r->peak) {
            r->peak = live;
            r->crowded = (int)s;
        }
    }
}

/* Notes a step that reads a value. */
static void eitp__note_use(eitp__recompute *r, eitp_tensor *x, int step) {
    eitp_tensor *value = eitp__arena_value(x);
    eitp__uses *uses;
    if (!value)
        return;
    uses = &r->uses[value->id];
    uses->last = step;
    if (step <= r->crowded)
        uses->previous = step;
    else if (uses->next < 0)
        uses->next = step;
}

static void eitp__note_step(eitp__recompute *r, const eitp__step *step, int at) {
    for (int i = 0; i < eitp__step_read_count(step); i++)
        eitp__note_use(r, eitp__step_read(step, i), at);
    for (int i = 0; i < step->output_count; i++) {
        eitp_tensor *replaced = step->replaces[i], *value = replaced ? eitp__arena_value(replaced) : NULL;
        if (value)
            r->uses[value->id].ended = 1;
        else if (replaced && r->changed[eitp__owner(replaced, NULL)->variable] > at)
            r->changed[eitp__owner(replaced, NULL)->variable] = at;
        value = eitp__arena_value(step->outputs[i]);
        if (value == step->outputs[i]) {
            eitp__note_use(r, value, at);
            r->uses[value->id].made = at;
        }
    }
}

static void eitp__find_uses(eitp__recompute *r) {
    const eitp_plan *plan = r->plan;
    for (size_t t = 0; t < plan->graph->tensor_count; t++) {
        eitp__uses *uses = &r->uses[t];
        uses->made = uses->previous = uses->next = uses->last = -1;
        uses->ended = uses->asked = 0;
    }
    for (size_t t = 0; t < plan->graph->tensor_count; t++) {
        eitp_tensor *value = plan->graph->tensors[t]->is_output ? eitp__arena_value(plan->graph->tensors[t]) : NULL;
        if (value)
            r->uses[value->id].asked = 1;
    }
    for (size_t v = 0; v < r->variables; v++)
        r->changed[v] = INT_MAX;
    for (size_t s = 0; s < plan->step_count; s++)
        eitp__note_step(r, &plan->steps[s], (int)s);
}

/* Lifetimes, bytes and uses as the steps are now; 0: no memory. */
static int eitp__survey(eitp__recompute *r) {
    if (!eitp__recompute_reserve(r) || !eitp__plan_lifetimes(r->plan))
        return 0;
    eitp__find_crowded(r);
    eitp__find_uses(r);
    return 1;
}

/* ---- What making a value again takes ---- */

static int eitp__is_live_at(const eitp__recompute *r, const eitp_tensor *value, int step) {
    const eitp__uses *uses = &r->uses[value->id];
    return value->leaf == EITP__INPUT || (uses->made >= 0 && uses->made < step && uses->last >= step);
}

/* A tensor with the value that is there at a step; NULL: none. */
static eitp_tensor *eitp__live_instance(const eitp__recompute *r, eitp_tensor *value, int step) {
    if (eitp__is_live_at(r, value, step))
        return value;
    for (int t = r->uses[value->id].origin; t >= 0; t = r->uses[t].sibling) {
        eitp_tensor *other = r->plan->graph->tensors[t];
        if (eitp__is_live_at(r, other, step))
            return other;
    }
    return NULL;
}

/* Is the value made again at a step or after it? */
static int eitp__is_made_later(const eitp__recompute *r, const eitp_tensor *value, int step) {
    for (int t = r->uses[value->id].origin; t >= 0; t = r->uses[t].sibling) {
        if (r->uses[t].made >= step)
            return 1;
    }
    return 0;
}

static int eitp__can_make(const eitp__recompute *r, eitp_tensor *value, int before, int depth, double limit,
                          eitp__again *again);

/*
 * Whether a value that is not there before a step is made again for it, and not kept until then: where that is done
 * later anyway, where it cannot be kept, or where the time for a byte is not far above `price`. Adds what that takes.
 */
static int eitp__is_made_for(const eitp__recompute *r, eitp_tensor *value, int before, int depth, double price,
                             eitp__again *again) {
    const eitp__uses *uses = &r->uses[value->id];
    int later = eitp__is_made_later(r, value, before), must = later || uses->ended;
    eitp__again more = *again;
    double limit = again->seconds + r->patience * price * eitp__value_bytes(value);
    if (!must && uses->last >= r->crowded)
        return 0;
    if (!eitp__can_make(r, value, before, depth + 1, must ? HUGE_VAL : limit, &more))
        return 0;
    if (later)
        more.seconds = again->seconds;
    *again = more;
    return 1;
}

/* Whether an operand can be there before a step, with what that takes. */
static int eitp__can_have(const eitp__recompute *r, eitp_tensor *x, int before, int depth, double price,
                          eitp__again *again) {
    eitp_tensor *owner = eitp__owner(x, NULL);
    const eitp__uses *uses;
    if (owner->leaf == EITP__VARIABLE)
        return r->changed[owner->variable] >= before;
    if (eitp__live_instance(r, owner, before) || eitp__is_made_for(r, owner, before, depth, price, again))
        return 1;
    uses = &r->uses[owner->id];
    if (uses->ended || uses->made < 0)
        return 0;
    again->kept += uses->last < r->crowded ? eitp__value_bytes(owner) : 0;
    return 1;
}

/* Whether a value can be made again before a step within a time, with what is needed for it. */
static int eitp__can_make(const eitp__recompute *r, eitp_tensor *value, int before, int depth, double limit,
                          eitp__again *again) {
    const eitp__uses *uses = &r->uses[value->id];
    const eitp__step *step;
    eitp__step recipe;
    double seconds;
    if (uses->made < 0 || depth > EITP__RECOMPUTE_DEPTH || again->steps >= EITP__RECOMPUTE_STEPS)
        return 0;
    step = &r->plan->steps[uses->made];
    if (eitp__changes_variable(step))
        return 0;
    recipe = eitp__recipe(step, value);
    if (r->mode == EITP_RECOMPUTE_ATTENTION && eitp__is_product(&recipe))
        return 0;
    seconds = eitp__recipe_seconds(r, &recipe, value);
    again->seconds += seconds;
    again->steps++;
    for (int i = 0; i < eitp__step_read_count(&recipe) && again->seconds <= limit; i++) {
        eitp_tensor *x = eitp__step_read(&recipe, i);
        if (x && !eitp__can_have(r, x, before, depth, seconds / eitp__value_bytes(value), again))
            return 0;
    }
    return again->seconds <= limit;
}

/* Finds out what making a value again before its next use is worth; 0: it cannot be, or does not help. */
static int eitp__weigh_gap(const eitp__recompute *r, eitp__gap *gap) {
    eitp__again again = EITP__ZERO;
    if (!eitp__can_make(r, gap->value, gap->before, 0, HUGE_VAL, &again))
        return 0;
    gap->freed = eitp__value_bytes(gap->value) - again.kept;
    gap->worth = gap->freed / again.seconds;
    return gap->freed > 0;
}

static int eitp__compare_worth(const void *left, const void *right) {
    const eitp__gap *a = (const eitp__gap *)left, *b = (const eitp__gap *)right;
    if (a->worth != b->worth)
        return a->worth > b->worth ? -1 : 1;
    return a->value->id < b->value->id ? -1 : a->value->id > b->value->id;
}

/* The last step first, so that inserting before one leaves the others' numbers as they are. */
static int eitp__compare_steps(const void *left, const void *right) {
    const eitp__gap *a = (const eitp__gap *)left, *b = (const eitp__gap *)right;
    if (a->before != b->before)
        return a->before > b->before ? -1 : 1;
    return a->value->id < b->value->id ? -1 : a->value->id > b->value->id;
}

/* All gaps across the crowded step, those that are worth most first; -1: no memory. */
static int eitp__find_gaps(eitp__recompute *r) {
    const eitp_graph *graph = r->plan->graph;
    size_t count = 0;
    for (size_t t = 0; t < graph->tensor_count; t++) {
        const eitp__uses *uses = &r->uses[t];
        eitp__gap gap = EITP__ZERO;
        if (uses->made < 0 || uses->asked || uses->previous < 0 || uses->previous >= r->crowded || uses->next < 0 ||
            uses->refused == r->plan->steps[uses->next].outputs[0]->id)
            continue;
        gap.value = graph->tensors[t];
        gap.before = uses->next;
        if (!eitp__weigh_gap(r, &gap))
            continue;
        if (!eitp__reserve(r->host, (void **)&r->gaps, &r->gap_capacity, count + 1, sizeof *r->gaps))
            return -1;
        r->gaps[count++] = gap;
    }
    eitp__sort(r->gaps, count, sizeof *r->gaps, eitp__compare_worth);
    return (int)count;
}

/* How many of these gaps to close in one round: no more than there is need for, and only what is worth the same. */
static int eitp__gaps_in_round(const eitp__recompute *r, int count, size_t target) {
    double needed = (double)(r->peak - target), freed = 0;
    int taken = 0;
    while (taken < count && taken < EITP__RECOMPUTE_ROUND && freed < needed &&
           r->gaps[taken].worth >= 0.9 * r->gaps[0].worth)
        freed += r->gaps[taken++].freed;
    return taken;
}

/* ---- Changing the steps ---- */

/* Puts a step before another; 0: no memory. */
static int eitp__insert_step(eitp_plan *plan, const eitp__step *step, int before) {
    eitp__step copy = *step;
    if (!eitp__reserve(&plan->context->host, (void **)&plan->steps, &plan->step_capacity, plan->step_count + 1,
                       sizeof *plan->steps))
        return 0;
    memmove(plan->steps + before + 1, plan->steps + before, (plan->step_count - (size_t)before) * sizeof *plan->steps);
    plan->steps[before] = copy;
    plan->step_count++;
    return 1;
}

/* Copies a tensor as eitp__tensor_copy does, and grows `uses` with the graph; NULL: no memory. */
static eitp_tensor *eitp__add_copy(eitp__recompute *r, const eitp_tensor *tensor, eitp_tensor *storage, int64_t first) {
    eitp_tensor *copy = eitp__tensor_copy(tensor, storage, first);
    return copy && eitp__recompute_reserve(r) ? copy : NULL;
}

/* Replaces an operand that is `from`, or a view of it, by `to` or the same view of that; 0: no memory. */
static int eitp__redirect(eitp__recompute *r, eitp_tensor **operand, const eitp_tensor *from, eitp_tensor *to) {
    int64_t first;
    if (!*operand || eitp__owner(*operand, &first) != from)
        return 1;
    *operand = eitp__lowered(*operand) == from ? to : eitp__add_copy(r, eitp__lowered(*operand), to, first);
    return *operand != NULL;
}

/* Steps [first, end) read `to` instead of `from`. */
static int eitp__redirect_steps(eitp__recompute *r, size_t first, size_t end, const eitp_tensor *from,
                                eitp_tensor *to) {
    int done = 1;
    for (size_t s = first; s < end; s++) {
        eitp__step *step = &r->plan->steps[s];
        for (int i = 0; i < step->input_count; i++)
            done &= eitp__redirect(r, &step->inputs[i], from, to);
        for (int i = 0; i < step->output_count; i++)
            done &= eitp__redirect(r, &step->replaces[i], from, to);
        done &= eitp__redirect(r, &step->carry, from, to);
    }
    return done;
}

static int eitp__make_again(eitp__recompute *r, eitp_tensor *value, int before, int depth, int *inserted);

/* The tensor with the value that one of the steps just inserted makes; NULL: none. */
static eitp_tensor *eitp__made_instance(const eitp__recompute *r, const eitp_tensor *value, int before, int inserted) {
    int origin = r->uses[value->id].origin;
    for (int s = before; s < before + inserted; s++) {
        const eitp__step *step = &r->plan->steps[s];
        for (int o = 0; o < step->output_count; o++) {
            if (r->uses[step->outputs[o]->id].origin == origin)
                return step->outputs[o];
        }
    }
    return NULL;
}

/* Lets a recipe read, instead of one of its operands, another tensor with the same value. */
static int eitp__redirect_recipe(eitp__recompute *r, eitp__step *recipe, const eitp_tensor *from, eitp_tensor *to) {
    int done = 1;
    for (int i = 0; i < recipe->input_count; i++)
        done &= eitp__redirect(r, &recipe->inputs[i], from, to);
    for (int i = 0; i < recipe->output_count; i++)
        done &= eitp__redirect(r, &recipe->replaces[i], from, to);
    return done;
}

/* Sees to it that the operands of a recipe are there before a step, as eitp__can_have decided. */
static int eitp__have_operands(eitp__recompute *r, eitp__step *recipe, double price, int before, int depth,
                               int *inserted) {
    for (int i = 0; i < eitp__step_read_count(recipe); i++) {
        eitp_tensor *x = eitp__step_read(recipe, i), *owner = x ? eitp__arena_value(x) : NULL, *instance;
        eitp__again again = EITP__ZERO;
        if (!owner)
            continue;
        instance = eitp__made_instance(r, owner, before, *inserted);
        if (!instance)
            instance = eitp__live_instance(r, owner, before);
        if (!instance && eitp__is_made_for(r, owner, before, depth, price, &again)) {
            if (!eitp__make_again(r, owner, before, depth + 1, inserted))
                return 0;
            instance = eitp__made_instance(r, owner, before, *inserted);
        }
        if (!instance && r->uses[owner->id].last < before)
            r->uses[owner->id].last = before; /* kept until here */
        if (instance && instance != owner && !eitp__redirect_recipe(r, recipe, owner, instance))
            return 0;
    }
    return 1;
}

/*
 * Steps from `at` on, where step `before` was, read `to` instead of any other tensor that has its value. Their last
 * uses are known but for the steps that were inserted since.
 */
static int eitp__redirect_instances(eitp__recompute *r, eitp_tensor *to, int before, size_t at) {
    size_t steps = r->plan->step_count;
    int done = 1;
    for (int t = r->uses[to->id].origin; t >= 0; t = r->uses[t].sibling) {
        size_t end = (size_t)r->uses[t].last + r->inserted + 1;
        if (t == to->id || r->uses[t].last < before)
            continue;
        done &= eitp__redirect_steps(r, at, end < steps ? end : steps, r->plan->graph->tensors[t], to);
        r->uses[t].last = r->uses[t].next >= before ? r->uses[t].previous : before - 1;
    }
    return done;
}

/* Gives the recipe outputs of its own, which stand for the old ones from step `at` on. */
static int eitp__replace_outputs(eitp__recompute *r, eitp__step *recipe, int before, size_t at) {
    for (int i = 0; i < recipe->output_count; i++) {
        eitp_tensor *from = recipe->outputs[i], *to = eitp__add_copy(r, from, NULL, 0);
        eitp__uses *origin;
        if (!to)
            return 0;
        origin = &r->uses[r->uses[from->id].origin];
        r->uses[to->id].origin = r->uses[from->id].origin;
        r->uses[to->id].made = (int)at; /* which is right for the steps before it, where the others of a round are */
        r->uses[to->id].last = INT_MAX;
        r->uses[to->id].sibling = origin->sibling;
        origin->sibling = to->id;
        recipe->outputs[i] = to;
        if (!eitp__redirect_instances(r, to, before, at))
            return 0;
    }
    return 1;
}

/*
 * Inserts a step that makes the value again before step `before` + *inserted, after those for its operands. Everything
 * from there on reads what it makes.
 */
static int eitp__make_again(eitp__recompute *r, eitp_tensor *value, int before, int depth, int *inserted) {
    eitp_plan *plan = r->plan;
    int made = r->uses[value->id].made;
    eitp__step recipe = eitp__recipe(&plan->steps[made], value);
    double price = eitp__recipe_seconds(r, &recipe, value) / eitp__value_bytes(value);
    if (!eitp__have_operands(r, &recipe, price, before, depth, inserted) ||
        !eitp__replace_outputs(r, &recipe, before, (size_t)(before + *inserted)) ||
        !eitp__insert_step(plan, &recipe, before + *inserted))
        return 0;
    (*inserted)++;
    r->inserted++;
    return 1;
}

static void eitp__count_reads(eitp__recompute *r) {
    const eitp_plan *plan = r->plan;
    for (size_t t = 0; t < plan->graph->tensor_count; t++)
        r->uses[t].reads = 0;
    for (size_t s = 0; s < plan->step_count; s++) {
        for (int i = 0; i < eitp__step_read_count(&plan->steps[s]); i++) {
            eitp_tensor *x = eitp__step_read(&plan->steps[s], i), *value = x ? eitp__arena_value(x) : NULL;
            if (value)
                r->uses[value->id].reads++;
        }
    }
}

/* Is the step one that makes a value again, for nobody? */
static int eitp__is_idle(const eitp__recompute *r, const eitp__step *step) {
    for (int o = 0; o < step->output_count; o++) {
        const eitp_tensor *y = step->outputs[o];
        if (y->storage != y || r->uses[y->id].origin == y->id || r->uses[y->id].reads)
            return 0;
    }
    return 1;
}

/* Leaves out steps whose values were made again for an earlier use too. */
static void eitp__drop_idle(eitp__recompute *r) {
    eitp_plan *plan = r->plan;
    size_t left;
    do {
        left = 0;
        eitp__count_reads(r);
        for (size_t s = 0; s < plan->step_count; s++) {
            if (!eitp__is_idle(r, &plan->steps[s]))
                plan->steps[left++] = plan->steps[s];
        }
    } while (left < plan->step_count && (plan->step_count = left));
}

/* Makes the values of some gaps again; 0: no memory. */
static int eitp__close_gaps(eitp__recompute *r, int count) {
    memcpy(r->kept, r->plan->steps, r->plan->step_count * sizeof *r->kept);
    r->kept_count = r->plan->step_count;
    r->inserted = 0;
    eitp__sort(r->gaps, (size_t)count, sizeof *r->gaps, eitp__compare_steps);
    for (int i = 0; i < count; i++) {
        int inserted = 0;
        if (!eitp__make_again(r, r->gaps[i].value, r->gaps[i].before, 0, &inserted))
            return 0;
    }
    eitp__drop_idle(r);
    return eitp__survey(r);
}

/* Takes the steps as they were before. */
static int eitp__restore_steps(eitp__recompute *r) {
    memcpy(r->plan->steps, r->kept, r->kept_count * sizeof *r->kept);
    r->plan->step_count = r->kept_count;
    return eitp__survey(r);
}

/* Is less in use than before where most was, and no more than that elsewhere? */
static int eitp__is_relieved(const eitp__recompute *r, size_t peak, int crowded, size_t crowd, double expected) {
    double freed = (double)crowd - (double)r->live[crowded];
    return r->peak <= peak && freed > 0 && freed >= 0.9 * expected;
}

/*
 * Makes what is worth most again; fewer values at a time where together they do not free what each would. 1: done; 0:
 * there is nothing; -1: no memory.
 */
static int eitp__recompute_round(eitp__recompute *r, size_t target) {
    int count = eitp__find_gaps(r), taken = count > 0 ? eitp__gaps_in_round(r, count, target) : 0;
    while (taken > 0) {
        size_t peak = r->peak, crowd = r->live[r->crowded];
        int crowded = r->crowded, use;
        eitp__gap best = r->gaps[0];
        double expected = 0;
        for (int i = 0; i < taken && taken > 1; i++)
            expected += r->gaps[i].freed;
        use = r->plan->steps[best.before].outputs[0]->id;
        if (!eitp__close_gaps(r, taken))
            return -1;
        if (eitp__is_relieved(r, peak, crowded, crowd, expected))
            return 1;
        if (!eitp__restore_steps(r))
            return -1;
        if (taken == 1)
            r->uses[best.value->id].refused = use;
        count = eitp__find_gaps(r);
        taken = taken > 1 && count > taken / 2 ? taken / 2 : count > 0;
    }
    return count < 0 ? -1 : 0;
}

static void eitp__forget_refused(eitp__recompute *r) {
    for (size_t t = 0; t < r->plan->graph->tensor_count; t++)
        r->uses[t].refused = -1;
}

EITP__PRIVATE eitp_status eitp__plan_recompute(eitp_plan *plan, size_t target, eitp_recompute mode, eitp_error *error) {
    eitp__recompute r = EITP__ZERO;
    size_t most = 8 * plan->step_count + 64;
    int going;
    r.plan = plan;
    r.host = &plan->context->host;
    r.mode = mode;
    r.variables = plan->context->variable_count;
    r.changed = (int *)eitp__allocate(r.host, r.variables * sizeof *r.changed);
    going = (!r.variables || r.changed) && eitp__survey(&r) ? 1 : -1;
    r.patience = 1;
    while (going > 0 && r.peak > target && most--) {
        going = eitp__recompute_round(&r, target);
        if (!going && mode == EITP_RECOMPUTE_AUTO && r.patience < EITP__RECOMPUTE_PATIENCE) {
            r.patience *= 8;
            eitp__forget_refused(&r);
            going = 1;
        }
    }
    eitp__release(r.host, r.changed, r.variables * sizeof *r.changed);
    eitp__release(r.host, r.uses, r.use_capacity * sizeof *r.uses);
    eitp__release(r.host, r.live, r.live_capacity * sizeof *r.live);
    eitp__release(r.host, r.kept, r.kept_capacity * sizeof *r.kept);
    eitp__release(r.host, r.gaps, r.gap_capacity * sizeof *r.gaps);
    return going < 0 ? eitp__fail_memory(error, plan->step_count * sizeof *plan->steps, "what a plan computes again")
                     : EITP_OK;
}
