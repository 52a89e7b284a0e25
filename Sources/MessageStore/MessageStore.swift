// MessageStore
