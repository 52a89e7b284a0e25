// Actions.
export function startActions() {}
