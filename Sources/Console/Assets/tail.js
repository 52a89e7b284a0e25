// Tail.
export function startTail() {}
