// Handlers
