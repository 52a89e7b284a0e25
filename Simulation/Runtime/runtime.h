// Variables of Swift's runtime that have no public header, as functions with their addresses: `swift/Runtime/Concurrency.h`
// of the compiler's sources declares them.
#pragma once

extern void *swift_task_enqueueGlobal_hook;
extern void *swift_task_enqueueGlobalWithDelay_hook;
extern void *swift_task_enqueueGlobalWithDeadline_hook;

static inline void *simulation_enqueue_hook(void) { return &swift_task_enqueueGlobal_hook; }
static inline void *simulation_enqueue_with_delay_hook(void) { return &swift_task_enqueueGlobalWithDelay_hook; }
static inline void *simulation_enqueue_with_deadline_hook(void) { return &swift_task_enqueueGlobalWithDeadline_hook; }
