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

/* The last use of a value before an attempt changed it. */
typedef struct eitp__former_use {
    int value, last;
} eitp__former_use;

/* Steps that are inserted before one: `added` from `first` on, up to those of the next addition. */
typedef struct eitp__addition {
    int before;
    size_t first;
} eitp__addition;

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
    eitp__step *kept; /* the steps before the last attempt, */
    size_t kept_count, kept_capacity;
    int *kept_owners; /* their owners, */
    size_t kept_owner_count, kept_owner_capacity;
    size_t kept_tensors;         /* how many tensors there were, */
    eitp__former_use *kept_uses; /* and the last uses that were changed since */
    size_t kept_use_count, kept_use_capacity;
    size_t kept_peak;
    int kept_crowded;
    int crowded;
    size_t peak;
    eitp__gap *gaps, *closing; /* of a round; and those that are closed in an attempt */
    size_t gap_capacity, closing_capacity;
    eitp__step *added; /* in this round, to be inserted at its end */
    size_t added_count, added_capacity;
    eitp__addition *additions; /* the gaps they are of, the last `before` first */
    size_t addition_count, addition_capacity;
    double patience; /* how much longer for a byte what is needed for a value may take than the value itself */
} eitp__recompute;

/* How long a chain of values is made again for one, and how many in all. */
enum { EITP__RECOMPUTE_DEPTH = 8, EITP__RECOMPUTE_STEPS = 24 };

/*
 * Values of nearly equal benefit that one round recomputes: layers are alike. In a large graph it is a fraction of the
 * steps, so that twice as many layers take no more rounds.
 */
enum { EITP__RECOMPUTE_ROUND = 64, EITP__RECOMPUTE_ROUND_STEPS = 24 };

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
    const eitp__op_info *info = eitp__op(step->node->graph, step->node->op);
    const eitp__backend *backend = plan->context->backend;
    double flops = info->flops ? info->flops(step->node) : 0, bytes = 0, rate, bandwidth, seconds;
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        eitp_tensor *x = eitp__step_read(step, i);
        bytes += x ? eitp__value_bytes(x) : 0;
    }
    for (int i = 0; i < step->output_count; i++)
        bytes += eitp__value_bytes(step->outputs[i]);
    /* What is padded is added where it belongs, and the rest is left alone. */
    if (step->node->op == EITP__OP_PAD && step->accumulates && !step->carry)
        bytes = 3 * eitp__value_bytes(step->inputs[0]);
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
        if (recipe->inputs[i] && eitp__is_offloaded_tensor(r->plan, recipe->inputs[i]))
            uses->seconds += eitp__value_bytes(recipe->inputs[i]) / EITP__OFFLOAD_READ_RATE;
    }
    return uses->seconds;
}

static void eitp__reset_uses(eitp__uses *uses, int id) {
    memset(uses, 0, sizeof *uses);
    uses->origin = id;
    uses->sibling = uses->refused = -1;
}

/* Makes room for what is known by tensor and by step. */
static int eitp__recompute_reserve(eitp__recompute *r) {
    size_t old = r->use_capacity, tensors = r->plan->graph->tensor_count;
    if (!eitp__reserve(r->host, (void **)&r->uses, &r->use_capacity, tensors, sizeof *r->uses) ||
        !eitp__reserve(r->host, (void **)&r->live, &r->live_capacity, r->plan->step_count + 2, sizeof *r->live) ||
        !eitp__reserve(r->host, (void **)&r->kept, &r->kept_capacity, r->plan->step_count, sizeof *r->kept) ||
        !eitp__reserve(r->host, (void **)&r->kept_owners, &r->kept_owner_capacity, r->plan->owner_count,
                       sizeof *r->kept_owners))
        return 0;
    for (size_t t = old; t < r->use_capacity; t++)
        eitp__reset_uses(&r->uses[t], (int)t);
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
    r->plan->visits.recompute += plan->step_count;
    for (size_t s = 0; s < plan->step_count; s++) {
        live += r->live[s];
        r->live[s] = live;
        if (live > r->peak) {
            r->peak = live;
            r->crowded = (int)s;
        }
    }
}

/* Notes a step that reads a value, or makes it. */
static void eitp__note_use(eitp__uses *uses, int crowded, int step) {
    uses->last = step;
    if (step <= crowded)
        uses->previous = step;
    else if (uses->next < 0)
        uses->next = step;
}

static void eitp__note_step(eitp__recompute *r, const eitp__step *step, int at) {
    const int *reads = eitp__read_owners(r->plan, step), *outputs = eitp__output_owners(r->plan, step);
    const int *replaced = eitp__replaced_owners(r->plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        if (reads[i] >= 0)
            eitp__note_use(&r->uses[reads[i]], r->crowded, at);
    }
    for (int i = 0; i < step->output_count; i++) {
        if (replaced[i] >= 0)
            r->uses[replaced[i]].ended = 1;
        else if (replaced[i] != EITP__NO_OWNER && r->changed[-2 - replaced[i]] > at)
            r->changed[-2 - replaced[i]] = at;
        if (outputs[i] >= 0) {
            eitp__note_use(&r->uses[outputs[i]], r->crowded, at);
            r->uses[outputs[i]].made = at;
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
    for (size_t i = 0; i < plan->output_count; i++) {
        eitp_tensor *value = eitp__arena_value(plan->graph->tensors[plan->outputs[i]]);
        if (value)
            r->uses[value->id].asked = 1;
    }
    for (size_t v = 0; v < r->variables; v++)
        r->changed[v] = INT_MAX;
    r->plan->visits.recompute += plan->step_count;
    for (size_t s = 0; s < plan->step_count; s++)
        eitp__note_step(r, &plan->steps[s], (int)s);
}

/* Lifetimes and bytes as the steps are now; 0: no memory. */
static int eitp__measure(eitp__recompute *r) {
    if (!eitp__recompute_reserve(r) || !eitp__plan_lifetimes(r->plan))
        return 0;
    eitp__find_crowded(r);
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
    int taken = 0, most = (int)r->plan->step_count / EITP__RECOMPUTE_ROUND_STEPS;
    most = most > EITP__RECOMPUTE_ROUND ? most : EITP__RECOMPUTE_ROUND;
    while (taken < count && taken < most && freed < needed && r->gaps[taken].worth >= 0.9 * r->gaps[0].worth)
        freed += r->gaps[taken++].freed;
    return taken;
}

/* ---- Changing the steps ---- */

/* Begins the steps that go before one; 0: no memory. */
static int eitp__begin_addition(eitp__recompute *r, int before) {
    eitp__addition *addition;
    if (!eitp__reserve(r->host, (void **)&r->additions, &r->addition_capacity, r->addition_count + 1,
                       sizeof *r->additions))
        return 0;
    addition = &r->additions[r->addition_count++];
    addition->before = before;
    addition->first = r->added_count;
    return 1;
}

/* The first step of the addition that was begun last. */
static size_t eitp__addition_first(const eitp__recompute *r) {
    return r->additions[r->addition_count - 1].first;
}

/* Adds a step to the addition that was begun last; 0: no memory. */
static int eitp__add_step(eitp__recompute *r, const eitp__step *step) {
    if (!eitp__reserve(r->host, (void **)&r->added, &r->added_capacity, r->added_count + 1, sizeof *r->added))
        return 0;
    r->added[r->added_count++] = *step;
    return 1;
}

/* Moves all additions to their places; of two before the same step the later goes first. 0: no memory. */
static int eitp__insert_additions(eitp__recompute *r) {
    eitp_plan *plan = r->plan;
    size_t from = plan->step_count, to = from + r->added_count, end = 0, count;
    if (!eitp__reserve(r->host, (void **)&plan->steps, &plan->step_capacity, to, sizeof *plan->steps))
        return 0;
    plan->step_count = to;
    for (size_t a = 0; a < r->addition_count; a++) {
        const eitp__addition *addition = &r->additions[a];
        count = from - (size_t)addition->before;
        to -= count;
        from -= count;
        memmove(plan->steps + to, plan->steps + from, count * sizeof *plan->steps);
        end = a + 1 < r->addition_count ? r->additions[a + 1].first : r->added_count;
        count = end - addition->first;
        to -= count;
        memcpy(plan->steps + to, r->added + addition->first, count * sizeof *plan->steps);
    }
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

/* Does the step read or replace a tensor? */
static int eitp__has_operand(const eitp_plan *plan, const eitp__step *step, int owner) {
    const int *reads = eitp__read_owners(plan, step), *replaced = eitp__replaced_owners(plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        if (reads[i] == owner)
            return 1;
    }
    for (int i = 0; i < step->output_count; i++) {
        if (replaced[i] == owner)
            return 1;
    }
    return 0;
}

/* Lets a step read `to` instead of `from`; 0: no memory. */
static int eitp__redirect_step(eitp__recompute *r, eitp__step *step, const eitp_tensor *from, eitp_tensor *to) {
    int done = 1;
    for (int i = 0; i < step->input_count; i++)
        done &= eitp__redirect(r, &step->inputs[i], from, to);
    for (int i = 0; i < step->output_count; i++)
        done &= eitp__redirect(r, &step->replaces[i], from, to);
    return done & eitp__redirect(r, &step->carry, from, to);
}

/* Lets `count` steps read `to` instead of `from`; 0: no memory. */
static int eitp__redirect_steps(eitp__recompute *r, eitp__step *steps, size_t count, const eitp_tensor *from,
                                eitp_tensor *to) {
    r->plan->visits.recompute += count;
    for (size_t s = 0; s < count; s++) {
        if (!eitp__has_operand(r->plan, &steps[s], from->id))
            continue;
        if (!eitp__redirect_step(r, &steps[s], from, to))
            return 0;
        eitp__update_owners(r->plan, &steps[s]);
    }
    return 1;
}

/* Changes the last use of a value; 0: no memory. */
static int eitp__set_last(eitp__recompute *r, int value, int last) {
    eitp__former_use *former;
    if (!eitp__reserve(r->host, (void **)&r->kept_uses, &r->kept_use_capacity, r->kept_use_count + 1,
                       sizeof *r->kept_uses))
        return 0;
    former = &r->kept_uses[r->kept_use_count++];
    former->value = value;
    former->last = r->uses[value].last;
    r->uses[value].last = last;
    return 1;
}

static int eitp__make_again(eitp__recompute *r, eitp_tensor *value, int before, int depth);

/* The tensor with the value that a step of the addition that was begun last makes; NULL: none. */
static eitp_tensor *eitp__made_instance(const eitp__recompute *r, const eitp_tensor *value) {
    int origin = r->uses[value->id].origin;
    for (size_t s = eitp__addition_first(r); s < r->added_count; s++) {
        const eitp__step *step = &r->added[s];
        for (int o = 0; o < step->output_count; o++) {
            if (r->uses[step->outputs[o]->id].origin == origin)
                return step->outputs[o];
        }
    }
    return NULL;
}

/* Sees to it that the operands of a recipe are there before a step, as eitp__can_have decided. */
static int eitp__have_operands(eitp__recompute *r, eitp__step *recipe, double price, int before, int depth) {
    for (int i = 0; i < eitp__step_read_count(recipe); i++) {
        eitp_tensor *x = eitp__step_read(recipe, i), *owner = x ? eitp__arena_value(x) : NULL, *instance;
        eitp__again again = EITP__ZERO;
        if (!owner)
            continue;
        instance = eitp__made_instance(r, owner);
        if (!instance)
            instance = eitp__live_instance(r, owner, before);
        if (!instance && eitp__is_made_for(r, owner, before, depth, price, &again)) {
            if (!eitp__make_again(r, owner, before, depth + 1))
                return 0;
            instance = eitp__made_instance(r, owner);
        }
        if (!instance && r->uses[owner->id].last < before && !eitp__set_last(r, owner->id, before))
            return 0; /* else it is kept until here */
        if (instance && instance != owner && !eitp__redirect_step(r, recipe, owner, instance))
            return 0;
    }
    return 1;
}

/*
 * Steps from `before` on, and those that were added before them in this round, read `to` instead of any other tensor
 * that has its value.
 */
static int eitp__redirect_instances(eitp__recompute *r, eitp_tensor *to, int before) {
    int done = 1, steps = (int)r->plan->step_count;
    for (int t = r->uses[to->id].origin; t >= 0; t = r->uses[t].sibling) {
        int last = r->uses[t].last;
        const eitp_tensor *from = r->plan->graph->tensors[t];
        if (t == to->id || last < before)
            continue;
        last = last < steps ? last : steps - 1;
        done &= eitp__redirect_steps(r, r->plan->steps + before, (size_t)(last - before + 1), from, to);
        done &= eitp__redirect_steps(r, r->added, eitp__addition_first(r), from, to);
        done &= eitp__set_last(r, t, r->uses[t].next >= before ? r->uses[t].previous : before - 1);
    }
    return done;
}

/* Gives the recipe outputs of its own, which stand for the old ones from step `before` on. */
static int eitp__replace_outputs(eitp__recompute *r, eitp__step *recipe, int before) {
    for (int i = 0; i < recipe->output_count; i++) {
        eitp_tensor *from = recipe->outputs[i], *to = eitp__add_copy(r, from, NULL, 0);
        eitp__uses *origin;
        if (!to)
            return 0;
        origin = &r->uses[r->uses[from->id].origin];
        r->uses[to->id].origin = r->uses[from->id].origin;
        r->uses[to->id].made = before; /* so it is not there for the steps before, where the others of a round are */
        r->uses[to->id].last = INT_MAX;
        r->uses[to->id].sibling = origin->sibling;
        origin->sibling = to->id;
        recipe->outputs[i] = to;
        if (!eitp__redirect_instances(r, to, before))
            return 0;
    }
    return 1;
}

/*
 * Adds a step that makes the value again before step `before`, after those for its operands. Everything from there on
 * reads what it makes.
 */
static int eitp__make_again(eitp__recompute *r, eitp_tensor *value, int before, int depth) {
    eitp__step recipe = eitp__recipe(&r->plan->steps[r->uses[value->id].made], value);
    double price = eitp__recipe_seconds(r, &recipe, value) / eitp__value_bytes(value);
    return eitp__have_operands(r, &recipe, price, before, depth) && eitp__replace_outputs(r, &recipe, before) &&
           eitp__list_owners(r->plan, &recipe) && eitp__add_step(r, &recipe);
}

/* Counts what a step reads, or with `change` -1 no longer counts it. */
static void eitp__add_reads(eitp__recompute *r, const eitp__step *step, int change) {
    const int *reads = eitp__read_owners(r->plan, step);
    for (int i = 0; i < eitp__step_read_count(step); i++) {
        if (reads[i] >= 0)
            r->uses[reads[i]].reads += change;
    }
}

static void eitp__count_reads(eitp__recompute *r) {
    for (size_t t = 0; t < r->plan->graph->tensor_count; t++)
        r->uses[t].reads = 0;
    r->plan->visits.recompute += r->plan->step_count;
    for (size_t s = 0; s < r->plan->step_count; s++)
        eitp__add_reads(r, &r->plan->steps[s], 1);
}

/* Is the step one that makes a value again, for nobody? */
static int eitp__is_idle(const eitp__recompute *r, const eitp__step *step) {
    const int *outputs = eitp__output_owners(r->plan, step);
    for (int i = 0; i < step->output_count; i++) {
        if (outputs[i] < 0 || r->uses[outputs[i]].origin == outputs[i] || r->uses[outputs[i]].reads)
            return 0;
    }
    return 1;
}

/* Drops steps whose values are also recomputed for an earlier use, then the steps that only those read. */
static void eitp__drop_idle(eitp__recompute *r) {
    eitp_plan *plan = r->plan;
    size_t end = plan->step_count, begin = end;
    eitp__count_reads(r);
    for (size_t s = end; s-- > 0;) {
        if (eitp__is_idle(r, &plan->steps[s]))
            eitp__add_reads(r, &plan->steps[s], -1);
        else if (--begin != s)
            plan->steps[begin] = plan->steps[s];
    }
    plan->step_count = end - begin;
    if (begin)
        memmove(plan->steps, plan->steps + begin, plan->step_count * sizeof *plan->steps);
}

/* Keeps the steps as they are, for eitp__restore_steps. */
static void eitp__keep_steps(eitp__recompute *r) {
    const eitp_plan *plan = r->plan;
    memcpy(r->kept, plan->steps, plan->step_count * sizeof *r->kept);
    memcpy(r->kept_owners, plan->owners, plan->owner_count * sizeof *r->kept_owners);
    r->kept_count = plan->step_count;
    r->kept_owner_count = plan->owner_count;
    r->kept_tensors = plan->graph->tensor_count;
    r->kept_use_count = 0;
    r->kept_peak = r->peak;
    r->kept_crowded = r->crowded;
}

/* Makes the values of some gaps again, and measures what is in use then; 0: no memory. */
static int eitp__close_gaps(eitp__recompute *r, const eitp__gap *gaps, size_t count) {
    if (!eitp__reserve(r->host, (void **)&r->closing, &r->closing_capacity, count, sizeof *r->closing))
        return 0;
    eitp__keep_steps(r);
    memcpy(r->closing, gaps, count * sizeof *gaps);
    eitp__sort(r->closing, count, sizeof *r->closing, eitp__compare_steps);
    r->added_count = r->addition_count = 0;
    for (size_t i = 0; i < count; i++) {
        const eitp__gap *gap = &r->closing[i];
        if (!eitp__begin_addition(r, gap->before) || !eitp__make_again(r, gap->value, gap->before, 0))
            return 0;
    }
    if (!eitp__insert_additions(r))
        return 0;
    eitp__drop_idle(r);
    return eitp__measure(r);
}

/* Takes the steps as they were before, with what was known of them, and the tensors away that were made since. */
static void eitp__restore_steps(eitp__recompute *r) {
    eitp_plan *plan = r->plan;
    memcpy(plan->steps, r->kept, r->kept_count * sizeof *r->kept);
    memcpy(plan->owners, r->kept_owners, r->kept_owner_count * sizeof *r->kept_owners);
    plan->step_count = r->kept_count;
    plan->owner_count = r->kept_owner_count;
    for (size_t t = plan->graph->tensor_count; t-- > r->kept_tensors;) {
        /* Each was put right behind its origin, and the last is taken away first. */
        if (r->uses[t].origin != (int)t)
            r->uses[r->uses[t].origin].sibling = r->uses[t].sibling;
        eitp__reset_uses(&r->uses[t], (int)t);
    }
    plan->graph->tensor_count = r->kept_tensors;
    while (r->kept_use_count--) {
        const eitp__former_use *former = &r->kept_uses[r->kept_use_count];
        if ((size_t)former->value < r->kept_tensors)
            r->uses[former->value].last = former->last;
    }
    r->peak = r->kept_peak;
    r->crowded = r->kept_crowded;
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
    int count = eitp__find_gaps(r), first = 0, taken = count > 0 ? eitp__gaps_in_round(r, count, target) : 0;
    size_t peak = r->peak, crowd = r->live[r->crowded];
    while (taken > 0) {
        const eitp__gap *best = &r->gaps[first];
        int crowded = r->crowded, use = r->plan->steps[best->before].outputs[0]->id;
        double expected = 0;
        for (int i = 0; i < taken && taken > 1; i++)
            expected += best[i].freed;
        if (!eitp__close_gaps(r, best, (size_t)taken))
            return -1;
        if (eitp__is_relieved(r, peak, crowded, crowd, expected)) {
            eitp__find_uses(r);
            return 1;
        }
        eitp__restore_steps(r);
        /* Of those that are tried by themselves each comes once. */
        if (taken == 1) {
            r->uses[best->value->id].refused = use;
            first++;
        }
        taken = taken > 1 ? taken / 2 : first < count;
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
    going = (!r.variables || r.changed) && eitp__measure(&r) ? 1 : -1;
    if (going > 0)
        eitp__find_uses(&r);
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
    eitp__release(r.host, r.kept_owners, r.kept_owner_capacity * sizeof *r.kept_owners);
    eitp__release(r.host, r.kept_uses, r.kept_use_capacity * sizeof *r.kept_uses);
    eitp__release(r.host, r.gaps, r.gap_capacity * sizeof *r.gaps);
    eitp__release(r.host, r.closing, r.closing_capacity * sizeof *r.closing);
    eitp__release(r.host, r.added, r.added_capacity * sizeof *r.added);
    eitp__release(r.host, r.additions, r.addition_capacity * sizeof *r.additions);
    return going < 0 ? eitp__fail_memory(error, plan->step_count * sizeof *plan->steps, "what a plan computes again")
                     : EITP_OK;
}
